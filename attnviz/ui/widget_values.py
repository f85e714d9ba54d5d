"""The values that the widgets of fields have in the session, before and after they are drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any, TypeVar

import streamlit as st

from attnviz.base.language import option_with_name
from attnviz.page.fields import (
    ChoiceField,
    ChoicesField,
    Field,
    LinkReader,
    NumberField,
    ParsedField,
    PartField,
    PartsField,
    setting_field,
    setting_fields,
)
from attnviz.page.parts import AS_IN_MODEL, as_in_model, by_title, settings, title
from attnviz.page.session_fields import FileField
from attnviz.sources.upload import File
from attnviz.ui.link_state import link_parameters
from attnviz.ui.session_values import SessionValue, has_widget, read_widget, write_widget

T = TypeVar("T")


@dataclass
class DrawnMenu:
    """How a menu was drawn last, or of a number its opening value."""

    subject: int = hash(None)  # of its value
    context: int = 0  # a hash: a long text has many queries
    names: int = 0  # of the options, a hash
    opening: Any = None
    choices: dict[int, Any] = dataclass_field(default_factory=dict)  # the last choices, by context


def field_value(field: Field[T], state: Any = None) -> Any:
    """Returns the value that the widget of a field has in the session, or None before it is drawn first."""
    value = read_widget(field.parameter)
    return field.options(state).get(value) if isinstance(field, ChoiceField) and value is not None else value


def field_text(field: ParsedField[Any]) -> str:
    """Returns the text of a field: that of its widget, or before it is drawn first that of the link, or the opening
    one."""
    linked = st.query_params.get(field.parameter, field.text(field.opening(None)))
    return str(read_widget(field.parameter, linked))


def set_field_value(field: Field[T], value: T, state: Any = None) -> None:
    """Gives the widget of a field a value; call it before the widget is drawn in a run, as a callback does."""
    if isinstance(field, PartField | PartsField):
        return _set_parts(field, value, state)
    shown = shown_value(field, value, state)
    if isinstance(field, ChoiceField):
        menu_of(field.parameter).choices[hash(field.context(state))] = shown
    write_widget(field.parameter, shown)


def current_value(field: Field[T], state: Any, link: LinkReader) -> Any:
    """Returns the value that the widget of a field is going to have in this run: what somebody has chosen, and before
    it is drawn first that of the link. Raises ValueError for a text that the field does not take."""
    key, opening = field.parameter, field.opening(state)
    if not has_widget(key):
        return field.read(state, link)
    menu, subject = menu_of(key), field.subject(state)
    if subject is not None and menu.subject != hash(subject):
        return opening
    if isinstance(field, ChoicesField):
        choices = field.options(state)
        chosen = kept_choice(field, state, [*choices], [])
        return tuple(choices[name] for name in choices if name in chosen)
    if isinstance(field, ChoiceField):
        choices = field.options(state)
        return choices[kept_choice(field, state, [*choices], field.name_of(state, opening))]
    if isinstance(field, PartField):
        kind = field.menu.get(read_widget(key))
        return opening if kind is None else _current_settings(field, field.start(state, kind), link)
    if isinstance(field, PartsField):
        kinds: Mapping[str, type] = by_title(field.kinds)
        started = {type(each): each for each in field.opening(state)}
        chosen = [kinds[name] for name in read_widget(key)]
        fixed = [each for kind, each in started.items() if kind not in field.kinds]
        return (*fixed, *(_current_settings(field, started.get(kind, kind()), link) for kind in chosen))
    value, menu = read_widget(key), menu_of(key)
    if isinstance(field, FileField):
        return value and File(value.name, value.getvalue())
    if isinstance(field, ParsedField):
        return opening if value == menu.opening else field.parse(value)
    if isinstance(field, NumberField):
        return kept_number(field, state, opening)
    return value


def set_drawn_value(field: Field[Any], state: Any) -> None:
    """Lets the widget of a field have the value of a state when it is drawn next in this run."""
    key, value, menu = field.parameter, state.values[field.name], menu_of(field.parameter)
    if menu.subject != (subject := hash(field.subject(state))):
        menu.subject = subject
        menu.choices.clear()
    names = menu.names
    if isinstance(field, ChoiceField) and field.is_offered(state):
        menu.names = hash(tuple(field.options(state)))
    if not has_widget(key):
        drop_stale([field], state)
    elif isinstance(field, FileField):
        return  # a browser alone can choose a file
    elif isinstance(field, PartField | PartsField):
        for name, shown in part_values(field, value).items():
            if has_widget(name) and read_widget(name) != shown:
                write_widget(name, shown)
    elif field.is_offered(state):
        shown = shown_value(field, value, state)
        # A menu would lose its value where its options are others than before.
        if menu.names != names or read_widget(key) != shown:
            write_widget(key, shown)


def _current_settings(part: PartField[T] | PartsField, start: T, link: LinkReader) -> T:
    values = {name: current_value(field, None, link) for name, field in setting_fields(part, start).items()}
    return replace(start, **values)  # type: ignore[type-var]


def part_values(field: PartField[Any] | PartsField, value: Any) -> dict[str, object]:
    """Returns what the widgets of a field of parts have, by their keys, where they show a value."""
    if isinstance(field, PartField):
        return widget_state(field.menu, value, field.parameter)
    parts = [each for each in value if type(each) in field.kinds]
    shown: dict[str, object] = {field.parameter: [title(type(each)) for each in parts]}
    for each in parts:
        shown |= field_state(each, field.prefix(type(each)))
    return shown


def choose_option(field: ChoiceField[Any], value: object, state: Any) -> None:
    """Chooses what was clicked in a picture, if that is one of the options: a browser may still show another one."""
    if value in field.options(state).values():
        set_field_value(field, value, state)


def _set_parts(field: PartField[Any] | PartsField, value: Any, state: Any) -> None:
    start = field.start(state, type(value)) if isinstance(field, PartField) else field.opening(state)
    usual = part_values(field, start)
    for key, shown in part_values(field, value).items():
        if not has_widget(key) and shown != usual.get(key):
            st.query_params[key] = shown if isinstance(shown, list) else str(shown)  # Streamlit 1.67 leaves it out
        write_widget(key, shown)


def shown_value(field: Field[Any], value: Any, state: Any = None) -> Any:
    """Returns a value as the widget of its field has it."""
    if isinstance(field, ChoicesField):
        return [field.name_of(state, each) for each in value]
    if isinstance(field, ChoiceField):
        return field.name_of(state, value)
    return field.text(value) if isinstance(field, ParsedField) else value


def drop_stale(fields: Iterable[Field[Any]], state: Any) -> None:
    """Removes from the link what fields do not have and no widget has taken yet; Streamlit would leave it there."""
    link = LinkReader(link_parameters())
    for field in fields:
        key = field.parameter
        if link.text(key) is None or has_widget(key):
            continue
        value, opening = field.read(state, link) if field.is_offered(state) else None, field.opening(state)
        if key in link.refused and value != opening:
            st.query_params[key] = [text for _parameter, text in field.write(state, value)]
        elif key in link.refused or not field.is_offered(state):
            del st.query_params[key]


def menu_of(key: str) -> DrawnMenu:
    return SessionValue(f"{key} menu", DrawnMenu).get()


def kept_choice(field: ChoiceField[Any], state: Any, names: Sequence[str], opening: Any) -> Any:
    """Returns the option, or of several a list, that a widget keeps where its options may be others than before."""
    chosen, menu, context = read_widget(field.parameter), menu_of(field.parameter), hash(field.context(state))
    if menu.context != context and context in menu.choices:
        chosen = menu.choices[context]
    elif not isinstance(field, ChoicesField) and chosen == menu.opening:
        chosen = opening
    if isinstance(field, ChoicesField):
        return [name for name in chosen if name in names]
    if isinstance(chosen, str) and chosen not in names:  # as a tab is known by its label
        chosen = option_with_name(chosen, names, field.option_name)
    return chosen if chosen in names else opening


def kept_number(field: NumberField, state: Any, opening: Any) -> Any:
    """Returns the number that a widget keeps where its limits may be others than before."""
    before = read_widget(field.parameter)
    if before is None or before == menu_of(field.parameter).opening:
        return opening if before is not None else before
    return min(max(before, field.least(state)), field.most)


def widget_state(menu: Mapping[str, type[T]], value: T, key: str) -> dict[str, object]:
    """Returns the session state with which `choose_object` under `key` shows a value."""
    if as_in_model(menu, value):
        return {key: AS_IN_MODEL}
    return {key: title(type(value)), **field_state(value, key)}


def field_state(value: object, prefix: str) -> dict[str, object]:
    """Returns the session state with which the widgets of a value show it."""
    fields = {setting.name: setting_field(setting, prefix, value) for setting in settings(type(value))}
    return {field.parameter: shown_value(field, getattr(value, name)) for name, field in fields.items()}
