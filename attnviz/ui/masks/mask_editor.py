"""The mask and biases of one side of a comparison, in one line: written, chosen from the menu, and undone.
A popover has the parameters, painting, biases, and grids to paste or upload.

The text of the mask is the state, and in the link; the menu, parameters, painting, files and the gallery write it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from attnviz.formatting import enumeration
from attnviz.language import N_, _
from attnviz.masks import Grid, MaskError, parse
from attnviz.mechanism import Mechanism
from attnviz.page.html import element
from attnviz.state.masks import SIDE_BY_SIDE, MasksState
from attnviz.state.parts import GROUP, MASK_MENU, help_text, title
from attnviz.ui import mechanism_controls
from attnviz.ui.field_widgets import draw, draw_text
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import SessionValue, read_widget, widget_callback, write_widget
from attnviz.ui.widget_values import field_text, set_field_value

MASKS = {"A": MasksState.mask_a, "B": MasksState.mask_b}
BIASES = {"A": MasksState.biases_a, "B": MasksState.biases_b}
REFUSALS = {side: SessionValue(f"{field.parameter} refused", str) for side, field in MASKS.items()}  # of the last grid
LAST_GOOD = {side: SessionValue(f"{one.parameter} good", partial(one.opening, None)) for side, one in MASKS.items()}
MOST_UNDONE = 50
GRID_MEGABYTES = 1
LANGUAGE = N_(
    "A mask in words: names of the menu, such as `causal`, `sliding_window(4)` or `sinks(2)`, and "
    "comparisons\nof the positions `q` and `k` (also `h`, the head, and `n_q`, `n_k`, how many there "
    "are), joined with `&`, `|`, `~`.\n\n`causal & (q - k < 4) | k < 2` · `q // 4 == k // 4` · `abs(q - "
    "k) <= 2`\n\nA `mask_mod` of FlexAttention that is made of comparisons can be pasted: `lambda b, h, "
    "q, kv: q >= kv`."
)


def choose_side(side: str, shared: Mechanism) -> Mechanism:
    """Draws the widgets of one side; returns the shared mechanism with the mask and biases of this side."""
    key, text = _key(side), field_text(MASKS[side])
    problem: MaskError | None = None
    try:
        good = parse(text)
    except MaskError as mistake:
        good, problem = LAST_GOOD[side].get(), mistake
    name = title(type(good)) if mechanism_controls.is_in_menu(good) else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key=f"side-{side.lower()}"):
        st.html(element("span", side, class_="attnviz-side"), width="content")
        written = st.container()  # filled once the parameters are known, which write the text
        st.menu_button(
            _(name) if name else _("Custom rule"), list(MASK_MENU), key=f"{key}-menu",
            help=_("Masks of the catalogue"), format_func=_menu_line,
            on_click=widget_callback(f"{key}-menu", partial(_choose_from_menu, side)),
        )  # fmt: skip
        undo = st.container(width="content")
        with st.popover(
            "", icon=":material/tune:", help=_("Parameters, painting, biases and grids of {side}", side=side)
        ):
            if name:
                st.markdown(f"**{_(name)}**", help=help_text(type(good)))
            chosen = mechanism_controls.choose_unlinked_parameters(key, text, good)
            st.toggle(_("Paint cells in the map"), key=_paint_key(side), on_change=_switch_painting, args=(side,))
            biases = draw(BIASES[side], opening=shared.biases)
            _choose_grid(side)
            with st.expander(_("How to write a mask")):
                st.markdown(_(LANGUAGE))
    if chosen != good:
        good, problem = chosen, None
        set_mask(side, str(chosen))
    if not problem:
        _remember(side)
    draw_text(MASKS[side], written.text_input, label=_("Mask {side} in words", side=side), label_visibility="collapsed")
    undo.button(
        "", key=f"undo-{side}", icon=":material/undo:", help=_("Undo"),
        disabled=len(_history(side)) < 2 and not problem, on_click=_undo, args=(side,),
    )  # fmt: skip
    if problem:
        sentence = _(
            "{problem} Write a mask such as causal, sliding_window(4) or k < q. The figure shows {good}.",
            problem=problem,
            good=good,
        )
        st.html(element("div", element("pre", problem.pointer), sentence, class_="attnviz-mistake", role="alert"))
    LAST_GOOD[side].set(good)
    return replace(shared, mask=good, biases=biases)


def describe_mask(mechanism: Mechanism) -> str:
    """Returns the mask and the biases as a sentence."""
    if not mechanism.biases:
        return mechanism.mask.describe()
    biases = enumeration([_(title(type(bias))) for bias in mechanism.biases])
    return f"{mechanism.mask.describe()} {_('With {biases}.', biases=biases)}"


def set_mask(side: str, text: str) -> None:
    """Sets the text of a side's mask."""
    write_widget(_key(side), text)


def is_painting(side: str) -> bool:
    return bool(read_widget(_paint_key(side)))


def paint(side: str, allowed: np.ndarray, cells: np.ndarray, value: bool) -> None:
    """Sets the mask of a side to a grid of what is allowed, with these cells painted."""
    painted = allowed.copy()
    painted[cells[:, 0], cells[:, 1]] = value
    _set_grid(side, lambda: Grid.from_array(painted))


def _key(side: str) -> str:
    return MASKS[side].parameter


def _paint_key(side: str) -> str:
    return f"paint-{side.lower()}"


def _switch_painting(side: str) -> None:
    if is_painting(side):
        set_field_value(MasksState.maps, SIDE_BY_SIDE)  # cells are painted there


def _menu_line(name: str) -> str:
    """Returns a line of the menu; the name of a group, which chooses its first mask, is bold."""
    return f"**{_(name.strip(GROUP))}**" if name.startswith(GROUP) else _(name)


def _choose_from_menu(side: str, name: str) -> None:
    set_mask(side, str(MASK_MENU[name]()))


def _history(side: str) -> list[str]:
    return SessionValue[list[str]](f"{_key(side)} history", list).get()


def _remember(side: str) -> None:
    history, text = _history(side), field_text(MASKS[side])
    if history[-1:] != [text]:
        history.append(text)
        del history[:-MOST_UNDONE]


def _undo(side: str) -> None:
    history = _history(side)
    if history[-1] == field_text(MASKS[side]):  # otherwise a mistake was written since, and is what is undone
        history.pop()
    set_mask(side, history[-1])


def _choose_grid(side: str) -> None:
    """Draws the widgets for a pasted or uploaded grid of 0 and 1."""
    pasted, uploaded = f"pasted-{side}", f"grid-{side}"

    def paste(typed: str) -> None:
        if text := typed.strip():
            _set_grid(side, lambda: Grid.read(None, text))

    def upload(file: Any) -> None:
        _set_grid(side, lambda: Grid.read(file.name, file.getvalue()))

    st.text_area(
        _("A grid of 0 and 1, a query per line"), key=pasted, on_change=widget_callback(pasted, paste),
        placeholder="1 0 0\n1 1 0\n1 1 1",
    )  # fmt: skip
    st.file_uploader(
        _("Or a file: .csv or .npy"), key=uploaded, on_change=widget_callback(uploaded, upload),
        max_upload_size=GRID_MEGABYTES,
    )  # fmt: skip
    if refusal := REFUSALS[side].pop():
        st.error(plain(refusal))


def _set_grid(side: str, make: Callable[[], Grid]) -> None:
    """Sets the mask of a side to a grid, or stores why it is refused."""
    try:
        set_mask(side, str(make()))
    except ValueError as problem:
        REFUSALS[side].set(str(problem))
        st.toast(plain(str(problem)), icon=":material/error:")
