"""Widgets made from dataclasses: the docstring is the help, the fields are the widgets and the link's parameters."""

import inspect
import re
from collections.abc import Sequence
from dataclasses import Field, fields, replace
from typing import Any, TypeVar, get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.biases import BIASES
from attnviz.inputs import Layer
from attnviz.masks import MASKS
from attnviz.measures import Special
from attnviz.mechanism import Mechanism
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES
from attnviz.sources import SOURCES, Source
from attnviz.sources.source import Opening
from attnviz.sources.upload import File
from attnviz.ui.plain import plain
from attnviz.ui.view import COLORS

T = TypeVar("T")
AS_MADE = "As in the model"
Plain = int | float | str | None  # what a widget can hold
HELP = {  # of the widgets that no dataclass explains
    "Layer": "Layers run one after the other: each looks at what the one before has made of the tokens.",
    "Head": "A layer looks several times at once: each head has queries and keys of its own.",
    "Biases": "What is done to the scores before the mask.",
    "Special tokens": "Tokens that the tokenizer adds, such as [CLS] and [SEP]. Many heads rest much of their "
    "attention there; hidden, they leave the others to be seen.",
    "Mosaic": "The small maps: the heads of this layer, or all heads of all layers.",
    "Colors": "Which weight has the last color of the scale.",
}
TOGETHER = {"Mean of heads": "mean", "Maximum of heads": "maximum"}


def source() -> tuple[Source, DeltaGenerator]:
    """The chosen source: what a person brings stands on the page, its settings in the sidebar, in a place that can
    be emptied."""
    with st.sidebar:
        kind = _one_of("Source", SOURCES, SOURCES[0])
    brought, *settings = _settable(kind)
    values = {brought.name: _widget(brought, kind, "")}
    place = st.sidebar.empty()
    with place.container():
        values |= {setting.name: _widget(setting, kind, _title(kind)) for setting in settings}
    return kind(**values), place


def layer_and_head(layers: Sequence[Layer], opening: Opening) -> tuple[int, int | str]:
    """The position of a layer, and of one of its heads, or "mean" or "maximum" of them."""
    names = [layer.name for layer in layers]
    layer = names.index(_select("Layer", names, opening.layer, HELP["Layer"]))
    heads = head_names(layers[layer].inputs.heads)
    together = list(TOGETHER) if len(heads) > 1 else []
    chosen = _select("Head", heads + together, opening.head, HELP["Head"])
    return layer, heads.index(chosen) if chosen in heads else TOGETHER[chosen]


def picture(layers: Sequence[Layer], layer: int) -> tuple[Special, bool, str]:
    """How the picture is drawn: special tokens, whether the mosaic shows all layers, the range of the colors."""
    hiding: dict[str, Special] = {"Shown": "shown", "Hidden": "hidden", "Hidden, rows rescaled": "rescaled"}
    adds_tokens = bool(layers[layer].inputs.special_keys)
    special = _select("Special tokens", list(hiding), about=HELP["Special tokens"]) if adds_tokens else "Shown"
    several = len(layers) > 1
    every = several and _select("Mosaic", ["One layer", "All layers"], about=HELP["Mosaic"]) == "All layers"
    return hiding[special], every, _select("Colors", list(COLORS), about=HELP["Colors"])


def head_names(heads: int) -> list[str]:
    return [f"Head {head}" for head in range(heads)]


def mechanism(start: Mechanism) -> Mechanism:
    """How to attend; each part begins as `start` has it."""
    score = _part("Score", SCORES, start.score)
    biases = tuple(
        _filled(kind, _title(kind), next((bias for bias in start.biases if type(bias) is kind), kind()))
        for kind in _several("Biases", BIASES, [type(bias) for bias in start.biases])
    )
    mask = _part("Mask", MASKS, start.mask)
    return Mechanism(score, biases, mask, _part("Normalizer", NORMALIZERS, start.normalizer))


