"""The layers of a model in a table: what each looks at, and how sure its weights are."""

import re
from collections.abc import Sequence
from html import escape

from attnviz.layer import Layer

SURE = {  # what the standing of a layer means
    "verified": "recomputed from the model's queries and keys, and compared with its own attention in a few rows",
    "captured, unchecked": "recomputed from the model's queries and keys; the model gives nothing to compare with",
    "the model's own weights": "as the model computed them, without queries and keys",
    "": "",
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
        body += f"<tr{marked}><th>{escape(named([layers[i].name for i in places]))}</th>{cells}</tr>"
    head = "".join(f"<th>{name}</th>" for name in ("Layers", "Heads", "Tokens", "Who sees whom", "Weights"))
    return f"<table class='attnviz-table'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def explained(layers: Sequence[Layer]) -> str:
    """What the standings that occur mean, in a line."""
    found = [standing for standing in SURE if any(layer.standing == standing for layer in layers) and standing]
    return " · ".join(f"**{standing}**: {SURE[standing]}" for standing in found)


def named(names: Sequence[str]) -> str:
    """Names with neighbors put together: “encoder 0–5, decoder 0”."""
    runs: list[tuple[str, str, list[int]]] = []  # what stands before and after the number, and the numbers
    for name in names:
        split = re.fullmatch(r"(\D*)(\d+)(\D*)", name)
        before, number, after = split.groups() if split else (name, "-1", "")
        if runs and split and runs[-1][0] == before and runs[-1][2][-1] + 1 == int(number) and runs[-1][1] == after:
            runs[-1][2].append(int(number))
        else:
            runs.append((before, after, [int(number)]))
    said = []
    for before, after, numbers in runs:
        through = f"–{numbers[-1]}" if len(numbers) > 1 else ""
        said.append(before if numbers == [-1] else f"{before}{numbers[0]}{through}{after}")
    return ", ".join(said)


def _told(layer: Layer) -> tuple[str, ...]:
    inputs, mechanism = layer.inputs, layer.mechanism
    shared = f", {inputs.key.shape[0]} of keys" if inputs.key.shape[0] < inputs.heads else ""
    tokens = f"{inputs.queries:,}" + (f" at {inputs.keys:,}" if inputs.queries != inputs.keys else "")
    sees = "—" if layer.fixed else mechanism.mask.describe()
    return f"{inputs.heads}{shared}", tokens, sees, layer.standing or "—"
