"""The widgets of the fields of states, bound to the link."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _, option_with_name
from attnviz.base.settings import MB, upload_bytes
from attnviz.page.fields import (
    ChoiceField,
    ChoicesField,
    Field,
    FlagField,
    NumberField,
    ParsedField,
    PartField,
    PartsField,
    RangeField,
    ScaleField,
    TextField,
    setting_field,
)
from attnviz.page.parts import (
    AS_IN_MODEL,
    GROUP,
    as_in_model,
    by_title,
    field_key,
    help_text,
    menu_name,
    settings,
    title,
)
from attnviz.page.session_fields import FILE_NOT_LINKED, FileField, LongField, LongTextField, text_note
from attnviz.sources.upload import File
from attnviz.ui.link_state import requested_values, unlinked, write_in_link
from attnviz.ui.markdown import plain
from attnviz.ui.menus import chosen_option, names_of
from attnviz.ui.session_values import SessionValue, has_widget, read_widget, widget_callback, write_widget
from attnviz.ui.widget_values import kept_choice, kept_number, menu_of

T = TypeVar("T")
BIND: Any = "query-params"  # the link has the value of the widget


def draw(field: Field[T], state: Any = None, widget: Any = None, *, opening: Any = None, **options: Any) -> T:
    """Draws the widget of a field and returns its value; where the state does not offer the field, its opening value.

    `state` has the fields before it that its options, its opening value and whether it is offered depend on; without
    one it is offered. `widget` is another Streamlit widget than that of its kind, `opening` another opening value than
    the field's, such as that of what is shown, and `options` are those of the widget.

    Where the options of a choice are not those of the run before, it has the last choice among them, or else the
    opening one; what nobody has changed follows the opening value. Raises ValueError for a text that a
    ParsedField does not take, TypeError for a field of a kind without a widget.
    """
    opening = field.opening(state) if opening is None else opening
    if state is not None and not field.is_offered(state):
        value: Any = opening
    elif isinstance(field, PartField):
        value = choose_object(field, opening, **options)
    elif isinstance(field, PartsField):
        value = choose_several(field, opening)
    elif isinstance(field, LongTextField):
        value = draw_text(field, st.text_area, opening=opening, height="content", **options)
    elif isinstance(field, ParsedField):
        value = field.parse(draw_text(field, widget, opening=opening, **options))
    else:
        value = _draw(field, state, widget, opening, _common(field) | options)
    return value


def draw_text(field: ParsedField[Any], widget: Any = None, *, opening: Any = None, **options: Any) -> str:
    """Draws the widget of a field that is written as a text, and returns the text, which the field may not take."""
    value = field.text(field.opening(None) if opening is None else opening)
    _follow(field.parameter, value)
    note = text_note(read_widget(field.parameter) or "") if isinstance(field, LongField) else ""
    options = _common(field) | options | (_session_options(field, note) if isinstance(field, LongField) else {})
    text = str((widget or st.text_input)(value=value, **options))
    if note:
        st.caption(note)
    return text


def hidden_container(name: str) -> DeltaGenerator:
    """Returns a container that nobody sees, whose widgets keep what they have in the link."""
    return st.container(key=f"in-link-{name}")


def draw_hidden(field: ParsedField[Any]) -> str:
    """Draws the widget of a field that nobody sees, so that the link keeps its text, and returns that; call it once a
    run."""
    with hidden_container(field.parameter):
        return draw_text(field, label_visibility="collapsed")


def choice_tabs(field: ChoiceField[Any], state: Any = None) -> dict[str, Any]:
    """Draws the options of a field as tabs, and returns them by the names of the options."""
    note_refusal(field, state)
    key, names = field.parameter, [*field.options(state)]
    name_of = names_of(key, names, field.option_name)
    labels = [*map(name_of, names)]
    if (chosen := read_widget(key)) is not None and chosen not in labels:  # a tab is known by its label
        write_widget(key, name_of(option_with_name(chosen, names, field.option_name) or names[0]))
    opening = name_of(field.name_of(state, field.opening(state)))
    return dict(zip(names, st.tabs(labels, default=opening, key=key, bind=BIND), strict=True))


def note_refusal(field: Field[Any], state: Any) -> None:
    """Notes what the field does not take of the link that this run opens: Streamlit drops it without a word."""
    link = requested_values()
    if link.texts(field.parameter) is not None:
        field.read(state, link)


def _follow(key: str, opening: str) -> None:
    """Gives a text that nobody has changed the opening one of this run."""
    menu = menu_of(key)
    if has_widget(key) and read_widget(key) == menu.opening != opening:
        write_widget(key, opening)
    menu.opening = opening


def _common(field: Field[Any]) -> dict[str, Any]:
    if not isinstance(field, FileField):
        write_in_link(field.parameter)
    about = _(field.about) or None
    return {"label": _(field.label), "key": field.parameter, "bind": BIND, "help": about}


def _session_options(field: LongField[Any], note: str) -> dict[str, Any]:
    """Returns the options of the widget of a text that the session keeps, and the link unless a note says why not."""
    key = field.parameter
    was_long = SessionValue(f"{key} was long", bool)
    if was_long.get() and not note:
        write_widget(key, read_widget(key))  # writes the link again, which the browser has not done
    was_long.set(bool(note))
    if note:
        unlinked.set(note)
    return {"persist_state": "session"} | ({"bind": None} if note else {})


def _draw(field: Field[Any], state: Any, widget: Any, opening: Any, options: dict[str, Any]) -> Any:
    note_refusal(field, state)
    if isinstance(field, ChoicesField):
        choices = field.options(state)
        chosen = _choose(field, state, [*choices], [], widget or st.multiselect, options)
        return tuple(choices[name] for name in choices if name in chosen)
    if isinstance(field, ChoiceField):
        choices, usual = field.options(state), st.select_slider if isinstance(field, ScaleField) else st.selectbox
        opening = field.name_of(state, opening)
        return choices[_choose(field, state, [*choices], opening, widget or usual, options)]
    if isinstance(field, FlagField):
        return (widget or st.toggle)(value=opening, **options)
    if isinstance(field, NumberField):
        options = {"min_value": field.least(state), "max_value": field.most, "value": opening} | options
        menu = menu_of(field.parameter)
        if (number := kept_number(field, state, opening)) != read_widget(field.parameter):
            write_widget(field.parameter, number)
        menu.opening = opening
        if widget or field.decimals == 0:
            return (widget or whole_number)(**options)
        placeholder = _(field.empty) if field.empty else None
        number = st.number_input(step=field.step, format="%.6g", placeholder=placeholder, **options)
        if number is None:
            return None
        return field.rounded(number) if math.isfinite(number) else opening
    if isinstance(field, FileField):
        del options["bind"]
        return _upload(type=field.endings, max_upload_size=min(field.megabytes, upload_bytes() // MB), **options)
    if isinstance(field, RangeField):
        return tuple(sorted(st.slider(min_value=opening[0], max_value=opening[1], value=opening, **options)))
    raise TypeError(f"{field.name} has no widget here: {type(field).__name__}.")


def _upload(**options: Any) -> File | None:
    if uploaded := st.file_uploader(**options):
        unlinked.set(_(FILE_NOT_LINKED))
        st.caption(_(FILE_NOT_LINKED))
    return File(uploaded.name, uploaded.getvalue()) if uploaded else None


def _choose(
    field: ChoiceField[Any], state: Any, names: Sequence[str], opening: Any, widget: Any, options: dict[str, Any]
) -> Any:
    """Draws a widget of options, and returns the name of the chosen one, or of several a list."""
    key, context = field.parameter, hash(field.context(state))
    menu, is_several = menu_of(key), isinstance(field, ChoicesField)
    if has_widget(key) and (chosen := kept_choice(field, state, names, opening)) != read_widget(key):
        write_widget(key, chosen)  # which Streamlit would leave in the link otherwise
    opens: dict[str, Any] = {"default": opening, "required": True}  # of buttons
    if is_several:
        opens = {}
    elif widget in (st.selectbox, st.select_slider):
        opens = {"index": names.index(opening)} if widget is st.selectbox else {"value": opening}
    chosen = widget(options=names, format_func=names_of(key, names, field.option_name), **opens, **options)
    chosen = opening if chosen is None else chosen  # of buttons, where the link has an empty value
    menu.context, menu.opening, menu.choices[context] = context, opening, chosen
    return chosen


def show_error(problem: str) -> None:
    st.error(plain(problem), icon=":material/error:")


def choose_object(field: PartField[T], start: T, on_refusal: Callable[[str], object] = show_error) -> T:
    """Returns an object of the chosen class of a field, with the values of its widgets.

    The menu begins with `start`, as AS_IN_MODEL if the menu does not have its class or widgets cannot hold its values.
    If the class refuses the values, `on_refusal` is called and the initial object is returned.
    """
    if (kind := choose_class(field, start)) is None:
        return start
    return configure(start if type(start) is kind else kind(), field.parameter, on_refusal=on_refusal)


def choose_class(field: PartField[T], start: T) -> type[T] | None:
    """Draws the menu of a field, in which the name of a group selects its first member, and the docstring of the chosen
    class is the help. Returns the class; None for AS_IN_MODEL."""
    key, unnamed = field.parameter, as_in_model(field.menu, start)
    menu = {**unnamed, **field.menu}
    requested_values().names(key, menu)  # which refuses others
    opening = AS_IN_MODEL if unnamed else title(type(start))

    def enter_group(name: str) -> None:
        if name.startswith(GROUP):
            write_widget(key, title(menu[name]))

    # On the first run of a link the widget has no state yet.
    about = help_text(menu.get(chosen_option(key, menu), menu[opening]))
    name = st.selectbox(
        options=list(menu),
        index=list(menu).index(opening),
        format_func=names_of(key, menu, menu_name),
        on_change=widget_callback(key, enter_group),
        **_common(field) | {"help": about},
    )
    return None if name == AS_IN_MODEL else menu[name]


def choose_several(field: PartsField, start: Sequence[Any]) -> tuple:
    """Returns an object of each chosen class of a field, with the values of its widgets.

    Objects of `start` whose class is not in the menu are always included.
    """
    menu: Mapping[str, type] = by_title(field.kinds)
    started = {type(one): one for one in start if type(one) in field.kinds}
    requested_values().names(field.parameter, menu)  # which refuses others
    chosen = st.multiselect(
        options=list(menu),
        default=[title(kind) for kind in started],
        select_all=False,
        placeholder=_("None"),
        format_func=names_of(field.parameter, menu),
        **_common(field),
    )
    objects = [one for one in start if type(one) not in field.kinds]
    for name in chosen:
        kind = menu[name]
        st.markdown(f"**{_(name)}**", help=help_text(kind))
        objects.append(configure(started.get(kind, kind()), field.prefix(kind)))
    return tuple(objects)


def configure(start: T, prefix: str, *, on_refusal: Callable[[str], object] = show_error) -> T:
    """Returns `start` with the values of its widgets; refused values are explained and leave it unchanged."""
    try:
        values = {one.name: draw_setting(one, prefix, start) for one in settings(type(start))}
        return replace(start, **values)  # type: ignore[type-var]
    except ValueError as problem:
        on_refusal(str(problem))
        return start


def draw_setting(setting: dataclasses.Field, prefix: str, start: object, **options: Any) -> Any:
    """Draws the widget of a setting of a class, which begins with that of `start`; returns its value. `options` are
    those of the widget."""
    about = {"help": help_text(type(start))}
    if "max_bytes" in setting.metadata:
        # Files of every name, if the source refuses an unknown format in a sentence of its own.
        limits = {"type": setting.metadata.get("endings"), "max_upload_size": setting.metadata["max_bytes"]() // MB}
        label, key = _(setting.metadata["label"]), field_key(prefix, type(start), setting)
        return _upload(**{"label": label, "key": key} | about | limits | options)
    field = setting_field(setting, prefix, start)
    return draw(field, **(about if type(field) is TextField else {}) | options)


def whole_number(label: str, **options: Any) -> int:
    """Draws a number_input for integers."""
    try:
        return st.number_input(label, step=1, **options)
    except OverflowError:
        # Streamlit 1.67 fails to convert infinity in a link to a whole number: draw the widget without the link.
        return st.number_input(label, step=1, **options | {"key": f"{options['key']} unbound", "bind": None})
