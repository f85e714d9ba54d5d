"""What of a metric a corrupted run recovers with a part of a clean run (activation patching)."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.effects.ablation import Head, checked_heads, every_head
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.sweep import ModulePlace, RunChange, Text
from attnviz.effects.text_pair import Cell, OnPatching, Patching, TextPair
from attnviz.effects.token_alignment import Alignment
from attnviz.models.texts import each_text
from attnviz.tracing.changed_run import LayerChange, LayerHeads, run_changed

SAME = 1e-5  # the difference of vectors, as a share, that comes from rounding

HeadPart: TypeAlias = Literal["output", "query", "key", "value", "pattern"]
PatchedPart: TypeAlias = Literal["output", "query", "key", "value", "pattern", "mlp", "residual"]


@each_text
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
) -> Patching:
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
    own = pair.corrupted.own
    if what == "mlp" or what == "residual":
        places = pair.corrupted.mlps if what == "mlp" else pair.corrupted.streams
        if not places:
            raise value_error(
                "The layers of {name} are not known, or have no MLP, so that nothing can be patched between them. "
                "Choose a part of a head.",
                name=type(model).__name__,
            )
        shape, layers = (len(places), max(own.positions)), [place.layer for place in places]
        return pair.patching(metric, shape, _patched_modules(pair, places), layers, on_progress)
    chosen = every_head(pair.corrupted) if heads is None else checked_heads(pair.corrupted, heads)
    cells = _patched_heads(pair, what, chosen, positions)
    counts = [max([max(own.positions), *(cell[-1] + 1 for cell in cells)])] if positions else []
    return pair.patching(metric, (len(own.heads), max(own.heads), *counts), cells, on_progress=on_progress)


def head_part(what: HeadPart, layer: LayerHeads, sequences: slice) -> Float[Tensor, "sequences heads positions width"]:
    """Returns what heads of a layer write or read, or their weights; keys and values may be of fewer heads."""
    match what:
        case "output":
            return layer.output[sequences].transpose(1, 2)
        case "pattern":
            return layer.attention(layer.call(), sequences)[1]
    part: Tensor = getattr(layer.call(), what)
    return part[sequences]


def head_parts(
    text: Text, what: HeadPart, layers: Collection[int]
) -> dict[int, Float[Tensor, "sequences heads positions width"]]:
    """Returns that of the heads of some layers where nothing is changed. Raises ValueError for a layer that does not
    expose it."""
    parts: dict[int, Tensor] = {}

    def change(index: int, heads: int) -> LayerChange | None:
        def keep(layer: LayerHeads) -> None:
            parts[index] = head_part(what, layer, slice(None)).clone()

        def keep_weights(weights: Tensor) -> None:
            parts[index] = weights.clone()

        return LayerChange(heads=keep, weights=keep_weights if what == "pattern" else None) if index in layers else None

    run_changed(text.model, text.arguments, change)
    return parts


def select_head(head: int, heads: int, part: Float[Tensor, "sequences heads …"]) -> Float[Tensor, "sequences …"]:
    """Returns the part of one head of `heads`, which may share it with others."""
    return part[:, head // (heads // part.shape[1])]


def set_positions(
    own: Float[Tensor, "sequences positions width"], other: Tensor, positions: Int[Tensor, "pairs 2"]
) -> None:
    """Sets numbers of another run in place, at pairs of positions (other, own); sequences follow each other."""
    source, target = positions.unbind(-1)
    other_places, places = (
        (place // part.shape[1], place % part.shape[1]) for place, part in ((source, other), (target, own))
    )
    own[places] = other[other_places].to(own)


def patched_head(what: HeadPart, layer: int, head: int, part: Tensor, positions: Int[Tensor, "pairs 2"]) -> RunChange:
    """Returns the run in which a head alone has a part (sequences, positions, width) of another run, at pairs of
    positions (other, own)."""

    def change_heads(_layer: int, heads: LayerHeads, example: int) -> None:
        sequences, count = heads.sequences(example), heads.output.shape[2]
        written = heads.output[sequences, :, head]
        if what == "output":
            set_positions(written, part, positions)
        elif what == "pattern":
            weights = heads.attention(heads.call(), sequences)[1][:, head].clone()
            set_positions(weights, part, positions)
            written[:] = weights @ heads.values(head, sequences)
        else:
            call = heads.call()
            read = getattr(call, what).clone()
            set_positions(select_head(head, count, read)[sequences], part, positions)
            written[:] = heads.attention(replace(call, **{what: read}), sequences)[0][:, :, head]

    def change_weights(_layer: int, weights: Tensor) -> None:
        set_positions(weights[:, head], part, positions)

    return RunChange((layer,), change_heads, change_weights if what == "pattern" else None)


def _patched_heads(
    pair: TextPair, what: HeadPart, heads: Sequence[Head], by_position: bool
) -> dict[Cell, RunChange | None]:
    """Returns the run of each head in which a part is that of the clean run, or of each head and position."""
    if what == "pattern" and (
        pair.clean.own.positions != pair.corrupted.own.positions
        or any(clean != corrupted for clean, corrupted in pair.aligned or ())
        or not all(torch.equal(pair.clean.read(layer), pair.corrupted.read(layer)) for layer, _head in heads)
    ):
        raise value_error(
            "A pattern is taken from a text of the same number of tokens, aligned position by position. Choose another "
            "part."
        )
    parts = head_parts(pair.clean, what, {layer for layer, _head in heads})
    cells: dict[Cell, RunChange | None] = {}
    for layer, head in heads:
        part = select_head(head, pair.clean.heads[layer], parts[layer])
        positions = pair.positions(layer, part.shape[:2].numel(), of_keys=what in ("key", "value"))
        if not by_position:
            cells[layer, head] = patched_head(what, layer, head, part, positions)
        for each in positions if by_position else ():
            cells[layer, head, int(each[1])] = patched_head(what, layer, head, part, each[None])
    return cells


def _patched_modules(pair: TextPair, places: Sequence[ModulePlace]) -> dict[Cell, RunChange | None]:
    """Returns the run of each module and position in which it reads or returns what it does in the clean run; None
    where that is the same in both."""
    cells: dict[Cell, RunChange | None] = {}
    read = (text.module_values(places) for text in (pair.clean, pair.corrupted))
    for number, (place, clean, corrupted) in enumerate(zip(places, *read, strict=True)):
        for source, target in pair.positions(place.layer, len(clean)).tolist():

            def change(values: Tensor, vector: Tensor = clean[source], target: int = target) -> None:
                values[target] = vector

            is_same = torch.allclose(
                clean[source], corrupted[target], SAME, SAME * float(corrupted[target].abs().max())
            )
            cells[number, target] = None if is_same else RunChange(module=place, values=change)
    return cells
