"""Widgets, presets, captions and columns of the tab What if of Transformer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import N_, _, option_name
from attnviz.mechanism import Mechanism
from attnviz.models.interventions import Intervention
from attnviz.state.fields import Field, PartField
from attnviz.state.state import State
from attnviz.ui import cache
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import read_widget, write_widget
from attnviz.ui.widget_values import set_field_value
from attnviz.views.mechanism_sentences import describe_parts

T = TypeVar("T")
SIDES = (N_("As trained"), N_("Changed"))
UNCHANGED = N_("Nothing is changed. Try one of the changes above, or make one of your own.")
ABLATED = N_("This head is ablated: it sees nothing, and adds nothing.")


def draw_parts(
    fields: Sequence[PartField[Any]], columns: Sequence[DeltaGenerator], refused: list[str]
) -> dict[str, Any]:
    """Draws the menus of parts of a mechanism, one to a column, and returns the parts by the names of the fields.
    Messages about refused ones are added to `refused`."""
    chosen = {}
    for field, column in zip(fields, columns, strict=True):
        with column:
            chosen[field.name] = draw(field, on_refusal=refused.append)
    return chosen


def show_presets(
    presets: Mapping[str, Mapping[str, Any]], fields: Sequence[Field[Any]], shown: State, state: State, key: str
) -> None:
    """Draws the presets by name; the one with the values of `shown` is marked. A click gives `fields` the values of
    its preset, by their names, and where it has none, those that they have when the page opens with `state`."""
    opening = {field.name: field.opening(state) for field in fields}
    written = {name: shown.values[name] for name in opening}

    def is_shown(values: Mapping[str, Any]) -> bool:
        return all(written[name] == values.get(name, start) for name, start in opening.items())

    def take() -> None:
        if name := read_widget(key) or marked:  # a click on the marked one takes its mark away
            for field, value in {**opening, **presets[name]}.items():
                set_field_value(getattr(type(state), field), value, state)

    marked = next((name for name, values in presets.items() if is_shown(values)), None)
    write_widget(key, marked)
    st.pills(_("Try"), list(presets), key=key, on_change=take, label_visibility="collapsed", format_func=option_name)


def run_or_last(
    name: str, example: object, make: Callable[[], T], unchanged: T, refused: Sequence[str], notes: DeltaGenerator
) -> T:
    """Returns the result of `make`; if anything is refused, its last result for this example, or `unchanged`.

    The message is shown in `notes`.
    """
    if cache.last(name, example) is None:
        cache.remember(name, example, unchanged)

    def run() -> T:
        if refused:
            raise ValueError(" ".join(refused))
        return make()

    return cache.or_last_good(name, example, run, lambda: unchanged, notes)


def describe_head(intervention: Intervention, trained: Mechanism, layer: int, head: object) -> str:
    """Returns a caption of how a head attends under an intervention."""
    if (layer, head) in intervention.ablated:
        return _(ABLATED)
    mechanism = replace(intervention, ablated=()).apply(trained, layer)
    return describe_parts(mechanism.score, mechanism.biases, mechanism.mask, mechanism.normalizer)


def show_sides(draw: Callable[[int], str]) -> None:
    """Draws both sides in two columns; `draw` draws side 0, as trained, or 1, changed, and returns its caption."""
    for side, column in enumerate(st.columns(2, gap="medium")):
        with column:
            if caption := draw(side):
                st.caption(plain(caption))
