"""What of a metric a corrupted run recovers by direct paths from a head to others, or to the logits (path patching)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.part_effects import mean_effects
from attnviz.effects.parts import (
    Head,
    ModelPart,
    PartReplacement,
    Site,
    changed_parts,
    checked_heads,
    every_head,
    head_values,
    own_values,
    replacement_of,
    site_values,
)
from attnviz.effects.sweep import Text
from attnviz.effects.text_pair import Cell, OnPatching, Patching, TextPair
from attnviz.effects.token_alignment import Alignment
from attnviz.models.texts import PerText, each_group
from attnviz.tracing.run_changes import LayerHeads, Run, RunChange

ReceivedPart: TypeAlias = Literal["query", "key", "value"]


@each_group
def patch_paths(
    model: nn.Module,
    clean: Any,
    corrupted: Any,
    metric: EffectMetric,
    receiver: Head | Sequence[Head] | Literal["logits"],
    what: ReceivedPart = "query",
    *,
    mlps: Literal["frozen", "free"] = "frozen",
    aligned: Alignment | None = None,
    on_progress: OnPatching | None = None,
) -> Patching | PerText[Patching]:
    """Returns the metric of a corrupted text where a head, the receiver, gets the query, key or value that it would
    have if a head of a layer before it, the sender, wrote what it writes in a clean text: values are (layers, heads) of
    the senders. Several receivers get theirs at once; of "logits", the metric is that of the direct path itself.

    Paths are direct: between both, all other heads write what they write in the corrupted text, and so do MLPs that are
    "frozen", the default; where they are "free", paths lead over them, as in Wang et al. Norms take their scale from
    the changed stream. Heads that share the receiver's key or value keep theirs. Arguments are those of `patch`, as are
    its errors; also raises ValueError if no layer is before the receiver, and where MLPs are not known, as
    `attnviz.attribute` does (Wang et al. 2022, "Interpretability in the Wild"; Goldowsky-Dill et al. 2023, "Localizing
    Model Behavior with Path Patching").
    """
    pair = TextPair.from_batches(model, clean, corrupted, aligned)
    text, shape = pair.corrupted, (len(pair.corrupted.heads), max(pair.corrupted.heads))
    receivers = _receivers(text, receiver)
    last = max((layer for layer, _head in receivers), default=len(text.heads))
    senders = [sender for sender in every_head(text) if sender[0] < last]
    if what not in get_args(ReceivedPart) or not senders:
        raise value_error(
            "A path leads from a head to the query, key or value of a head in a later layer; this is the {what} of "
            "layer {layer}.",
            what=what,
            layer=last,
        )
    outputs = [Site("output", layer) for layer in range(min(last + 1, len(text.heads)))]
    sent, own = (site_values(each, outputs) for each in (pair.clean, text))
    between = frozen_mlps(text, last) if mlps == "frozen" else []
    received: dict[Head, dict[ModelPart, PartReplacement]] = {sender: {} for sender in senders}

    def path(sender: Head) -> Run:
        def receive(layer: int, heads: LayerHeads, sequences: slice) -> None:
            for part in (ModelPart(what, *each) for each in receivers if each[0] == layer > sender[0]):
                read = own_values(text, {part.site: head_values(what, heads, sequences)}, part)
                received[sender][part] = PartReplacement(read.clone())

        clean = own_values(text, sent, ModelPart("output", *sender))
        counts = [each.own.positions[sender[0]] for each in (pair.clean, text)]
        pairs = pair.clean.at_all(pair.positions(sender[0], counts[0]), *counts)
        replacement = PartReplacement(clean, pairs)
        return direct_path(own, sender, replacement, between, receive)

    def progress(start: float, share: float, patching: Patching) -> None:
        if on_progress:
            on_progress((start + share) / 2, patching)

    paths: dict[Cell, Run] = {sender: path(sender) for sender in senders}
    if not receivers:
        return pair.patching(metric, shape, paths, on_progress=on_progress)
    unknown = pair.patching(metric, shape, {})
    unknown = unknown[-1] if isinstance(unknown, PerText) else unknown
    text.effects(pair.metric_of_corrupted(metric), [*paths.values()], lambda share, _: progress(0, share, unknown))
    cells: dict[Cell, Run] = {sender: changed_parts(text, parts) for sender, parts in received.items()}
    return pair.patching(metric, shape, cells, on_progress=lambda share, patching: progress(1, share, patching))


def _receivers(text: Text, receiver: Head | Sequence[Head] | Literal["logits"]) -> list[Head]:
    """Returns the heads that receive; none, where the logits do. Raises ValueError if there is no such head."""
    if receiver == "logits":
        return []
    heads = [receiver] if isinstance(receiver[0], int) else receiver
    return checked_heads(text, [(layer, head) for layer, head in heads])  # type: ignore[misc]


def frozen_mlps(text: Text, before: int) -> Run:
    """Returns the run in which MLPs before a layer write what they write where nothing is changed."""
    sites = [Site("mlp", number) for number, mlp in enumerate(text.mlps) if mlp.layer < before]
    return changed_parts(
        text, {ModelPart(*site): PartReplacement(values[:, 0]) for site, values in site_values(text, sites).items()}
    )


def direct_path(
    own: Mapping[Site, Tensor],
    sender: Head,
    replacement: PartReplacement,
    mlps: Run,
    receive: Callable[[int, LayerHeads, slice], None] = lambda layer, heads, sequences: None,
) -> Run:
    """Returns the run in which a head writes something else, and all other heads of `own`, in its layer and after it,
    write that. `receive` gets each of these layers first: the layer, its heads and the sequences of the run."""
    first, number = sender

    def change_heads(layer: int, heads: LayerHeads, example: int) -> None:
        receive(layer, heads, sequences := heads.sequences(example))
        written = heads.output[sequences].view(-1, *heads.output.shape[2:])
        written[:] = own[Site("output", layer)]
        if layer == first:
            replacement(written[:, number])

    layers = [site.layer for site in own if site.layer >= first]
    return [RunChange(layers, change_heads), *(change for change in mlps if change.first_layer >= first)]


def direct_effects(
    text: Text, metric: EffectMetric, heads: Sequence[Head], replacements: Sequence[Mapping[Site, Tensor | None]]
) -> Float[Tensor, " heads"]:
    """Returns the effects of ablating each of some heads where all heads and MLPs after it write what they write with
    it, so that what changes comes by the direct path; NaN where heads or MLPs of the model are not known."""
    try:
        own = site_values(text, [Site("output", layer) for layer in range(len(text.heads))])
        mlps = frozen_mlps(text, len(text.heads))
    except ValueError:
        return torch.full((len(heads),), torch.nan, dtype=torch.float64)
    return mean_effects(
        text,
        metric,
        [
            [direct_path(own, head, replacement_of(text, ModelPart("output", *head), outputs), mlps) for head in heads]
            for outputs in replacements
        ],
    )[0]
