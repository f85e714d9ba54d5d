"""A mechanism as a program to take away: for FlexAttention, for scaled_dot_product_attention, or in plain NumPy.

Each program runs by itself, on example numbers, and defines `attention(query, key, value)` for arrays of shape
(batch, heads, tokens, width). It is made of numbers and of the words in this folder alone; a mask's description stands
in a comment.
"""

from collections.abc import Callable

from attnviz.export.formulas import ROOT, Change, Similarity, of_bias, of_normalizer, of_score
from attnviz.export.layout import NUMPY, TORCH, Example, Library, call, comment, divided, function, indices, program
from attnviz.export.rules import Rule, written
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
IDENTITY = """\
# It does not say its weights, but with the identity for values the output is the weights.
identity = torch.eye({keys}, device=device).expand(1, {heads}, -1, -1)
print("weights", tuple(attention(query, key, identity).shape))"""


def flex_attention(
    mechanism: Mechanism, queries: int, keys: int, *, heads: int = 4, kv_heads: int | None = None, width: int = 16
) -> str:
    """A program with PyTorch's FlexAttention: the mask as a mask_mod, biases as a score_mod.

    `heads`, `kv_heads` (as many, if not given) and `width` are those of its example, and of what a mask, a score or
    a bias holds for each of them. Raises ValueError, in words, for what FlexAttention cannot do.
    """
    example = _example(mechanism, queries, keys, heads, kv_heads, width, TORCH)
    rule = written(mechanism.mask, queries, keys, heads, TORCH)
    compared, changes, temperature = _fused("FlexAttention", mechanism, rule, example)
    body, made, options, scale = [], [], [], compared.scale
    if rule:
        said = comment(mechanism.mask.describe())
        body.append(function("mask_mod(b, h, q_idx, kv_idx)", [*said, *rule.lines("return ")]))
        made.append(f"block_mask = create_block_mask(mask_mod, {rule.sizes(example)}, device=device)")
        options.append("block_mask=block_mask")
    made += [line for change in changes for line in change.counted]
    if made:
        body.append("\n".join(made))
    if changes:
        lines = [line for change in changes for line in (*change.lines, f"score = {change.result('score')}")]
        if temperature == 1:
            lines[-1] = lines[-1].replace("score =", "return", 1)
        else:
            lines.append(f"return {divided('score', temperature)}")
        body.append(function("score_mod(score, b, h, q_idx, kv_idx)", lines))
        options.append("score_mod=score_mod")
    else:
        scale = divided(scale, temperature)
    returned = call("flex_attention", _arguments(options, scale, example))
    body.append(function("attention(query, key, value)", [OUTPUT, *compared.lines, *returned]))
    makers = [name for name in ("create_block_mask", "create_mask") if any(f"{name}(" in part for part in body)]
    imports = f"import torch\nfrom torch.nn.attention.flex_attention import {', '.join([*makers, 'flex_attention'])}"
    head = [DEVICE, COMPILE, *_definitions(compared, rule, changes)]
    return program("PyTorch's FlexAttention", imports, head, body, example)


def sdpa(
    mechanism: Mechanism, queries: int, keys: int, *, heads: int = 4, kv_heads: int | None = None, width: int = 16
) -> str:
    """A program with PyTorch's `scaled_dot_product_attention`: mask and biases as its attn_mask.

    Parameters as for `flex_attention`. Raises ValueError, in words, for what that function cannot do.
    """
    example = _example(mechanism, queries, keys, heads, kv_heads, width, TORCH)
    rule = written(mechanism.mask, queries, keys, heads, TORCH)
    compared, changes, temperature = _fused("scaled_dot_product_attention", mechanism, rule, example)
    lines, options = [*compared.lines, *_allowed(mechanism.mask, rule)], []
    if rule:
        options = ["attn_mask=allowed"]
    if changes:
        for i, (bias, change) in enumerate(zip(mechanism.biases, changes, strict=True)):
            if not change.added:
                raise ValueError(
                    f"scaled_dot_product_attention can only add to scores, and {type(bias).__name__} changes them in "
                    "another way. Take FlexAttention or NumPy."
                )
            lines += [*change.lines, f"bias = {change.result('bias') if i else change.added}"]
        lines += [f"bias = {divided('bias', temperature)}"] * (temperature != 1)
        lines += ["bias = torch.where(allowed, bias, -torch.inf)"] * bool(rule)
        options = ["attn_mask=bias.to(query.dtype)"]
    scale = divided(compared.scale, temperature)
    lines += call("scaled_dot_product_attention", _arguments(options, scale, example))
    positions = indices(lines, "torch.arange({}, device=device)")
    body = [function("attention(query, key, value)", [OUTPUT, *positions, *lines])]
    imports = "import torch\nfrom torch.nn.functional import scaled_dot_product_attention"
    head = [DEVICE, *_definitions(compared, rule, changes)]
    more = IDENTITY.format(keys=keys, heads=example.kv_heads).splitlines()
    return program("PyTorch's scaled_dot_product_attention", imports, head, body, example, more)


