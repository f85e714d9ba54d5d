"""Widgets made from dataclasses: the docstring is the help, the fields are the widgets and the link's parameters."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import Any, TypeVar, get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.head_maps import Aggregate, HeadChoice, Special
from attnviz.biases import BIASES, Bias
from attnviz.layer import Layer
from attnviz.masks import GROUPS, MASKS, Mask
from attnviz.mechanism import Mechanism
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES
from attnviz.sources import SOURCES, Source
from attnviz.sources.source import Opening
from attnviz.sources.upload import File
from attnviz.ui.color_range import ColorRange
from attnviz.ui.markdown import plain

T = TypeVar("T")
AS_MADE = "As in the model"
OTHER = "Written below"  # a mask that is none of the catalogue by itself
GROUP = "— "  # how the name of a group begins in a menu
HELP = {  # of the widgets that no dataclass explains
    "Layer": "Layers run one after the other: each looks at what the one before has made of the tokens.",
    "Head": "A layer looks several times at once: each head has queries and keys of its own.",
    "Biases": "What is done to the scores before the mask.",
    "Special tokens": "Tokens that the tokenizer adds, such as [CLS] and [SEP]. Many heads rest much of their "
    "attention there; hidden, they leave the others to be seen.",
    "Mosaic": "The small maps: the heads of this layer, or all heads of all layers.",
    "Colors": "Which weight has the last color of the scale.",
}
TOGETHER = {"Mean of heads": Aggregate.MEAN, "Maximum of heads": Aggregate.MAXIMUM}


def source() -> tuple[Source, DeltaGenerator]:
    """The chosen source: what a person brings stands on the page, its settings in the sidebar, in a place that can
    be emptied."""
    with st.sidebar:
        kind = _named(SOURCES)[_one_of("Source", _named(SOURCES), title(SOURCES[0]), "source")]
    brought, *settings = _settable(kind)
    values = {brought.name: _widget(brought, kind, "")}
    place = st.sidebar.empty()
    with place.container():
        values |= {setting.name: _widget(setting, kind, title(kind)) for setting in settings}
    return kind(**values), place


def layer_and_head(layers: Sequence[Layer], opening: Opening) -> tuple[int, HeadChoice]:
    """The position of a layer, and of one of its heads, or several of them as one."""
    names = _names(layers)
    layer = names.index(_opened("Layer", names, opening.layer, names))
    heads = head_names(layers[layer].inputs.heads)
    together = list(TOGETHER) if len(heads) > 1 else []
    chosen = _opened("Head", (*heads, *together), opening.head, names)
    return layer, heads.index(chosen) if chosen in heads else TOGETHER[chosen]


def reserve(layers: Sequence[Layer], **chosen: str) -> None:
    """Keeps a `layer` and a `head`, by their names in the menus, for when these layers are shown."""
    for key, name in chosen.items():
        st.session_state.setdefault(f"{key} chosen", {})[_names(layers)] = name


def _names(layers: Sequence[Layer]) -> tuple[str, ...]:
    return tuple(layer.name for layer in layers)


def picture(layers: Sequence[Layer], layer: int) -> tuple[Special, bool, ColorRange]:
    """How the picture is drawn: special tokens, whether the mosaic shows all layers, the range of the colors."""
    hiding = {"Shown": Special.SHOWN, "Hidden": Special.HIDDEN, "Hidden, rows rescaled": Special.RESCALED}
    adds_tokens = bool(layers[layer].inputs.special_keys)
    special = _select("Special tokens", list(hiding), about=HELP["Special tokens"]) if adds_tokens else "Shown"
    several = len(layers) > 1
    every = several and _select("Mosaic", ["One layer", "All layers"], about=HELP["Mosaic"]) == "All layers"
    return hiding[special], every, ColorRange(_select("Colors", list(map(str, ColorRange)), about=HELP["Colors"]))


def head_names(heads: int) -> list[str]:
    return [f"Head {head}" for head in range(heads)]


def mechanism(start: Mechanism) -> Mechanism:
    """How to attend; each part begins as `start` has it."""
    score = part("Score", _named(SCORES), start.score)
    changed = biases("Biases", start.biases)
    mask = part("Mask", MASK_MENU, start.mask)
    return Mechanism(score, changed, mask, part("Normalizer", _named(NORMALIZERS), start.normalizer))


def masked(start: Mechanism) -> Mechanism:
    """Who may look at whom, for a page that chooses scores and normalizers elsewhere."""
    return replace(start, biases=biases("Biases", start.biases), mask=part("Mask", MASK_MENU, start.mask))


def normalized(start: Mechanism) -> Mechanism:
    """How scores become weights, for a page that chooses the rest elsewhere."""
    return replace(start, normalizer=part("Normalizer", _named(NORMALIZERS), start.normalizer))


def scoring(start: Mechanism) -> Mechanism:
    """How scores are made and become weights, for a page that chooses masks and biases elsewhere."""
    return normalized(replace(start, score=part("Score", _named(SCORES), start.score)))


def biases(label: str, start: Sequence[Bias], side: str = "") -> tuple[Bias, ...]:
    """What is done to the scores; `side` tells the widgets of two mechanisms on one page apart."""
    return tuple(several(label, BIASES, start, side, HELP["Biases"]))


def several(label: str, kinds: Sequence[type[T]], start: Sequence[T], side: str = "", about: str = "") -> list[T]:
    """Several parts of one menu, each with its widgets; they begin as `start`. What no menu has stays."""
    menu = _named(kinds)
    own = [one for one in start if type(one) not in kinds]
    start = [one for one in start if type(one) in kinds]
    names = [title(type(one)) for one in start]
    chosen = st.multiselect(
        label, list(menu), names, key=_key(label), bind="query-params", placeholder="None", help=about or None
    )
    made = {type(one): one for one in start}
    parts = own
    for name in chosen:
        st.markdown(f"**{name}**", help=help_text(menu[name]))
        parts.append(_filled(f"{side} {name}".strip(), made.get(menu[name], menu[name]())))
    return parts


def each(kinds: Sequence[type[T]]) -> list[T]:
    """All parts of a menu, each with the widgets of its parameters under its name."""
    made = []
    for kind in kinds:
        if _settable(kind):
            st.markdown(f"**{title(kind)}**")
        made.append(_filled(title(kind), kind()))
    return made


def mask(key: str, label: str, text: str, read: Mask) -> Mask:
    """A mask of the catalogue from a menu and the widgets of its parameters, none of them in the link.

    They show the mask that was read from `text` whenever the text is not what it was the last time, or has not been
    written by them.
    """
    start, kind = read, type(read)
    other = not isinstance(read, MASKS) or not all(_can_be_set(getattr(read, one.name)) for one in _settable(kind))
    follow = st.session_state.get(f"{key} followed") != text or f"{key}-menu" not in st.session_state
    st.session_state[f"{key} followed"] = text
    if follow:
        st.session_state[f"{key}-menu"] = OTHER if other else title(kind)
    names: dict[str, type[Mask]] = {**({OTHER: kind} if other else {}), **MASK_MENU}
    chosen = _menu(label, names, 0, f"{key}-menu", help_text(kind))
    if names[chosen] is not kind:
        start, follow = names[chosen](), True
    if chosen == OTHER:
        return start
    for setting in _settable(type(start)) if follow else ():
        st.session_state[_field_key(key, type(start), setting)] = _shown(getattr(start, setting.name))
    filled = _filled(key, start, bound=False)
    if filled != read:
        st.session_state[f"{key} followed"] = str(filled)  # the widgets have it already
    return filled


def said(problem: str) -> None:
    """Says on the page, here, what is wrong."""
    st.error(plain(problem))


def part(label: str, menu: dict[str, type[T]], start: T, key: str = "", refused: Callable[[str], object] = said) -> T:
    """One part of a mechanism, its widgets under `key`; what no menu has, or no widget can hold, stays a choice of its
    own: AS_MADE. What a combination is refused for goes to `refused`, and the part as it begins comes back."""
    made = _made(menu, start)
    name = _one_of(label, {**made, **menu}, AS_MADE if made else title(type(start)), key or _key(label))
    kind = {**made, **menu}[name]
    return start if name in made else _filled(key or label, start if type(start) is kind else kind(), refused=refused)


def written(menu: Mapping[str, type[T]], chosen: T, key: str) -> dict[str, object]:
    """What the session holds when the widgets of a part under `key` show the chosen one."""
    if _made(menu, chosen):
        return {key: AS_MADE}
    values = {_field_key(key, type(chosen), one): _shown(getattr(chosen, one.name)) for one in _settable(type(chosen))}
    return {key: title(type(chosen)), **values}


def _made(menu: Mapping[str, type[T]], start: T) -> dict[str, type[T]]:
    """The choice of what no menu has, or no widget can hold."""
    plain_values = all(_can_be_set(getattr(start, one.name)) for one in _settable(type(start)))
    return {} if type(start) in menu.values() and plain_values else {AS_MADE: type(start)}


def _one_of(label: str, menu: dict[str, type], start: str, key: str) -> str:
    # On the first run of a link the widget has no state yet.
    chosen = st.session_state.get(key, st.query_params.get(key))
    about = menu.get(chosen, menu[start]) if isinstance(chosen, str) else menu[start]
    return _menu(label, menu, list(menu).index(start), key, help_text(about), bind="query-params")


def _menu(label: str, names: dict[str, type], index: int, key: str, about: str, **more: Any) -> str:
    """A menu in which the name of a group stands for its first member."""

    def enter_group() -> None:
        chosen = st.session_state[key]
        if chosen.startswith(GROUP):
            st.session_state[key] = title(names[chosen])

    return st.selectbox(label, list(names), index, key=key, help=about, on_change=enter_group, **more)


def _opened(label: str, options: Sequence[str], index: int, layers: tuple[str, ...]) -> str:
    """A menu that begins where the source opens; what another source began with is nobody's choice. What is chosen
    stands in the session for each list of layers, so that it is there again when they are."""
    key, first, state = _key(label), options[index], st.session_state
    chosen = state.setdefault(f"{key} chosen", {})
    if key in state:
        if state.get(f"{key} of") != layers and layers in chosen:
            state[key] = chosen[layers]
        elif state[key] == state.get(f"{key} first"):
            state[key] = first
        if state[key] not in options:  # said explicitly, because Streamlit would leave it in the link
            state[key] = first
    state[f"{key} first"], state[f"{key} of"] = first, layers
    chosen[layers] = _select(label, options, index, HELP[label])
    return chosen[layers]


def _select(label: str, options: Sequence[str], index: int = 0, about: str | None = None) -> str:
    return st.selectbox(label, options, index, key=_key(label), bind="query-params", help=about)


def _filled(prefix: str, start: T, bound: bool = True, refused: Callable[[str], object] = said) -> T:
    """`start` with the values of its widgets; a combination that is refused is said and leaves `start`."""
    try:
        values = {one.name: _widget(one, type(start), prefix, start, bound) for one in _settable(type(start))}
        return replace(start, **values)  # type: ignore[type-var]
    except ValueError as problem:
        refused(str(problem))
        return start


def _settable(kind: type) -> list[Field]:
    return [setting for setting in fields(kind) if setting.metadata]


def _can_be_set(value: object) -> bool:
    """Whether a widget can hold the value."""
    many = isinstance(value, tuple) and not any(isinstance(one, bool) for one in value)
    return many or isinstance(value, int | float | str | None)


def _shown(value: object) -> object:
    """A value as its widget holds it."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def _widget(setting: Field, kind: type, prefix: str, start: object = None, bound: bool = True) -> Any:
    """The widget of one field; its limits are the field's metadata, its beginning the field of `start`."""
    about = setting.metadata
    label = about.get("label", setting.name.capitalize())
    key = _field_key(prefix, kind, setting)
    value: Any = _shown(getattr(start, setting.name, setting.default))
    how: dict[str, Any] = {"key": key}
    if bound:
        how["bind"] = "query-params"
    else:  # the session holds the value, and would complain of another one given
        st.session_state.setdefault(key, value)
    begin: dict[str, Any] = {"value": value} if bound else {}
    if isinstance(value, bool):
        return st.toggle(label, **begin, **how)
    if "many" in about:
        return _numbers(st.text_input(label, **begin, **how), label, about)
    if get_args(setting.type) and isinstance(value, str):
        options = list(get_args(setting.type))
        return st.selectbox(label, options, options.index(value) if bound else 0, **how)
    if isinstance(value, str):
        return st.text_input(label, help=help_text(kind), **begin, **how)
    if "max_bytes" in about:
        # Of any ending: what a file is, its source tells, in a sentence of its own.
        uploaded = st.file_uploader(label, key=key, help=help_text(kind), max_upload_size=about["max_bytes"]() >> 20)
        return uploaded and File(uploaded.name, uploaded.getvalue())
    limits: dict[str, Any] = {"min_value": about["min"], "max_value": about["max"]}
    if isinstance(about["min"], float):
        step, empty = about.get("step", 1.0), about.get("empty")
        return st.number_input(label, step=step, format="%.6g", placeholder=empty, **begin, **limits, **how)
    return whole(label, **begin, **limits, **how)


