"""A table of the layers of a model: their attention and their fidelity."""

from collections.abc import Sequence
from dataclasses import replace

from attnviz.formatting import grouped
from attnviz.language import N_, _, option_name
from attnviz.layer import Fidelity, Layer, LayerId
from attnviz.mechanism import Mechanism
from attnviz.page import html
from attnviz.ui.models.grouped_query import is_grouped

HEADINGS = (N_("Layers"), N_("Heads"), N_("Tokens"), N_("Who sees whom"), N_("Weights"))
LABELS = {
    Fidelity.VERIFIED: N_("verified"), Fidelity.UNVERIFIED: N_("unverified"),
    Fidelity.WEIGHTS_ONLY: N_("weights only"),
}  # fmt: skip
MEANINGS = {
    Fidelity.VERIFIED: N_("recomputed from the model's queries and keys, and compared with its own"),
    Fidelity.UNVERIFIED: N_("recomputed from the model's queries and keys; the model gives nothing to compare with"),
    Fidelity.WEIGHTS_ONLY: N_("as the model computed them, without queries and keys"),
}


def layers_table(layers: Sequence[Layer], selected: int) -> html.Markup:
    """Returns a table in which equal layers share a row; the row of the selected layer is marked."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for i, layer in enumerate(layers):
        rows.setdefault(_layer_cells(layer), []).append(i)
    marked = next(row for row, indices in enumerate(rows.values()) if selected in indices)
    names = (layer_ranges([layers[i].id for i in indices]) for indices in rows.values())
    return html.table(
        [*map(_, HEADINGS)], [(name, *cells) for name, cells in zip(names, rows, strict=True)], marked=marked
    )


def fidelity_legend(layers: Sequence[Layer]) -> str:
    """Returns a legend of the fidelities of these layers."""
    present = {layer.fidelity for layer in layers}
    return " · ".join(f"**{_(LABELS[one])}**: {_(meaning)}" for one, meaning in MEANINGS.items() if one in present)


def leaks(layers: Sequence[Layer]) -> str:
    """Returns which layers give weight to keys that the model's mask meant to forbid, in sentences."""
    return " ".join(f"{option_name(layer.name)}: {layer.leak}" for layer in layers if layer.leak)


def layer_ranges(layers: Sequence[LayerId]) -> str:
    """Returns the names of layers, with ranges of consecutive ones: “encoder 0–5, decoder 0”."""
    runs: list[list[LayerId]] = []
    for layer in layers:
        if runs and _follows(layer, runs[-1][-1]):
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(
        option_name(str(run[0] if len(run) == 1 else replace(run[0], index=f"{run[0].index}–{run[-1].index}")))
        for run in runs
    )


def _follows(layer: LayerId, before: LayerId) -> bool:
    numbered = isinstance(before.index, int) and not layer.sub_indices and layer.occurrence is None
    return numbered and layer == replace(before, index=before.index + 1)  # type: ignore[operator]


def _layer_cells(layer: Layer) -> tuple[str, ...]:
    inputs, mechanism = layer.inputs, layer.mechanism
    heads = (
        _("{heads}, {kv_heads} of keys", heads=inputs.heads, kv_heads=inputs.key.shape[0])
        if is_grouped(inputs)
        else str(inputs.heads)
    )
    tokens = queries = grouped(inputs.queries)
    if inputs.queries != inputs.keys:
        tokens = _("{queries} at {keys}", queries=queries, keys=grouped(inputs.keys))
    visible = mechanism.mask.describe() if isinstance(mechanism, Mechanism) else "—"
    return heads, tokens, visible, _(LABELS[layer.fidelity]) if layer.fidelity else "—"