def numpy(
    mechanism: Mechanism, queries: int, keys: int, *, heads: int = 4, kv_heads: int | None = None, width: int = 16
) -> str:
    """A program in plain NumPy, where every stage can be looked at.

    Parameters as for `flex_attention`. Raises ValueError, in words, for weights too many to be written out.
    """
    example = _example(mechanism, queries, keys, heads, kv_heads, width, NUMPY)
    rule = written(mechanism.mask, queries, keys, heads, NUMPY)
    compared, changes = of_score(mechanism.score, example), _changes(mechanism, rule, example)
    lines, value = [], "value"
    if example.shared > 1:
        lines = [f"key = np.repeat(key, {example.shared}, axis=1)  # one for each head of queries"]
        value = f"np.repeat(value, {example.shared}, axis=1)"
    lines += [*compared.lines, f"scores = {compared.product}", *_allowed(mechanism.mask, rule)]
    for change in changes:
        lines += [*change.counted, *change.lines, f"scores = {change.result('scores')}"]
    lines += ["scores = np.where(allowed, scores, -np.inf)"] * bool(rule)
    lines += of_normalizer(mechanism.normalizer, bool(rule))
    body = [
        function("attention_weights(query, key)", [WEIGHTS, *indices(lines, "np.arange({})"), *lines]),
        function("attention(query, key, value)", [OUTPUT, f"return attention_weights(query, key) @ {value}"]),
    ]
    more = ['print("weights", attention_weights(query, key).shape)']
    head = _definitions(compared, rule, changes)
    return program("plain NumPy", "import numpy as np", head, body, example, more)


# The order of the menu.
PROGRAMS: dict[str, Callable[..., str]] = {"FlexAttention": flex_attention, "PyTorch SDPA": sdpa, "NumPy": numpy}


def _example(
    mechanism: Mechanism, queries: int, keys: int, heads: int, kv_heads: int | None, width: int, library: Library
) -> Example:
    """An example of these sizes; weights that a score was given say how wide queries and keys are."""
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
    return Example(queries, keys, heads, kv_heads, d_q, d_k, width, library)


def _fused(
    name: str, mechanism: Mechanism, rule: Rule | None, example: Example
) -> tuple[Similarity, list[Change], float]:
    """Score, biases and temperature for a function that multiplies, and ends in a softmax.

    Raises ValueError where it cannot do what the mechanism does.
    """
    if isinstance(mechanism.normalizer, Uniform):  # whatever scores and biases are
        return Similarity(ROOT, (UNIFORM,)), [], 1.0
    if not isinstance(mechanism.normalizer, Softmax):
        kind = type(mechanism.normalizer).__name__
        raise ValueError(f"{name} always takes a softmax, and {kind} is another normalizer. Take NumPy.")
    if isinstance(mechanism.score, Additive):
        raise ValueError(f"{name} compares by dot products, and Additive is a small network. Take NumPy.")
    changes = _changes(mechanism, rule, example)
    return of_score(mechanism.score, example), changes, float(mechanism.normalizer.temperature)


def _changes(mechanism: Mechanism, rule: Rule | None, example: Example) -> list[Change]:
    numbered = len(mechanism.biases) > len({type(bias) for bias in mechanism.biases})
    return [of_bias(bias, rule, f"_{i}" * numbered, example) for i, bias in enumerate(mechanism.biases, start=1)]


def _definitions(compared: Similarity, rule: Rule | None, changes: list[Change]) -> list[str]:
    """What stands above the functions."""
    tables = rule.definitions() if rule else []
    return [*compared.definitions, *tables, *(line for change in changes for line in change.definitions)]


def _allowed(mask: Mask, rule: Rule | None) -> list[str]:
    return [*comment(mask.describe()), POLARITY, *rule.lines("allowed = ")] if rule else []


def _arguments(options: list[str], scale: str, example: Example) -> list[str]:
    scaled = [f"scale={scale}"] * (scale != ROOT)
    return ["query", "key", "value", *options, *scaled, *["enable_gqa=True"] * (example.shared > 1)]
