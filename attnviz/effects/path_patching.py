"""What of a metric a corrupted run recovers by a direct path from one head to another (path patching)."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.effects.ablation import Head, checked_heads, every_head, mean_effects, replaced_heads, written_by
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.patching import head_part, head_parts, patched_head, select_head, set_positions
from attnviz.effects.sweep import Run, RunChange, Text
from attnviz.effects.text_pair import Cell, OnPatching, Patching, TextPair
from attnviz.effects.token_alignment import Alignment
from attnviz.models.texts import each_text
from attnviz.tracing.changed_run import LayerHeads

ReceivedPart: TypeAlias = Literal["query", "key", "value"]


@each_text
def patch_paths(
    model: nn.Module,
    clean: Any,
    corrupted: Any,
    metric: EffectMetric,
    receiver: Head,
    what: ReceivedPart = "query",
    *,
    aligned: Alignment | None = None,
    on_progress: OnPatching | None = None,
) -> Patching:
    """Returns the metric of a corrupted text where a head, the receiver, gets the query, key or value that it would
    have if a head of a layer before it, the sender, wrote what it writes in a clean text: values are (layers, heads) of
    the senders.

    Paths are direct: between both, all other heads and MLPs write what they write in the corrupted text (Wang et al.
    let MLPs compute anew, so that their paths lead over them), and norms take their scale from the changed stream.
    Heads that share the receiver's key or value keep theirs. Arguments are those of `patch`, as are its errors; also
    raises ValueError if no layer is before the receiver, and where MLPs are not
    known, as `attnviz.attribute` does (Wang et al. 2022, "Interpretability in the Wild"; Goldowsky-Dill et al. 2023,
    "Localizing Model Behavior with Path Patching").
    """
    pair = TextPair.from_batches(model, clean, corrupted, aligned)
    text, [(layer, head)] = pair.corrupted, checked_heads(pair.corrupted, [receiver])
    senders = [sender for sender in every_head(text) if sender[0] < layer]
    if what not in get_args(ReceivedPart) or not senders:
        raise value_error(
            "A path leads from a head to the query, key or value of a head in a later layer; this is the {what} of "
            "layer {layer}.",
            what=what,
            layer=layer,
        )
    sent, own = (head_parts(each, "output", range(layer)) for each in (pair.clean, text))
    mlps = [mlp for mlp in text.mlps if mlp.layer < layer]
    fixed = [written_by(mlp, written) for mlp, written in zip(mlps, text.module_values(mlps), strict=True)]
    received: dict[Head, Tensor] = {}

    def path(sender: Head) -> Run:
        first, number = sender

        def change_heads(index: int, heads: LayerHeads, example: int) -> None:
            sequences = heads.sequences(example)
            if index == layer:
                received[sender] = select_head(head, heads.output.shape[2], head_part(what, heads, sequences)).clone()
                return
            heads.output[sequences] = own[index].transpose(1, 2)
            if index == first:
                part = sent[index][:, number]
                positions = pair.positions(index, part.shape[:2].numel())
                set_positions(heads.output[sequences, :, number], part, positions)

        between = [change for change in fixed if change.first_layer >= first]
        return [RunChange(range(first, layer + 1), change_heads), *between]

    def progress(start: float, share: float, patching: Patching) -> None:
        if on_progress:
            on_progress((start + share) / 2, patching)

    shape = len(text.heads), max(text.heads)
    unknown = pair.patching(metric, shape, {})
    paths = [path(sender) for sender in senders]
    text.effects(pair.metric_of_corrupted(metric), paths, lambda share, _: progress(0, share, unknown))
    cells: dict[Cell, RunChange | None] = {
        sender: patched_head(what, layer, head, part, torch.arange(part.shape[:2].numel())[:, None].expand(-1, 2))
        for sender, part in received.items()
    }
    return pair.patching(metric, shape, cells, on_progress=lambda share, patching: progress(1, share, patching))


def direct_effects(
    text: Text, metric: EffectMetric, heads: Sequence[Head], replacements: Sequence[Sequence[Tensor | None]]
) -> Float[Tensor, " heads"]:
    """Returns the effects of ablating each of some heads where all heads and MLPs after it write what they write with
    it, so that what changes comes by the direct path; NaN where heads or MLPs of the model are not known."""
    try:
        own, mlps = head_parts(text, "output", range(len(text.heads))), text.mlps
    except ValueError:
        return torch.full((len(heads),), torch.nan, dtype=torch.float64)
    fixed = [written_by(mlp, written) for mlp, written in zip(mlps, text.module_values(mlps), strict=True)]

    def path(place: Head, outputs: Sequence[Tensor | None]) -> Run:
        ablated = replaced_heads([place], outputs)

        def change_heads(layer: int, run: LayerHeads, example: int) -> None:
            if layer == place[0]:
                assert ablated.heads is not None
                ablated.heads(layer, run, example)
            else:
                run.output[run.sequences(example)] = own[layer].transpose(1, 2)

        after = [change for change in fixed if change.first_layer >= place[0]]
        return [RunChange(range(place[0], len(text.heads)), change_heads), *after]

    return mean_effects(text, metric, [[path(head, outputs) for head in heads] for outputs in replacements])
