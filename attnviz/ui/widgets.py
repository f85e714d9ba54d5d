"""Widgets from dataclasses: docstrings are help texts, fields are widgets and link parameters."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import Any, TypeVar, get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import N_, _, option_name
from attnviz.sources.upload import File
from attnviz.ui.markdown import plain
from attnviz.ui.menus import chosen_option, names_of

T = TypeVar("T")
AS_IN_MODEL = N_("As in the model")  # the choice of a part that no menu has, or no widget can hold
GROUP = "— "  # how the name of a group begins in a menu


def title(kind: type) -> str:
    """Returns the name of a class in menus: SlidingWindow → Sliding window, PrefixLM → Prefix LM."""
    if name := getattr(kind, "NAME", ""):
        return name
    first, *rest = re.findall(r"[A-Z]+(?![a-z])|[0-9]+[A-Z]*|[A-Z][a-z]*", kind.__name__)
    return " ".join([first, *(word if word.isupper() and len(word) > 1 else word.lower() for word in rest)])


def help_text(kind: type) -> str:
    """Returns the docstring of a class without its examples, in the current language."""
    text = re.split(r"\n\s*(?:Examples?:\s*\n|>>> )", inspect.cleandoc(kind.__doc__ or ""), maxsplit=1)[0].rstrip()
    return _(text)


def by_title(kinds: Sequence[type[T]]) -> dict[str, type[T]]:
    """Returns a menu of classes."""
    return {title(kind): kind for kind in kinds}


def parameter(label: str) -> str:
    """Returns the link parameter of a widget."""
    return label.lower().replace(" ", "-")


def menu_name(option: str, code: str | None = None) -> str:
    """Returns the name of a class or of a group of classes in a language, by default the current one."""
    if not option.startswith(GROUP):
        return option_name(option, code)
    return f"{GROUP}{option_name(option[len(GROUP) : -2], code)} —"


def show_error(problem: str) -> None:
    st.error(plain(problem))


def choose_object(
    label: str,
    menu: Mapping[str, type[T]],
    start: T,
    key: str = "",
    on_refusal: Callable[[str], object] = show_error,
) -> T:
    """Returns an object of the chosen class, with the values of its widgets, whose keys begin with `key`.

    The menu begins with `start`, as AS_IN_MODEL if the menu does not have its class or widgets cannot hold its values.
    If the class refuses the values, `on_refusal` is called and the initial object is returned.
    """
    options = {**_as_in_model(menu, start), **menu}
    opening = AS_IN_MODEL if AS_IN_MODEL in options else title(type(start))
    name = choose_class(label, options, opening, key or parameter(label))
    kind = options[name]
    if name == AS_IN_MODEL:
        return start
    return configure(start if type(start) is kind else kind(), key or label, on_refusal=on_refusal)


def choose_several(
    label: str, kinds: Sequence[type[T]], start: Sequence[T], prefix: str = "", about: str | None = None
) -> list[T]:
    """Returns an object of each chosen class, with the values of its widgets, whose keys begin with `prefix`.

    Objects of `start` whose class is not in the menu are always included.
    """
    menu = by_title(kinds)
    started = {type(one): one for one in start if type(one) in kinds}
    chosen = st.multiselect(
        _(label), list(menu), [title(kind) for kind in started], key=parameter(label), bind="query-params",
        select_all=False,
        format_func=names_of(parameter(label), menu),
        placeholder=_("None"), help=about,
    )  # fmt: skip
    objects = [one for one in start if type(one) not in kinds]
    for name in chosen:
        kind = menu[name]
        st.markdown(f"**{_(name)}**", help=help_text(kind))
        objects.append(configure(started.get(kind, kind()), f"{prefix} {name}".strip()))
    return objects


def more(*parameters: str) -> DeltaGenerator:
    """Returns a place for widgets that most people do not need: folded, until the link holds one of their parameters,
    such as score, or one of a field of theirs, such as score.width."""
    used = any(name.split(".")[0] in parameters for name in st.query_params)
    return st.expander(_("More"), expanded=used, key="more")


def configure_all(kinds: Sequence[type[T]]) -> list[T]:
    """Returns an object of each class, with the values of its widgets, which are drawn under its name."""
    objects = []
    for kind in kinds:
        if settings(kind):
            st.markdown(f"**{_(title(kind))}**")
        objects.append(configure(kind(), title(kind)))
    return objects


def configure(start: T, prefix: str, *, linked: bool = True, on_refusal: Callable[[str], object] = show_error) -> T:
    """Returns `start` with the values of its widgets; refused values are explained and leave it unchanged."""
    try:
        values = {one.name: field_widget(one, type(start), prefix, start, linked) for one in settings(type(start))}
        return replace(start, **values)  # type: ignore[type-var]
    except ValueError as problem:
        on_refusal(str(problem))
        return start


def choose_class(label: str, menu: Mapping[str, type], opening: str, key: str) -> str:
    """Draws a menu of classes; the docstring of the chosen one is its help. Returns the name of the class."""
    # On the first run of a link the widget has no state yet.
    about = menu.get(chosen_option(key, menu), menu[opening])
    return grouped_menu(
        label, menu, list(menu).index(opening), key, help_text(about), bind="query-params",
        format_func=names_of(key, menu, menu_name),
    )  # fmt: skip


def take_older_values(key: str, names: Mapping[str, str]) -> None:
    """Sets a widget to the current name of a value that an older link calls otherwise."""
    if key not in st.session_state and (name := names.get(st.query_params.get(key, ""))):
        st.session_state[key] = name


def grouped_menu(label: str, menu: Mapping[str, type], index: int, key: str, about: str, **options: Any) -> str:
    """Draws a menu in which the name of a group selects its first member."""

    def enter_group() -> None:
        name = st.session_state[key]
        if name.startswith(GROUP):
            st.session_state[key] = title(menu[name])

    return st.selectbox(_(label), list(menu), index, key=key, help=about, on_change=enter_group, **options)


def widget_state(menu: Mapping[str, type[T]], value: T, key: str) -> dict[str, object]:
    """Returns the session state with which `choose_object` under `key` shows a value."""
    if _as_in_model(menu, value):
        return {key: AS_IN_MODEL}
    return {key: title(type(value)), **field_state(value, key)}


def field_state(value: object, prefix: str) -> dict[str, object]:
    """Returns the session state with which the widgets of a value show it."""
    kind = type(value)
    return {field_key(prefix, kind, one): _widget_value(getattr(value, one.name)) for one in settings(kind)}


def settings(kind: type) -> list[Field]:
    """Returns the fields of a class that have a widget."""
    return [one for one in fields(kind) if one.metadata]


def fits_widgets(value: object) -> bool:
    """Returns whether widgets can hold the values of all fields."""

    def fits(one: object) -> bool:
        numbers = isinstance(one, tuple) and not any(isinstance(number, bool) for number in one)
        return numbers or isinstance(one, int | float | str | None)

    return all(fits(getattr(value, one.name)) for one in settings(type(value)))


def field_widget(field: Field, kind: type, prefix: str, start: object = None, linked: bool = True) -> Any:
    """Draws the widget of a field, which begins with the field of `start`; the field's metadata are its limits."""
    about = field.metadata
    label = _(about.get("label", field.name.capitalize()))
    key = field_key(prefix, kind, field)
    value: Any = _widget_value(getattr(start, field.name, field.default))
    options: dict[str, Any] = {"key": key}
    if linked:
        options["bind"] = "query-params"
    else:  # the session holds the value, and would complain of another one given
        st.session_state.setdefault(key, value)
    opening: dict[str, Any] = {"value": value} if linked else {}
    if isinstance(value, bool):
        return st.toggle(label, **opening, **options)
    if "many" in about:
        return whole_numbers(st.text_input(label, **opening, **options), label, about)
    if get_args(field.type) and isinstance(value, str):
        choices = list(get_args(field.type))
        return st.selectbox(
            label, choices, choices.index(value) if linked else 0, format_func=names_of(key, choices), **options
        )
    if isinstance(value, str):
        return st.text_input(label, help=help_text(kind), **opening, **options)
    if "max_bytes" in about:
        # Files of every name: the source refuses an unknown format in a sentence of its own.
        uploaded = st.file_uploader(label, key=key, help=help_text(kind), max_upload_size=about["max_bytes"]() >> 20)
        return uploaded and File(uploaded.name, uploaded.getvalue())
    limits: dict[str, Any] = {"min_value": about["min"], "max_value": about["max"]}
    if isinstance(about["min"], float):
        step, empty = about.get("step", 1.0), about.get("empty")
        return st.number_input(
            label, step=step, format="%.6g", placeholder=_(empty) if empty else None, **opening, **limits, **options
        )
    return whole_number(label, **opening, **limits, **options)