def whole(label: str, **how: Any) -> int:
    """A number_input for whole numbers."""
    try:
        return st.number_input(label, step=1, **how)
    except OverflowError:
        # A link that says infinity, of which Streamlit 1.67 tries to make a whole number: a widget without the link.
        return st.number_input(label, step=1, **how | {"key": f"{how['key']} unbound", "bind": None})


def _numbers(text: str, label: str, about: Mapping[str, Any]) -> tuple[int, ...]:
    """Whole numbers written one after the other; raises ValueError, in words, for anything else."""
    words = text.replace(",", " ").split()
    most, least, largest = about["many"], about["min"], about["max"]
    wrong = next((word for word in words if not re.fullmatch(r"[+-]?[0-9]{1,9}", word)), None)
    if wrong is not None:
        raise ValueError(
            f"{label}: whole numbers with spaces between them are expected, such as 3 4 5; “{wrong}” is none."
        )
    if len(words) > most:
        raise ValueError(f"{label}: at most {most} numbers are expected; there are {len(words)}.")
    if strange := [word for word in words if not least <= int(word) <= largest]:
        raise ValueError(f"{label}: numbers from {least} to {largest} are expected; it has {strange[0]}.")
    return tuple(map(int, words))


def _named(kinds: Sequence[type[T]]) -> dict[str, type[T]]:
    return {title(kind): kind for kind in kinds}