def _part(label: str, menu: Sequence[type[T]], start: T) -> T:
    """One part of a mechanism; what no menu has, or no widget can hold, stays a choice of its own: AS_MADE."""
    plain_values = all(isinstance(getattr(start, one.name), Plain) for one in _settable(type(start)))
    made = [] if type(start) in menu and plain_values else [type(start)]
    kind = _one_of(label, [*made, *menu], type(start), made)
    return start if kind in made else _filled(kind, label, start if type(start) is kind else kind())


def _one_of(label: str, menu: Sequence[type], start: type, made: Sequence[type] = ()) -> type:
    names = {AS_MADE if kind in made else _title(kind): kind for kind in menu}
    # On the first run of a link the widget has no state yet.
    chosen = st.session_state.get(_key(label), st.query_params.get(_key(label)))
    about = names.get(chosen, start) if isinstance(chosen, str) else start
    return names[_select(label, list(names), list(names.values()).index(start), _help(about))]


def _several(label: str, menu: Sequence[type], start: Sequence[type]) -> list[type]:
    names = {_title(kind): kind for kind in menu}
    default = [_title(kind) for kind in start]
    chosen = st.multiselect(
        label, list(names), default, key=_key(label), bind="query-params", placeholder="None", help=HELP[label]
    )
    return [names[name] for name in chosen]


def _select(label: str, options: list[str], index: int = 0, about: str | None = None) -> str:
    return st.selectbox(label, options, index, key=_key(label), bind="query-params", help=about)


def _filled(kind: type[T], prefix: str, start: T) -> T:
    """`start` with the values of its widgets; a combination that is refused is said and leaves `start`."""
    values = {setting.name: _widget(setting, kind, prefix, start) for setting in _settable(kind)}
    try:
        return replace(start, **values)  # type: ignore[type-var]
    except ValueError as problem:
        st.error(plain(str(problem)))
        return start


def _settable(kind: type) -> list[Field]:
    return [setting for setting in fields(kind) if setting.metadata]


def _widget(setting: Field, kind: type, prefix: str, start: object = None) -> Any:
    """The widget of one field; its limits are the field's metadata, its beginning the field of `start`."""
    about = setting.metadata
    label = about.get("label", setting.name.capitalize())
    key = _key(f"{prefix}.{setting.name}".strip("."))
    value: Any = getattr(start, setting.name, setting.default)
    bound: dict[str, Any] = {"key": key, "bind": "query-params"}
    if isinstance(value, bool):
        return st.toggle(label, value, **bound)
    if get_args(setting.type) and isinstance(value, str):
        options = list(get_args(setting.type))
        return st.selectbox(label, options, options.index(value), **bound)
    if isinstance(value, str):
        return st.text_input(label, value, help=_help(kind), **bound)
    if "megabytes" in about:
        # Of any ending: what a file is, its source tells, in a sentence of its own.
        uploaded = st.file_uploader(label, key=key, help=_help(kind), max_upload_size=about["megabytes"])
        return uploaded and File(uploaded.name, uploaded.getvalue())
    limits: dict[str, Any] = {"min_value": about["min"], "max_value": about["max"]}
    if isinstance(about["min"], float):
        return st.number_input(
            label, value=value, step=about.get("step", 1.0), format="%.6g", placeholder=about.get("empty"),
            **limits, **bound,
        )  # fmt: skip
    try:
        return st.number_input(label, value=value, step=1, **limits, **bound)
    except OverflowError:
        # A link that says infinity, of which Streamlit 1.67 tries to make a whole number: a widget without the link.
        return st.number_input(label, value=value, step=1, **limits, key=f"{key} unbound")


def _title(kind: type) -> str:
    """SlidingWindow → Sliding window, PrefixLM → Prefix LM."""
    first, *rest = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", kind.__name__)
    return " ".join([first, *(word if word.isupper() and len(word) > 1 else word.lower() for word in rest)])


def _key(label: str) -> str:
    """The name of a widget in the link."""
    return label.lower().replace(" ", "-")


def _help(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")
