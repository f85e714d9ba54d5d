"""The mask of one side of a comparison in one line: written, or chosen from the menu. A popover has the parameters,
painting, biases, grids to paste or upload, and undo.

The text of the mask is the state, and in the link; the menu, parameters and files write it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from attnviz.base.language import N_, _
from attnviz.masks import MASKS, Grid, Mask, MaskError, parse
from attnviz.page.fields import LinkReader, setting_field
from attnviz.page.html import element
from attnviz.page.parts import GROUP, MASK_MENU, fits_widgets, help_text, settings, title
from attnviz.page.state import State
from attnviz.pages.masks.state import MaskField, MasksState
from attnviz.ui.field_widgets import draw_setting, draw_text
from attnviz.ui.markdown import plain
from attnviz.ui.page_state import draw_field
from attnviz.ui.session_values import SessionValue, widget_callback, write_widget
from attnviz.ui.widget_values import current_value, field_state, field_text, set_drawn_value

OTHER_FIELDS = {"A": (MasksState.paint_a, MasksState.biases_a), "B": (MasksState.paint_b, MasksState.biases_b)}
MOST_UNDONE = 50
GRID_MEGABYTES = 1
LANGUAGE = N_(
    "A mask in words: names of the menu, such as `causal`, `sliding_window(4)` or `sinks(2)`, and "
    "comparisons\nof the positions `q` and `k` (also `h`, the head, and `n_q`, `n_k`, how many there "
    "are), joined with `&`, `|`, `~`.\n\n`causal & (q - k < 4) | k < 2` · `q // 4 == k // 4` · `abs(q - "
    "k) <= 2`\n\nA `mask_mod` of FlexAttention that is made of comparisons can be pasted: `lambda b, h, "
    "q, kv: q >= kv`."
)


def draw_mask(field: MaskField, state: State) -> None:
    """Draws the widgets of a side with the mask of a state. A text that is no mask stays, and is marked where it is
    wrong."""
    side, key, mask = field.side, field.parameter, state.values[field.name]
    problem: MaskError | None = None
    try:
        parse(field_text(field))
        set_drawn_value(field, state)
        _remember(field)
    except MaskError as mistake:
        problem = mistake
    name = title(type(mask)) if is_in_menu(mask) else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key=f"side-{side.lower()}"):
        st.html(element("span", side, class_="attnviz-side"), width="content")
        label = _("Mask {side} in words", side=side)
        draw_text(field, label=label, label_visibility="collapsed")
        st.menu_button(
            _(name) if name else _("Custom rule"),
            list(MASK_MENU),
            key=f"{key}-menu",
            help=_("Masks of the catalogue"),
            format_func=_menu_line,
            on_click=widget_callback(f"{key}-menu", lambda chosen: _write(field, MASK_MENU[chosen]())),
        )
        with st.popover(
            "", icon=":material/tune:", help=_("Parameters, painting, biases and grids of {side}", side=side)
        ):
            off, icon = len(_history(field)) < 2 and not problem, ":material/undo:"
            undo = partial(_undo, field)
            st.button(_("Undo"), f"undo-{side}", icon=icon, type="tertiary", disabled=off, on_click=undo)
            if name and not problem:
                st.markdown(f"**{_(name)}**", help=help_text(type(mask)))
                _draw_parameters(field, mask)
            for other in OTHER_FIELDS[side]:
                draw_field(other, state)
            _choose_grid(field)
            if refusal := _refusal(field).pop():
                st.error(plain(refusal))
            with st.expander(_("How to write a mask")):
                st.markdown(_(LANGUAGE))
    if problem:
        hint = _("{problem} Write a mask such as causal, sliding_window(4) or k < q.", problem=problem)
        st.html(element("div", element("pre", problem.pointer), hint, class_="attnviz-mistake", role="alert"))


def is_in_menu(mask: Mask) -> bool:
    """Returns whether a mask is one of the catalogue, with parameters that widgets can hold."""
    return isinstance(mask, MASKS) and fits_widgets(mask)


def _write(field: MaskField, mask: Mask) -> None:
    write_widget(field.parameter, str(mask))


def _menu_line(name: str) -> str:
    """Returns a line of the menu; the name of a group, which chooses its first mask, is bold."""
    return f"**{_(name.strip(GROUP))}**" if name.startswith(GROUP) else _(name)


def _draw_parameters(field: MaskField, mask: Mask) -> None:
    """Draws the widgets of a mask's parameters, none of them in the link; what is chosen writes the text."""
    key = field.parameter
    for name, value in field_state(mask, key).items():
        write_widget(name, value)
    fields = {each.name: setting_field(each, key, mask) for each in settings(type(mask))}

    def change() -> None:
        values = {name: current_value(one, None, LinkReader(())) for name, one in fields.items()}
        _write(field, replace(mask, **values))  # type: ignore[type-var]

    for setting in settings(type(mask)):
        draw_setting(setting, key, mask, bind=None, on_change=partial(_or_refusal, field, change))


def _history(field: MaskField) -> list[str]:
    return SessionValue[list[str]](f"{field.parameter} history", list).get()


def _remember(field: MaskField) -> None:
    history, text = _history(field), field_text(field)
    if history[-1:] != [text]:
        history.append(text)
        del history[:-MOST_UNDONE]


def _undo(field: MaskField) -> None:
    history = _history(field)
    if history[-1] == field_text(field):  # otherwise a mistake was written since, and is what is undone
        history.pop()
    write_widget(field.parameter, history[-1])


def _choose_grid(field: MaskField) -> None:
    """Draws the widgets for a pasted or uploaded grid of 0 and 1."""
    pasted, uploaded = f"pasted-{field.side}", f"grid-{field.side}"

    def paste(typed: str) -> None:
        if text := typed.strip():
            _or_refusal(field, lambda: _write(field, Grid.read(None, text)))

    def upload(file: Any) -> None:
        _or_refusal(field, lambda: _write(field, Grid.read(file.name, file.getvalue())))

    st.text_area(
        _("A grid of 0 and 1, a query per line"),
        key=pasted,
        on_change=widget_callback(pasted, paste),
        placeholder="1 0 0\n1 1 0\n1 1 1",
    )
    st.file_uploader(
        _("Or a file: .csv or .npy"),
        key=uploaded,
        on_change=widget_callback(uploaded, upload),
        max_upload_size=GRID_MEGABYTES,
    )


def _refusal(field: MaskField) -> SessionValue[str]:
    return SessionValue(f"{field.parameter} refused", str)


def _or_refusal(field: MaskField, change: Callable[[], None]) -> None:
    """Changes the mask, or stores why that is refused."""
    try:
        change()
    except ValueError as problem:
        _refusal(field).set(str(problem))