def title(kind: type) -> str:
    """SlidingWindow → Sliding window, PrefixLM → Prefix LM, Neighborhood2D → Neighborhood 2D."""
    if name := getattr(kind, "NAME", ""):
        return name
    first, *rest = re.findall(r"[A-Z]+(?![a-z])|[0-9]+[A-Z]*|[A-Z][a-z]*", kind.__name__)
    return " ".join([first, *(word if word.isupper() and len(word) > 1 else word.lower() for word in rest)])


def _field_key(prefix: str, kind: type, setting: Field) -> str:
    """The name of a field's widget. A number stays as it is when another mask is chosen; numbers in a row mean
    something else in each mask."""
    own = f".{title(kind)}" if "many" in setting.metadata else ""
    return _key(f"{prefix}{own}.{setting.name}".strip("."))


def _key(label: str) -> str:
    """The name of a widget in the link."""
    return label.lower().replace(" ", "-")


def help_text(kind: type) -> str:
    """The docstring of a class without its examples, which are for a reader of the code."""
    return re.split(r"\n\s*(?:Examples?:\s*\n|>>> )", inspect.cleandoc(kind.__doc__ or ""), maxsplit=1)[0].rstrip()


MASK_MENU: dict[str, type[Mask]] = {
    name: kind
    for group, kinds in GROUPS.items()
    for name, kind in {f"{GROUP}{group} —": kinds[0], **_named(kinds)}.items()
}
