"""A mechanism as a Python script: for FlexAttention, for scaled_dot_product_attention, or in plain NumPy.

Each script runs on random example inputs, and defines `attention(query, key, value)` for arrays of shape (batch, heads,
tokens, width). Then it compares its weights with a dense reference (dense_check.py). It contains only numbers and the
code in this folder; the mask's description is in a comment.
"""

from collections.abc import Callable

from attnviz.export.dense_check import dense_scores, numpy_check, torch_check
from attnviz.export.formulas import ROOT, BiasCode, ScoreCode, bias_code, normalizer_code, score_code
from attnviz.export.layout import (
    MANY_SCORES,
    NUMPY,
    TORCH,
    Library,
    Target,
    call,
    comment,
    function,
    position_definitions,
    quotient,
    script,
)
from attnviz.export.rules import MaskCode, mask_code
from attnviz.masks import Mask
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Softmax, Uniform
from attnviz.scores import Additive, General

OUTPUT = '"""The output, of shape (batch, heads, queries, width of value)."""'
WEIGHTS = '"""The weights, of shape (batch, heads, queries, keys): zeros for a query that sees no key."""'
POLARITY = "# True: this query may attend to this key."
UNIFORM = "query = query.new_zeros(*query.shape[:-1], key.shape[-1])  # scores all keys alike"
DEVICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'
COMPILE = """\
# On a GPU, compile it once; as it stands it runs anywhere, but holds every score in memory:
# flex_attention = torch.compile(flex_attention)"""
COMPILED = """\
# The scores are too many to hold in memory, so they are computed in blocks, by a compiled kernel.
flex_attention = torch.compile(flex_attention)
create_block_mask = torch.compile(create_block_mask)"""


def flex_attention(
    mechanism: Mechanism, queries: int, keys: int, *, heads: int = 4, kv_heads: int | None = None, width: int = 16
) -> str:
    """Returns a script with PyTorch's FlexAttention: the mask as a mask_mod, biases as a score_mod.

    `heads`, `kv_heads` (by default as many) and `width` are the sizes of its example; what a score or a bias holds
    for each head is written for these sizes. Raises ValueError for what FlexAttention cannot do.

    Example:
        >>> from attnviz.masks import Causal
        >>> "return kv_idx <= q_idx" in flex_attention(Mechanism(mask=Causal()), 8, 8)
        True
    """
    target = _target(mechanism, queries, keys, heads, kv_heads, width, TORCH)
    rule = mask_code(mechanism.mask, queries, keys, heads, TORCH)
    compared, bias_codes, temperature = _fused("FlexAttention", mechanism, rule, target)
    body, definitions, options, scale = [], [], [], compared.scale
    if rule:
        description = comment(mechanism.mask.describe())
        body.append(function("mask_mod(b, h, q_idx, kv_idx)", [*description, *rule.lines("return ")]))
        definitions.append(f"block_mask = create_block_mask(mask_mod, {rule.sizes(target)}, device=device)")
        options.append("block_mask=block_mask")
    definitions += [line for code in bias_codes for line in code.counted]
    if definitions:
        body.append("\n".join(definitions))
    if bias_codes:
        lines = [line for code in bias_codes for line in (*code.lines, f"score = {code.result('score')}")]
        if temperature == 1:
            lines[-1] = lines[-1].replace("score =", "return", 1)
        else:
            lines.append(f"return {quotient('score', temperature)}")
        body.append(function("score_mod(score, b, h, q_idx, kv_idx)", lines))
        options.append("score_mod=score_mod")
    else:
        scale = quotient(scale, temperature)
    returned = call("flex_attention", _arguments(options, scale, target))
    body.append(function("attention(query, key, value)", [OUTPUT, *compared.lines, *returned]))
    allowed = ["allowed = mask_mod(b, h, q_idx, kv_idx)"] if rule else []
    body.append(dense_scores(compared, bias_codes, allowed, target))
    makers = [name for name in ("create_block_mask", "create_mask") if any(f"{name}(" in part for part in body)]
    imports = f"import torch\nfrom torch.nn.attention.flex_attention import {', '.join([*makers, 'flex_attention'])}"
    compiled = COMPILE if target.cells <= MANY_SCORES else COMPILED if rule else COMPILED.rsplit("\n", 1)[0]
    head = [DEVICE, compiled, *_definitions(compared, rule, bias_codes)]
    check = torch_check(mechanism, temperature, target)
    return script("PyTorch's FlexAttention", imports, head, body, target, check)


def sdpa(
    mechanism: Mechanism, queries: int, keys: int, *, heads: int = 4, kv_heads: int | None = None, width: int = 16
) -> str:
    """Returns a script with PyTorch's `scaled_dot_product_attention`: mask and biases as its attn_mask.

    Parameters as for `flex_attention`. Raises ValueError for what that function cannot do.

    Example:
        >>> from attnviz.masks import Causal
        >>> "allowed = kv_idx <= q_idx" in sdpa(Mechanism(mask=Causal()), 8, 8)
        True
    """
    target = _target(mechanism, queries, keys, heads, kv_heads, width, TORCH)
    rule = mask_code(mechanism.mask, queries, keys, heads, TORCH)
    compared, bias_codes, temperature = _fused("scaled_dot_product_attention", mechanism, rule, target)
    allowed = _allowed_lines(mechanism.mask, rule)
    lines, options = [*compared.lines, *allowed], []
    if rule:
        options = ["attn_mask=allowed"]
    if bias_codes:
        for i, (bias, code) in enumerate(zip(mechanism.biases, bias_codes, strict=True)):
            if not code.added:
                raise ValueError(
                    f"scaled_dot_product_attention can only add to scores, and {type(bias).__name__} changes them in "
                    "another way. Take FlexAttention or NumPy."
                )
            lines += [*code.lines, f"bias = {code.result('bias') if i else code.added}"]
        lines += [f"bias = {quotient('bias', temperature)}"] * (temperature != 1)
        lines += ["bias = torch.where(allowed, bias, -torch.inf)"] * bool(rule)
        options = ["attn_mask=bias.to(query.dtype)"]
    scale = quotient(compared.scale, temperature)
    lines += call("scaled_dot_product_attention", _arguments(options, scale, target))
    positions = position_definitions(lines, "torch.arange({}, device=device)")
    body = [
        function("attention(query, key, value)", [OUTPUT, *positions, *lines]),
        dense_scores(compared, bias_codes, allowed, target),
    ]
    imports = "import torch\nfrom torch.nn.functional import scaled_dot_product_attention"
    head = [DEVICE, *_definitions(compared, rule, bias_codes)]
    check = torch_check(mechanism, temperature, target)
    return script("PyTorch's scaled_dot_product_attention", imports, head, body, target, check)


