"""Names of the patches of a picture, by their places in it."""

from collections.abc import Iterable
from dataclasses import replace

from torch import nn

from attnviz.layer import Layer
from attnviz.masks import Full

MOST_BEFORE = 16  # tokens that a model may put before the patches


def patch_names(rows: int, columns: int) -> tuple[str, ...]:
    """Returns the names of patches in reading order.

    Example:
        >>> patch_names(1, 3)
        ('0·0', '0·1', '0·2')
    """
    return tuple(f"{row}·{column}" for row in range(rows) for column in range(columns))


def patches_of(modules: Iterable[nn.Module]) -> tuple[str, ...]:
    """Returns the names of the patches that a module of a model makes, as timm's PatchEmbed; none if there is none."""
    for module in modules:
        match getattr(module, "grid_size", None):
            case (int(rows), int(columns)) if isinstance(getattr(module, "proj", None), nn.Conv2d):
                return patch_names(rows, columns)
    return ()


def with_patch_names(layer: Layer, patches: tuple[str, ...]) -> Layer:
    """Returns a layer with the names of the patches on each axis that they fit, after tokens before the patches.

    Not if some tokens cannot attend to each other: such a model has split the picture into windows and reordered its
    tokens.
    """
    inputs = layer.inputs
    if layer.mechanism.mask != Full() or (layer.locked and bool((inputs.query == 0).any())):
        return layer
    query_tokens, special_queries = _fitting(inputs.queries, patches, inputs.query_tokens, inputs.special_queries)
    key_tokens, special_keys = _fitting(inputs.keys, patches, inputs.key_tokens, inputs.special_keys)
    inputs = replace(
        inputs,
        query_tokens=query_tokens,
        key_tokens=key_tokens,
        special_queries=special_queries,
        special_keys=special_keys,
    )
    return replace(layer, inputs=inputs)


def _fitting(
    count: int, patches: tuple[str, ...], tokens: tuple[str, ...], special: tuple[int, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    before = count - len(patches)
    if not 0 <= before <= MOST_BEFORE or tokens != tuple(map(str, range(count))):  # the tokens of a text stay
        return tokens, special
    first = ("[CLS]", *(f"[{i}]" for i in range(1, before)))[:before]
    return (*first, *patches), tuple(range(before))
