"""The layers of a model in a table: what each looks at, and how sure its weights are."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from attnviz.layer import Fidelity, Layer, LayerId

LABELS = {Fidelity.VERIFIED: "verified", Fidelity.UNVERIFIED: "unverified", Fidelity.WEIGHTS_ONLY: "weights only"}
MEANINGS = {
    Fidelity.VERIFIED: "recomputed from the model's queries and keys, and compared with its own in a few rows",
    Fidelity.UNVERIFIED: "recomputed from the model's queries and keys; the model gives nothing to compare with",
    Fidelity.WEIGHTS_ONLY: "as the model computed them, without queries and keys",
}


def table(layers: Sequence[Layer], chosen: int) -> str:
    """Layers that are alike in one row, in HTML; the row of the chosen one is marked."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for i, layer in enumerate(layers):
        rows.setdefault(_told(layer), []).append(i)
    body = ""
    for told, places in rows.items():
        marked = " class=attnviz-chosen" if chosen in places else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in told)
        body += f"<tr{marked}><th>{escape(named([layers[i].id for i in places]))}</th>{cells}</tr>"
    head = "".join(f"<th>{name}</th>" for name in ("Layers", "Heads", "Tokens", "Who sees whom", "Weights"))
    return f"<table class='attnviz-table'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def explained(layers: Sequence[Layer]) -> str:
    """What each fidelity that occurs means, in a line."""
    found = {layer.fidelity for layer in layers}
    return " · ".join(f"**{LABELS[one]}**: {meaning}" for one, meaning in MEANINGS.items() if one in found)


def named(layers: Sequence[LayerId]) -> str:
    """The names of layers, neighbors as one: “encoder 0–5, decoder 0”."""
    runs: list[list[LayerId]] = []
    for layer in layers:
        if runs and _follows(layer, runs[-1][-1]):
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(
        str(run[0] if len(run) == 1 else replace(run[0], index=f"{run[0].index}–{run[-1].index}")) for run in runs
    )


def _follows(layer: LayerId, before: LayerId) -> bool:
    numbered = isinstance(before.index, int) and not layer.sub_indices and layer.occurrence is None
    return numbered and layer == replace(before, index=before.index + 1)  # type: ignore[operator]


def _told(layer: Layer) -> tuple[str, ...]:
    inputs, mechanism = layer.inputs, layer.mechanism
    shared = f", {inputs.key.shape[0]} of keys" if inputs.key.shape[0] < inputs.heads else ""
    tokens = f"{inputs.queries:,}" + (f" at {inputs.keys:,}" if inputs.queries != inputs.keys else "")
    sees = "—" if layer.locked else mechanism.mask.describe()
    return f"{inputs.heads}{shared}", tokens, sees, LABELS[layer.fidelity] if layer.fidelity else "—"
