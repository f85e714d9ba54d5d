"""What of a metric a corrupted run recovers with a part of a clean run (activation patching)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.parts import (
    OF_HEADS,
    OF_KEYS,
    Head,
    ModelPart,
    PartReplacement,
    Parts,
    Site,
    changed_parts,
    check_patterns,
    checked_heads,
    every_head,
    groups_of,
    layer_of,
    own_values,
    site_values,
)
from attnviz.effects.sweep import Run
from attnviz.effects.text_pair import Cell, OnPatching, Patching, TextPair
from attnviz.effects.token_alignment import Alignment
from attnviz.models.texts import PerText, each_group

SAME = 1e-5  # the difference of vectors, as a share, that comes from rounding

PatchedPart: TypeAlias = Literal["output", "query", "key", "value", "pattern", "mlp", "residual"]


@each_group
def patch(
    model: nn.Module,
    clean: Any,
    corrupted: Any,
    metric: EffectMetric,
    what: PatchedPart = "output",
    *,
    positions: bool = False,
    heads: Sequence[Head] | None = None,
    aligned: Alignment | None = None,
    on_progress: OnPatching | None = None,
) -> Patching | PerText[Patching]:
    """Returns the metric of a corrupted text where a part of its run is taken from that of a clean text.

    - "output": the output of a head, before its projection
    - "query", "key", "value": what a head reads, with its rotary position; heads that share a key or value with it keep
      theirs
    - "pattern": the weights of a head, which weigh the values of the corrupted run
    - "mlp": the output of an MLP at a position; values are (mlps, positions)
    - "residual": the residual stream before a layer at a position; values are (layers, positions)

    Values of heads are (layers, heads), and with `positions` (layers, heads, positions): a part is taken at one
    position, of the query for output, query and pattern, of the key for key and value. `heads` are those to patch, by
    default all. Positions are those of the corrupted text.

    Texts of different lengths need `aligned`, pairs of positions as `alignment` gives them; what belongs to nothing is
    not patched. The positions of the metric are those of the clean text, and in the corrupted text those aligned with
    them; the last belongs to the last. In a model with an encoder and a decoder, pairs are of the encoder's tokens, and
    the decoder reads as many in both. KL and Cosine compare with the clean run. `on_progress` gets the share that is
    done and the values so far, and ends the computation by an exception.

    Raises ValueError if texts are not aligned, if there is no such head, if the model has not what the metric is of,
    or if what is patched is not known (Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal
    Mediation Analysis"; Heimersheim & Nanda 2024, "How to use and interpret activation patching").

    Example:
        >>> import torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from attnviz.attribution import Logit
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> patch(model, torch.tensor([[1, 2, 3]]), torch.tensor([[1, 5, 3]]), Logit(4)).recovered.shape
        torch.Size([2, 2])
    """
    if what not in get_args(PatchedPart):
        choices = ", ".join(f"“{part}”" for part in get_args(PatchedPart))
        raise value_error("What is patched is {choices}; this is “{what}”.", choices=choices, what=what)
    pair = TextPair.from_batches(model, clean, corrupted, aligned)
    text, own = pair.corrupted, pair.corrupted.own
    if what == "mlp" or what == "residual":
        places = text.mlps if what == "mlp" else text.streams
        if not places:
            raise value_error(
                "The layers of {name} are not known, or have no MLP, so that nothing can be patched between them. "
                "Choose a part of a head.",
                name=type(model).__name__,
            )
        shape, layers = (len(places), max(own.positions)), [place.layer for place in places]
        parts = [ModelPart(what, number) for number in range(len(places))]
        return pair.patching(metric, shape, _cells(pair, parts, by_position=True), layers, on_progress)
    parts = [ModelPart(what, *head) for head in (every_head(text) if heads is None else checked_heads(text, heads))]
    cells = _cells(pair, parts, positions)
    counts = [max([max(own.positions), *(cell[-1] + 1 for cell in cells)])] if positions else []
    return pair.patching(metric, (len(own.heads), max(own.heads), *counts), cells, on_progress=on_progress)


@each_group
def patch_parts(
    model: nn.Module,
    clean: Any,
    corrupted: Any,
    metric: EffectMetric,
    parts: Parts,
    *,
    aligned: Alignment | None = None,
    on_progress: OnPatching | None = None,
) -> Patching | PerText[Patching]:
    """Returns the metric of a corrupted text where parts of its run are those of a clean text's: values are (parts,),
    of one part each, or of a collection of parts that are patched at once. Positions of parts are those of the
    corrupted text. Otherwise as `patch`, whose errors it raises; also raises ValueError if there is no such part.

    Example:
        >>> import torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from attnviz.attribution import Logit
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> mlps = [ModelPart("mlp", 0, positions=(-1,)), ModelPart("mlp", 1, positions=(-1,))]
        >>> parts = [ModelPart("output", 1, 0), mlps, ModelPart("residual", 1)]
        >>> patch_parts(model, torch.tensor([[1, 2, 3]]), torch.tensor([[1, 5, 3]]), Logit(4), parts).values.shape
        torch.Size([3])
    """
    pair = TextPair.from_batches(model, clean, corrupted, aligned)
    groups = groups_of(pair.corrupted, parts)
    runs = _runs(pair, groups, _values(pair, groups))
    cells: dict[Cell, Run] = {(number,): run for number, run in enumerate(runs)}
    layers = [min((layer_of(pair.corrupted, part.site) for part in group), default=0) for group in groups]
    return pair.patching(metric, (len(groups),), cells, layers, on_progress)


def _cells(pair: TextPair, parts: Sequence[ModelPart], by_position: bool) -> dict[Cell, Run]:
    """Returns the run of each part, or of each part and position, in which it is that of the clean run."""
    values = _values(pair, [parts])
    if by_position:
        parts = [
            replace(part, positions=(target,))
            for part in parts
            for target in _pairs(pair, part, len(values[0][part.site]) // len(pair.clean.each))[:, 1].tolist()
        ]
    runs = _runs(pair, [[part] for part in parts], values)
    return {
        (part.layer, *([part.index] if part.kind in OF_HEADS else []), *(part.positions or ())): run
        for part, run in zip(parts, runs, strict=True)
    }


def _values(pair: TextPair, groups: Sequence[Sequence[ModelPart]]) -> tuple[dict[Site, Tensor], dict[Site, Tensor]]:
    """Returns what the sites of parts are in the clean and in the corrupted run. Raises ValueError for patterns of
    different lengths."""
    sites = {part.site for group in groups for part in group}
    is_aligned = all(clean == corrupted for clean, corrupted in pair.aligned or ())
    check_patterns(pair.corrupted, pair.clean, sites, is_aligned)
    return site_values(pair.clean, sites), site_values(pair.corrupted, sites)


def _pairs(pair: TextPair, part: ModelPart, count: int) -> Int[Tensor, "pairs 2"]:
    """Returns pairs of positions (clean, corrupted) of a part, which has `count` of them in the clean text."""
    pairs = pair.positions(layer_of(pair.corrupted, part.site), count, of_keys=part.kind in OF_KEYS)
    return pairs if part.positions is None else pairs[torch.isin(pairs[:, 1], torch.tensor(part.positions))]


def _runs(
    pair: TextPair, groups: Sequence[Sequence[ModelPart]], values: tuple[dict[Site, Tensor], dict[Site, Tensor]]
) -> list[Run]:
    """Returns the runs in which the parts of each group are those of the clean run; nothing is changed where they are
    the same in both."""

    def replacement(part: ModelPart) -> PartReplacement | None:
        other, own = (own_values(pair.corrupted, each, part) for each in values)
        counts = [len(values) // len(pair.clean.each) for values in (other, own)]
        source, target = (pairs := pair.clean.at_all(_pairs(pair, part, counts[0]), *counts)).unbind(-1)
        if not len(pairs) or torch.allclose(other[source], own[target], SAME, SAME * float(own[target].abs().max())):
            return None
        return PartReplacement(other, pairs)

    several = [{part: replacement(part) for part in group} for group in groups]
    return [changed_parts(pair.corrupted, {part: one for part, one in each.items() if one}) for each in several]