def numpy(
    mechanism: Mechanism, queries: int, keys: int, *, heads: int = 4, kv_heads: int | None = None, width: int = 16
) -> str:
    """Returns a script in plain NumPy, with every stage as an array.

    Parameters as for `flex_attention`. Raises ValueError for weights too many to be written out.

    Example:
        >>> "np.exp(scores - greatest)" in numpy(Mechanism(), 8, 8)
        True
    """
    target = _target(mechanism, queries, keys, heads, kv_heads, width, NUMPY)
    rule = mask_code(mechanism.mask, queries, keys, heads, NUMPY)
    compared, bias_codes = score_code(mechanism.score, target), _bias_codes(mechanism, rule, target)
    lines, value = [], "value"
    if target.group_size > 1:
        lines = [f"key = np.repeat(key, {target.group_size}, axis=1)  # one for each head of queries"]
        value = f"np.repeat(value, {target.group_size}, axis=1)"
    lines += [*compared.lines, f"scores = {compared.product}", *_allowed_lines(mechanism.mask, rule)]
    for code in bias_codes:
        lines += [*code.counted, *code.lines, f"scores = {code.result('scores')}"]
    lines += ["scores = np.where(allowed, scores, -np.inf)"] * bool(rule)
    lines += normalizer_code(mechanism.normalizer, bool(rule))
    body = [
        function("attention_weights(query, key)", [WEIGHTS, *position_definitions(lines, "np.arange({})"), *lines]),
        function("attention(query, key, value)", [OUTPUT, f"return attention_weights(query, key) @ {value}"]),
    ]
    head = _definitions(compared, rule, bias_codes)
    return script("plain NumPy", "import numpy as np", head, body, target, numpy_check(mechanism, target))


# The order of the menu.
EXPORTS: dict[str, Callable[..., str]] = {"FlexAttention": flex_attention, "PyTorch SDPA": sdpa, "NumPy": numpy}


def _target(
    mechanism: Mechanism, queries: int, keys: int, heads: int, kv_heads: int | None, width: int, library: Library
) -> Target:
    """Returns a target of these sizes; weights given to a score determine the widths of queries and keys."""
    d_q, d_k = width, width
    match mechanism.score:
        case General(weight) if weight is not None:
            d_q, d_k = weight.shape
        case Additive(query_weight, key_weight):
            d_q = width if query_weight is None else query_weight.shape[1]
            d_k = width if key_weight is None else key_weight.shape[1]
    kv_heads = kv_heads or heads
    if heads % kv_heads:
        raise ValueError(f"{heads} heads of queries cannot share {kv_heads} of keys evenly. Take a multiple.")
    return Target(queries, keys, heads, kv_heads, d_q, d_k, width, library)


def _fused(
    name: str, mechanism: Mechanism, rule: MaskCode | None, target: Target
) -> tuple[ScoreCode, list[BiasCode], float]:
    """Returns score, biases and temperature for a function with built-in dot products and softmax. Raises ValueError if
    it cannot express the mechanism."""
    if isinstance(mechanism.normalizer, Uniform):  # whatever scores and biases are
        return ScoreCode(ROOT, (UNIFORM,)), [], 1.0
    if not isinstance(mechanism.normalizer, Softmax):
        kind = type(mechanism.normalizer).__name__
        raise ValueError(f"{name} always takes a softmax, and {kind} is another normalizer. Take NumPy.")
    if isinstance(mechanism.score, Additive):
        raise ValueError(f"{name} compares by dot products, and Additive is a small network. Take NumPy.")
    bias_codes = _bias_codes(mechanism, rule, target)
    return score_code(mechanism.score, target), bias_codes, float(mechanism.normalizer.temperature)


def _bias_codes(mechanism: Mechanism, rule: MaskCode | None, target: Target) -> list[BiasCode]:
    numbered = len(mechanism.biases) > len({type(bias) for bias in mechanism.biases})
    return [bias_code(bias, rule, f"_{i}" * numbered, target) for i, bias in enumerate(mechanism.biases, start=1)]


def _definitions(compared: ScoreCode, rule: MaskCode | None, codes: list[BiasCode]) -> list[str]:
    """Returns the definitions above the functions."""
    tables = rule.definitions() if rule else []
    return [*compared.definitions, *tables, *(line for code in codes for line in code.definitions)]


def _allowed_lines(mask: Mask, rule: MaskCode | None) -> list[str]:
    return [*comment(mask.describe()), POLARITY, *rule.lines("allowed = ")] if rule else []


def _arguments(options: list[str], scale: str, target: Target) -> list[str]:
    scaled = [f"scale={scale}"] * (scale != ROOT)
    return ["query", "key", "value", *options, *scaled, *["enable_gqa=True"] * (target.group_size > 1)]
