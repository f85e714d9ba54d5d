"""The picture at each depth, as what the browser draws: the whole model, one layer, one part."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.formatting import dimensions, grouped, number, visible
from attnviz.base.language import N_, _, in_sentence
from attnviz.figures.themes import CHANGES, MASKED, WEIGHTS
from attnviz.pages.transformer.activation import Activation, ActivationRecord, Sublayer, layer_name
from attnviz.pages.transformer.path_names import layer_title, look_sentence, part_sentence, part_title, sublayer_title
from attnviz.pages.transformer.recognition import FUNCTIONS
from attnviz.pages.transformer.sampling import NextWord
from attnviz.pages.transformer.state import TransformerState, is_translator

COLORS = {"weights": WEIGHTS, "changes": CHANGES, "masked": MASKED}
STAGE_CELLS = 16  # of a vector in the picture of the whole model
SLIM_CELLS = 8  # of a vector after a layer that is drawn slim
MOST_WIDE_LAYERS = 8  # of a stack; of more, those between the first and the last are slim
MOST_CELLS = 64  # of a vector in a picture; of a longer one, each cell is the mean of several numbers
MOST_SPREAD = 4  # times the largest number of the row in the middle: the largest number that has a color of its own
MOST_NUMBERS = 50_000  # of a matrix that is sent as numbers
MANY_NUMBERS = 10_000  # of a matrix, which has few digits then
LIKELIEST = 6  # words that are shown in the whole model
CANDIDATES = 16  # words that are shown at the end
DIGITS, FEW_DIGITS = 6, 4  # significant ones, of the numbers that are sent
READING_ORDER = (
    "words", "positions", "segments", "vectors", "norm", "queries", "normed queries", "rotated queries", "keys",
    "normed keys", "rotated keys", "scores", "weights", "values", "heads", "concat", "gate", "up", "hidden", "output",
    "output norm", "sum", "logits",
)  # fmt: skip
LABELS = {
    "attention": N_("attention"),
    "cross": N_("encoder–decoder"),
    "network": N_("MLP"),
    "output": N_("norm"),
    "embedding": "",
}


def path_picture(state: TransformerState) -> dict[str, Any]:
    """Returns the picture of what is open (ui/path/types.d.ts), without where it stands."""
    if not state.open:
        picture = model_picture(state)
    else:
        picture = layer_picture(state) if state.open in state.record.layers else part_picture(state)
    return picture | {"colors": COLORS}


def model_picture(state: TransformerState) -> dict[str, Any]:
    """Returns the whole model: vectors after each sublayer, and the mean weights of all heads."""
    record, next_word = state.record, state.next_word
    slim = slim_layers(record)
    stages: list[dict[str, Any]] = []
    ends: dict[str, int] = {}  # the stage of each sublayer's output
    for name, sublayers in record.layers.items():
        if name == "output":
            break
        parts = [sublayers] if name in slim else [(one,) for one in sublayers]
        for part in parts:
            sources = [ends[source] for source in _sublayer_sources(part[0]) if source in ends]
            ends |= {one.name: len(stages) for one in part}
            memory = ends["memory"] if part[0].kind == "cross" else -1
            stages.append(_stage(state, part) | {"source": sources[0] if sources else -1, "memory": memory})
    titles = _("Words"), _("Memory")
    frames = [
        {
            "open": name,
            "title": str(some[0].layer)
            if name in slim
            else _("Layer {layer}", layer=some[0].layer)
            if some[0].layer is not None
            else titles[name == "memory"],
            "about": layer_title(name),
            "first": ends[some[0].name],
            "last": ends[some[-1].name],
        }
        for name, some in record.layers.items()
        if name != "output"
    ]
    stacks = dict.fromkeys(one.stack for one in record.sublayers)
    tokens = {stack: record[f"{stack} embedding words"].rows for stack in stacks}
    return {
        "depth": "model",
        "trail": [],
        "bands": [
            {"stack": stack, "title": _(stack.capitalize()), "tokens": [visible(token) for token in tokens[stack]]}
            for stack in stacks
        ],
        "stages": stages,
        "frames": frames,
        "next": None if next_word is None else next_word_picture(state, next_word, LIKELIEST),
        "heads": 0,
        "head": 0,
    }


def slim_layers(record: ActivationRecord) -> set[str]:
    """Returns the layers of which the picture of the whole model shows what comes out alone: if there are many, all but
    the first and the last of each stack."""
    slim: set[str] = set()
    for stack in {one.stack for one in record.sublayers}:
        names = [
            name for name, (first, *_) in record.layers.items() if first.stack == stack and first.layer is not None
        ]
        slim |= {*names[1:-1]} if len(names) > MOST_WIDE_LAYERS else set()
    return slim


def _stage(state: TransformerState, sublayers: Sequence[Sublayer]) -> dict[str, Any]:
    """Returns a stage of the picture of the whole model: a sublayer, or a whole layer."""
    first, output = sublayers[0], sublayers[-1].output
    stage = {"name": first.name, "stack": first.stack, "hasPositions": len(first.activations) > 1, "weights": None}
    if len(sublayers) > 1:
        return stage | {
            "kind": "slim",
            "title": layer_title(layer_name(first)),
            "label": "",
            "caption": _("Attention and the MLP of this layer add to each row."),
            "cells": cell_tints(output.values, SLIM_CELLS),
        }
    weights = next((one.values.mean(0) for one in first.activations if one.part == "weights"), None)
    return stage | {
        "kind": "memory" if first.name == "memory" else first.kind,
        "title": sublayer_title(first),
        "label": _(LABELS[first.kind]),
        "caption": _stage_caption(first, output),
        "weights": None if weights is None else rounded(weights, 3),
        "cells": cell_tints(output.values, STAGE_CELLS),
    }


def layer_picture(state: TransformerState) -> dict[str, Any]:
    """Returns one layer: a lane of panels for each sublayer, of one head where heads differ."""
    record, name, head, next_word = state.record, state.open, state.head, state.next_word
    sublayers = record.layers[name]
    lanes = []
    for sublayer in sublayers:
        parts = [(one, True) for one in _outside(sublayer)] + [(one, False) for one in sublayer.activations]
        parts.sort(key=_reading_order)
        panels = [_panel(one, head, entering) for one, entering in parts]
        about = look_sentence(sublayer) if sublayer.kind in ("attention", "cross") else ""
        lanes.append({"title": sublayer_title(sublayer), "about": about, "kind": sublayer.kind, "panels": panels})
    is_last, names = name == "output", ["", *record.layers, ""]
    place = names.index(name)
    return {
        "depth": "layer",
        "neighbors": [names[place - 1], names[place + 1]],
        "trail": [{"open": name, "title": layer_title(name)}],
        "lanes": lanes,
        "next": next_word_picture(state, next_word, CANDIDATES) if is_last and next_word else None,
        "heads": record.heads if any(one.by_head for sub in sublayers for one in sub.activations) else 0,
        "head": head,
    }


def part_picture(state: TransformerState) -> dict[str, Any]:
    """Returns one part: its numbers, the matrices that it is computed from, the formula, and links to its head."""
    record, name, head, next_word = state.record, state.open, state.head, state.next_word
    activation = record[name]
    layer = next(layer for layer, some in record.layers.items() if any(one.name == activation.sublayer for one in some))
    sublayer = next(one for one in record.sublayers if one.name == activation.sublayer)
    columns = _shown_columns(activation, next_word)
    picture = {
        "depth": "part",
        "trail": [
            {"open": layer, "title": layer_title(layer)},
            {"open": name, "title": f"{sublayer_title(sublayer)}: {in_sentence(part_title(activation))}"},
        ],
        "caption": part_sentence(activation),
        "formula": activation.formula,
        "operation": activation.operation,
        "function": next((name for name in (*FUNCTIONS, "RMSNorm") if f"{name}(" in activation.formula), ""),
        "sources": [_matrix(one, head) for one in activation.sources],
        "weight": _weight(activation, head, columns),
        "bias": _bias(activation, head, columns),
        "result": _matrix(activation, head, columns),
        "rotated": activation.rotated,
        "next": next_word_picture(state, next_word, CANDIDATES) if activation.part == "logits" and next_word else None,
        "heads": record.heads if activation.by_head or any(one.by_head for one in activation.sources) else 0,
        "head": head,
    }
    if activation.operation == "concat":  # of all heads, one beside the other
        source = activation.sources[0]
        picture["sources"] = [
            _matrix(source, i) | {"symbol": _("head {i}", i=i), "about": ""} for i in range(len(source.values))
        ]
        picture["heads"] = 0
    return picture


def next_word_picture(state: TransformerState, next_word: NextWord, count: int) -> dict[str, Any]:
    """Returns the likeliest words with their probabilities, and the word that is drawn."""
    likeliest = next_word.likeliest(count)
    names = {index: visible(next_word.words[index]) for index in {*likeliest, next_word.greedy}}
    probabilities = next_word.probabilities[likeliest].tolist()
    drawn, greedy = names[next_word.drawn], names[next_word.greedy]
    reason = (
        _("the likeliest word")
        if next_word.temperature == 0
        else _("drawn with the random number {random_number}", random_number=number(next_word.random_number))
    )
    return {
        "words": [
            {
                "word": names[index],
                "logit": number(float(next_word.logits[index])),
                "probability": probability,
                "text": share(probability),
                "drawn": index == next_word.drawn,
            }
            for index, probability in zip(likeliest, probabilities, strict=True)
        ],
        "open": "output",
        "language": "fr" if is_translator(state) else "",
        "rest": max(1 - sum(probabilities), 0.0),
        "others": grouped(len(next_word.words) - len(likeliest)),
        "drawn": drawn,
        "greedy": greedy,
        "random": next_word.random_number if next_word.temperature else 0,
        "temperature": number(next_word.temperature),
        "sentence": _("“{drawn}” is written: {reason}.", drawn=drawn, reason=reason)
        + (f" {_('The likeliest word is “{greedy}”.', greedy=greedy)}" if drawn != greedy else ""),
        "caption": _next_word_caption(next_word),
    }


def _next_word_caption(next_word: NextWord) -> str:
    return _(
        "The last row is compared with all {count} tokens of the vocabulary. Softmax, at temperature "
        "{temperature}, turns the scores into probabilities.",
        count=grouped(len(next_word.words)),
        temperature=number(next_word.temperature),
    )


def share(probability: float) -> str:
    """Returns a probability as text."""
    return number(probability) if probability >= 1e-3 or probability == 0 else "< 0.001"


def cell_tints(values: Float[Tensor, "rows columns"], most: int = MOST_CELLS) -> list[list[int]]:
    """Returns numbers as colors, from −100 to 100 of the largest; of wide rows, means of several numbers. Where one row
    is far larger than the others, as the first token of many language models is, it does not make the others pale."""
    if values.shape[1] > most:
        width = -(-values.shape[1] // most)
        values = torch.nn.functional.avg_pool1d(values[:, None], width, ceil_mode=True, count_include_pad=False)[:, 0]
    rows = values.abs().amax(1)
    greatest = float(rows.max().minimum(MOST_SPREAD * rows.median())) or float(rows.max()) or 1.0
    return [[round(100 * max(-1.0, min(1.0, one / greatest))) for one in row] for row in values.tolist()]


def rounded(values: Float[Tensor, "rows columns"], digits: int = DIGITS) -> list[list[float | None]]:
    """Returns numbers with `digits` significant digits; None where a mask makes them −∞."""
    return [[None if one == float("-inf") else float(f"{one:.{digits}g}") for one in row] for row in values.tolist()]


def _reading_order(part: tuple[Activation, bool]) -> float:
    """Returns the place of an activation in its lane; the memory stands before its keys, and the values before what is
    made of them."""
    activation, entering = part
    if entering:
        return READING_ORDER.index("keys") - 0.5 if activation.sublayer == "memory" else -1
    if (
        activation.part == "norm"
        and activation.sources[0].part == "sum"
        and activation.sources[0].sublayer == activation.sublayer
    ):
        return len(READING_ORDER)  # after the sum
    return READING_ORDER.index(activation.part)


def _panel(activation: Activation, head: int, entering: bool = False) -> dict[str, Any]:
    values = activation.head_values(head)
    is_map = activation.part in ("scores", "weights")
    return {
        "name": activation.name,
        "title": _("Memory")
        if activation.part == "vectors"
        else _("Input")
        if entering
        else _("Head {head}", head=head)
        if activation.part == "heads"
        else part_title(activation),
        "symbol": activation.symbol,
        "shape": dimensions(values.shape),
        "caption": _("What comes in, from the part before.") if entering else part_sentence(activation),
        "kind": activation.part if is_map else "vectors",
        "rows": [visible(token) for token in activation.rows],
        "columns": [visible(token) for token in activation.columns] if is_map else [],
        "cells": map_cells(values, activation.part) if is_map else cell_tints(values),
        "sources": [one.name for one in activation.sources],
        "entering": entering,
        "slices": len(activation.sources[0].values) if activation.operation == "concat" else 0,
    }


def map_cells(values: Float[Tensor, "rows columns"], part: str) -> list[list[float | None]]:
    """Returns weights as they are, and scores as shares of the largest; None where a mask forbids a cell."""
    if part == "weights":
        return rounded(values, 4)
    greatest = float(values[values.isfinite()].abs().max()) if bool(values.isfinite().any()) else 1.0
    return rounded(values / (greatest or 1.0), 3)


def _outside(sublayer: Sublayer) -> list[Activation]:
    """Returns the activations of other sublayers that this one reads, in the order in which they are read."""
    own = {one.name for one in sublayer.activations}
    sources = [source for one in sublayer.activations for source in one.sources if source.name not in own]
    return list({one.name: one for one in sources}.values())


def _sublayer_sources(sublayer: Sublayer) -> list[str]:
    """Returns the sublayers that this one reads; that which it adds to is the first."""
    return [one.sublayer for one in sorted(_outside(sublayer), key=lambda one: one.sublayer == "memory")]


def _stage_caption(sublayer: Sublayer, output: Activation) -> str:
    if sublayer.kind == "embedding":
        width = output.values.shape[1]
        if len(sublayer.activations) == 1:
            return _("Each token becomes a vector of {width} numbers.", width=width)
        return _("Each token becomes a vector of {width} numbers, and its position is added.", width=width)
    if sublayer.kind == "network":
        return _("Each row by itself goes through a small network, the MLP, and the result is added to it.")
    if sublayer.name == "memory":
        return _("These vectors are the encoder’s memory of the sentence. The decoder looks at them.")
    return look_sentence(sublayer)


def _shown_columns(activation: Activation, next_word: NextWord | None) -> Sequence[int] | None:
    """Returns the positions of the likeliest words if the columns are all words of a vocabulary."""
    if activation.part != "logits" or next_word is None:
        return None
    return next_word.likeliest(CANDIDATES)


def _matrix(activation: Activation, head: int, columns: Sequence[int] | None = None) -> dict[str, Any]:
    values = activation.head_values(head)
    names = activation.columns
    if columns is not None:
        values, names = values[:, list(columns)], tuple(names[i] for i in columns)
    return {
        "name": activation.name,
        "symbol": activation.symbol,
        "about": _(activation.about),
        "shape": dimensions(values.shape),
        "rows": [visible(token) for token in activation.rows],
        "columns": [visible(token) for token in names],
        "values": _sent(values),
        "map": activation.part if activation.part in ("scores", "weights") else "",
    }


def _weight(activation: Activation, head: int, columns: Sequence[int] | None) -> dict[str, Any] | None:
    weight = activation.head_weight(head)
    if weight is None:
        return None
    if activation.operation == "norm":
        return {"symbol": "γ", "about": _("learned"), "shape": f"{len(weight)}", "values": rounded(weight[None])}
    weight = weight[:, list(columns)] if columns is not None else weight
    return {
        "symbol": re.findall(r"\w\^\w", activation.formula)[0],
        "about": _("learned"),
        "shape": dimensions(weight.shape),
        "values": _sent(weight),
    }


def _sent(values: Float[Tensor, "rows columns"]) -> list[list[float | None]] | None:
    """Returns the numbers of a matrix as they are sent, or None if they are too many."""
    count = values.numel()
    return rounded(values, DIGITS if count <= MANY_NUMBERS else FEW_DIGITS) if count <= MOST_NUMBERS else None


def _bias(activation: Activation, head: int, columns: Sequence[int] | None) -> list[float | None] | None:
    bias = activation.head_bias(head)
    if bias is None:
        return None
    return rounded((bias if columns is None else bias[list(columns)])[None])[0]
