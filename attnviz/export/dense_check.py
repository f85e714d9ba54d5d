"""The check at the end of a script: its weights against a dense reference, where that is affordable."""

import textwrap

import numpy as np
import torch

from attnviz.export.formulas import BiasCode, ScoreCode
from attnviz.export.layout import (
    COLUMNS,
    Target,
    comma_separated,
    function,
    indented,
    position_definitions,
    quotient,
)
from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism

MOST_CELLS = 2**21  # scores of the reference
MOST_WEIGHTS = 2**19  # that are computed here, for a script to compare with
MOST_COLUMNS = 64  # keys whose weights are compared
SCORES = '"""The scores of the queries at these rows with all keys, −∞ where they may not attend."""'


def dense_scores(compared: ScoreCode, codes: list[BiasCode], allowed: list[str], target: Target) -> str:
    """Returns a function for torch that computes whole rows of scores; `allowed` are the lines that define it."""
    lines = [f"key = key.repeat_interleave({target.group_size}, dim=1)"] * (target.group_size > 1)
    lines += [*compared.lines, f"scores = {compared.product}"]
    lines += [line for code in codes for line in (*code.lines, f"scores = {code.result('scores')}")]
    positions = position_definitions([*lines, *allowed], "torch.arange({}, device=device)")
    positions = ["q_idx = rows[:, None]" if line.startswith("q_idx") else line for line in positions]
    masked = "torch.where(allowed, scores, -torch.inf)" if allowed else "scores"
    body = ["query = query[:, :, rows]", *positions, *lines, *allowed, f"return {masked}"]
    return function("dense_scores(query, key, rows)", [SCORES, *body])


def torch_check(mechanism: Mechanism, temperature: float, target: Target) -> list[str]:
    """Returns lines that compare the weights of some queries and keys, or of all, with a softmax of dense scores."""
    rows = _range(target.queries, max(1, MOST_CELLS // (target.heads * target.keys)))
    columns = _range(target.keys, MOST_COLUMNS)
    scores = quotient("scores", temperature)
    return [
        "# With columns of the identity as values, the output is the weights of these keys.",
        f"columns = {_arange(columns)}",
        f"identity = (torch.arange({target.keys}, device=device)[:, None] == columns).to(value.dtype)",
        f"weights = attention(query, key, identity.expand(1, {target.kv_heads}, -1, -1))",
        "# They are compared with a softmax of all scores of these queries, 0 where a query sees no key.",
        f"rows = {_arange(rows)}",
        "scores = dense_scores(query, key, rows)",
        f"expected = torch.softmax({scores}, dim=-1).nan_to_num()[..., columns]",
        "torch.testing.assert_close(weights[:, :, rows], expected, rtol=1e-3, atol=1e-6)",
        f"assert (scores > -torch.inf).sum() == {_count_allowed(mechanism, rows, target)}  # pairs, as attnviz counts",
        f'print("weights of {len(rows)} queries and {len(columns)} keys agree with a dense softmax")',
    ]


def numpy_check(mechanism: Mechanism, target: Target) -> list[str]:
    """Returns lines that compare the weights with those that attnviz computes; none if these are too many."""
    lines = ["weights = attention_weights(query, key)", 'print("weights", weights.shape)']
    if target.cells > MOST_WEIGHTS:
        return [*lines, f"# These are too many to compare: attnviz compares up to {MOST_WEIGHTS:,} weights."]
    random = np.random.default_rng(0)
    shapes = (1, target.heads, target.queries, target.d_q), (1, target.kv_heads, target.keys, target.d_k)
    query, key = (torch.from_numpy(random.standard_normal(shape))[0].float() for shape in shapes)
    inputs = Inputs(query, key, key, ("",) * target.queries, ("",) * target.keys)
    expected = (mechanism(inputs).weights.double() @ torch.arange(target.keys).double()).mean(-1)
    numbers = comma_separated(round(each, 4) for each in expected.tolist())
    return [
        *lines,
        "# For these random numbers, attnviz has this mean over queries of weight × position.",
        f"mean = (weights @ np.arange({target.keys})).mean((0, 2))",
        *["expected = [", *indented(textwrap.wrap(numbers, COLUMNS - 8)), "]"],
        "np.testing.assert_allclose(mean, expected, rtol=1e-3, atol=1e-3)",
        'print("the mean of weight × position agrees with attnviz in every head")',
    ]


def _range(count: int, most: int) -> range:
    """Returns at most `most` of `count` positions, evenly spaced, with the last."""
    step = -(-count // most)
    return range((count - 1) % step, count, step)


def _arange(positions: range) -> str:
    numbers = [positions.start, positions.stop, positions.step]
    arguments = numbers if positions.step > 1 else numbers[1:2]
    return f"torch.arange({comma_separated(arguments)}, device=device)"


def _count_allowed(mechanism: Mechanism, rows: range, target: Target) -> int:
    bound = mechanism.mask.bind(target.queries, target.keys, target.heads)
    b, h, k = torch.tensor(0), torch.arange(target.heads)[:, None, None], torch.arange(target.keys)
    allowed = bound(b, h, torch.tensor(rows)[:, None], k)
    return int(allowed.expand(target.heads, len(rows), target.keys).sum())
