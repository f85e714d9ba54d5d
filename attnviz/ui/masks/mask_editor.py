"""The mask and biases of one side of a comparison, in one line: written, chosen from the menu, and undone.
A popover has the parameters, painting, biases, and grids to paste or upload.

The text of the mask is the state, and in the link; the menu, parameters, painting, files and the gallery write it.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import streamlit as st

from attnviz.formatting import enumeration
from attnviz.language import N_, _
from attnviz.masks import Grid, Mask, MaskError, parse
from attnviz.mechanism import Mechanism
from attnviz.ui import mechanism_controls
from attnviz.ui.html import element
from attnviz.ui.markdown import plain
from attnviz.ui.masks.arrangement import show_side_by_side
from attnviz.ui.masks.comparison import SIDES
from attnviz.ui.widgets import GROUP, help_text, title

BIASES = {"A": N_("Biases A"), "B": N_("Biases B")}
START = dict(zip(SIDES, ("full", "causal"), strict=True))
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
    key, text = _key(side), _text(side)
    good, problem = _read(side, text)
    name = title(type(good)) if mechanism_controls.is_in_menu(good) else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key=f"side-{side.lower()}"):
        st.html(element("span", side, class_="attnviz-side"), width="content")
        written = st.container()  # filled once the parameters are known, which write the text
        st.menu_button(
            _(name) if name else _("Custom rule"), list(mechanism_controls.MASK_MENU), key=f"{key}-menu",
            help=_("Masks of the catalogue"), format_func=_menu_line, on_click=_choose_from_menu, args=(side,),
        )  # fmt: skip
        undo = st.container(width="content")
        with st.popover(
            "", icon=":material/tune:", help=_("Parameters, painting, biases and grids of {side}").format(side=side)
        ):
            if name:
                st.markdown(f"**{_(name)}**", help=help_text(type(good)))
            chosen = mechanism_controls.choose_unlinked_parameters(key, text, good)
            st.toggle(_("Paint cells in the map"), key=_paint_key(side), on_change=_switch_painting, args=(side,))
            biases = mechanism_controls.choose_biases(BIASES[side], shared.biases, side)
            _choose_grid(side)
            with st.expander(_("How to write a mask")):
                st.markdown(_(LANGUAGE))
    if chosen != good:
        good, problem = chosen, None
        set_mask(side, str(chosen))
    if not problem:
        _remember(side)
    written.text_input(
        _("Mask {side} in words").format(side=side),
        START[side],
        key=key,
        bind="query-params",
        label_visibility="collapsed",
    )
    undo.button(
        "", key=f"undo-{side}", icon=":material/undo:", help=_("Undo"),
        disabled=len(_history(side)) < 2 and not problem, on_click=_undo, args=(side,),
    )  # fmt: skip
    if problem:
        sentence = _(
            "{problem} Write a mask such as causal, sliding_window(4) or k < q. The picture shows {good}."
        ).format(problem=problem, good=good)
        st.html(element("div", element("pre", problem.pointer), sentence, class_="attnviz-mistake", role="alert"))
    st.session_state[f"{key} good"] = good
    return replace(shared, mask=good, biases=biases)


def describe_mask(mechanism: Mechanism) -> str:
    """Returns the mask and the biases as a sentence."""
    biases = enumeration([_(title(type(bias))) for bias in mechanism.biases] or [""])
    return mechanism.mask.describe() + _(" With {biases}.").format(biases=biases) * bool(biases)


def set_mask(side: str, text: str) -> None:
    """Sets the text of a side's mask."""
    st.session_state[_key(side)] = text


def is_painting(side: str) -> bool:
    return bool(st.session_state[_paint_key(side)])


def paint(side: str, allowed: np.ndarray, cells: np.ndarray, value: bool) -> None:
    """Sets the mask of a side to a grid of what is allowed, with these cells painted."""
    painted = allowed.copy()
    painted[cells[:, 0], cells[:, 1]] = value
    _set_grid(side, lambda: Grid.from_array(painted))


def _key(side: str) -> str:
    return f"mask-{side.lower()}"


def _paint_key(side: str) -> str:
    return f"paint-{side.lower()}"


def _switch_painting(side: str) -> None:
    if is_painting(side):
        show_side_by_side()


def _menu_line(name: str) -> str:
    """Returns a line of the menu; the name of a group, which chooses its first mask, is bold."""
    return f"**{_(name.strip(GROUP))}**" if name.startswith(GROUP) else _(name)


def _choose_from_menu(side: str) -> None:
    name = st.session_state[f"{_key(side)}-menu"]
    set_mask(side, str(mechanism_controls.MASK_MENU[name]()))


def _text(side: str) -> str:
    # On the first run of a link the widget has no state yet.
    return str(st.session_state.get(_key(side), st.query_params.get(_key(side), START[side])))


def _read(side: str, text: str) -> tuple[Mask, MaskError | None]:
    """Returns the mask of a text, or the last valid one with the error."""
    try:
        return parse(text), None
    except MaskError as problem:
        return st.session_state.get(f"{_key(side)} good") or parse(START[side]), problem


def _history(side: str) -> list[str]:
    return st.session_state.setdefault(f"{_key(side)} history", [])


def _remember(side: str) -> None:
    history, text = _history(side), _text(side)
    if history[-1:] != [text]:
        history.append(text)
        del history[:-MOST_UNDONE]


def _undo(side: str) -> None:
    history = _history(side)
    if history[-1] == _text(side):  # otherwise a mistake was written since, and is what is undone
        history.pop()
    set_mask(side, history[-1])


def _choose_grid(side: str) -> None:
    """Draws the widgets for a pasted or uploaded grid of 0 and 1."""
    pasted, uploaded = f"pasted-{side}", f"grid-{side}"

    def paste() -> None:
        if text := st.session_state[pasted].strip():
            _set_grid(side, lambda: Grid.read(None, text))

    def upload() -> None:
        if (file := st.session_state[uploaded]) is not None:
            _set_grid(side, lambda: Grid.read(file.name, file.getvalue()))

    st.text_area(_("A grid of 0 and 1, a query a line"), key=pasted, on_change=paste, placeholder="1 0 0\n1 1 0\n1 1 1")
    st.file_uploader(_("Or a file: .csv or .npy"), key=uploaded, on_change=upload, max_upload_size=GRID_MEGABYTES)
    if refusal := st.session_state.pop(f"{_key(side)} refused", None):
        st.error(plain(refusal))


def _set_grid(side: str, make: Callable[[], Grid]) -> None:
    """Sets the mask of a side to a grid, or stores why it is refused."""
    try:
        set_mask(side, str(make()))
    except ValueError as problem:
        st.session_state[f"{_key(side)} refused"] = str(problem)
        st.toast(plain(str(problem)), icon=":material/error:")