def whole_number(label: str, **options: Any) -> int:
    """Draws a number_input for integers."""
    try:
        return st.number_input(label, step=1, **options)
    except OverflowError:
        # A link that says infinity, of which Streamlit 1.67 tries to make a whole number: a widget without the link.
        return st.number_input(label, step=1, **options | {"key": f"{options['key']} unbound", "bind": None})


def _as_in_model(menu: Mapping[str, type[T]], start: T) -> dict[str, type[T]]:
    return {} if type(start) in menu.values() and fits_widgets(start) else {AS_IN_MODEL: type(start)}


def _widget_value(value: object) -> object:
    """Returns a value as its widget holds it."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def whole_numbers(text: str, label: str, about: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the integers in a text. Raises ValueError for any other text, too many numbers, or one out of range."""
    words = text.replace(",", " ").split()
    most, least, largest = about["many"], about["min"], about["max"]
    wrong = next((word for word in words if not re.fullmatch(r"[+-]?[0-9]{1,9}", word)), None)
    if wrong is not None:
        raise ValueError(
            _("{label}: whole numbers with spaces between them are expected, such as 3 4 5; “{wrong}” is none.").format(
                label=label, wrong=wrong
            )
        )
    if len(words) > most:
        raise ValueError(
            _("{label}: at most {most} numbers are expected; there are {count}.").format(
                label=label, most=most, count=len(words)
            )
        )
    if outside := [word for word in words if not least <= int(word) <= largest]:
        raise ValueError(
            _("{label}: numbers from {least} to {largest} are expected; it has {outside}.").format(
                label=label, least=least, largest=largest, outside=outside[0]
            )
        )
    return tuple(map(int, words))


def field_key(prefix: str, kind: type, field: Field) -> str:
    """The name of a field's widget. A number stays as it is when another mask is chosen; numbers in a row mean
    something else in each mask."""
    own = f".{title(kind)}" if "many" in field.metadata else ""
    return parameter(f"{prefix}{own}.{field.name}".strip("."))
