"""One side of a comparison: its mask, from the menu, as text, painted by hand or brought as a grid; and its biases.

The text is the state, and in the link: the menu, its parameters, painting, files and the gallery all write the text.
"""

from collections.abc import Callable
from dataclasses import replace
from html import escape

import numpy as np
import streamlit as st

from attnviz.masks import Grid, Mask, MaskError, parse
from attnviz.mechanism import Mechanism
from attnviz.ui import mechanism_controls, widgets
from attnviz.ui.markdown import plain

START = {"A": "full", "B": "causal"}
SIDES = tuple(START)
MOST_UNDONE = 50
GRID_MEGABYTES = 1
LANGUAGE = """A mask in words: names of the menu, such as `causal`, `sliding_window(4)` or `sinks(2)`, and comparisons
of the positions `q` and `k` (also `h`, the head, and `n_q`, `n_k`, how many there are), joined with `&`, `|`, `~`.

`causal & (q - k < 4) | k < 2` · `q // 4 == k // 4` · `abs(q - k) <= 2`"""


def mechanism(side: str, shared: Mechanism) -> Mechanism:
    """The widgets of one side; gives what is shared with its own mask and biases."""
    key, text = _key(side), _text(side)
    good, problem = _read(side, text)
    with st.container(horizontal=True, vertical_alignment="bottom", key=f"side-{side.lower()}"):
        chosen = mechanism_controls.choose_unlinked_mask(key, f"Mask {side}", text, good)
    if chosen != good:
        good, problem = chosen, None
        write(side, str(chosen))
    if not problem:
        _remember(side)
    st.text_input(
        f"Mask {side} in words", START[side], key=key, bind="query-params",
        label_visibility="collapsed", icon=":material/edit:",
    )  # fmt: skip
    if problem:
        told = f"{problem} The picture shows {good}."
        st.html(f"<div class='attnviz-mistake' role='alert'><pre>{escape(problem.pointer)}</pre>{escape(told)}</div>")
    st.session_state[f"{key} good"] = good
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.toggle("Paint", key=f"paint-{side.lower()}")
        alone = len(_history(side)) < 2 and not problem
        undo = ":material/undo:"
        st.button("", key=f"undo-{side}", icon=undo, help="Undo", disabled=alone, on_click=_undo, args=(side,))
        with st.popover("", icon=":material/tune:", help="Biases, and a grid of your own"):
            biases = mechanism_controls.choose_biases(f"Biases {side}", shared.biases, side)
            _grid(side)
        with st.popover("", icon=":material/help:", help="How to write a mask"):
            st.markdown(LANGUAGE)
    return replace(shared, mask=good, biases=biases)


def described(mechanism: Mechanism) -> str:
    """The mask as a sentence, and the biases that come with it."""
    biases = " and ".join(widgets.title(type(bias)) for bias in mechanism.biases)
    return mechanism.mask.describe() + f" With {biases}." * bool(biases)


def write(side: str, text: str) -> None:
    """Makes this text the mask of a side."""
    st.session_state[_key(side)] = text


def painting(side: str) -> bool:
    return bool(st.session_state[f"paint-{side.lower()}"])


def paint(side: str, allowed: np.ndarray, cells: np.ndarray, value: bool) -> None:
    """Makes a grid of what is allowed with these cells painted."""
    painted = allowed.copy()
    painted[cells[:, 0], cells[:, 1]] = value
    _grid_or_why_not(side, lambda: Grid.of(painted))


def _key(side: str) -> str:
    return f"mask-{side.lower()}"


def _text(side: str) -> str:
    # On the first run of a link the widget has no state yet.
    return str(st.session_state.get(_key(side), st.query_params.get(_key(side), START[side])))


def _read(side: str, text: str) -> tuple[Mask, MaskError | None]:
    """The mask that the text says, or the last good one and what is wrong."""
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
    write(side, history[-1])


def _grid(side: str) -> None:
    """A grid of 0 and 1, pasted or uploaded."""
    pasted, uploaded = f"pasted-{side}", f"grid-{side}"

    def paste() -> None:
        if text := st.session_state[pasted].strip():
            _grid_or_why_not(side, lambda: Grid.read(None, text))

    def upload() -> None:
        if (file := st.session_state[uploaded]) is not None:
            _grid_or_why_not(side, lambda: Grid.read(file.name, file.getvalue()))

    st.text_area("A grid of 0 and 1, a query a line", key=pasted, on_change=paste, placeholder="1 0 0\n1 1 0\n1 1 1")
    st.file_uploader("Or a file: .csv or .npy", key=uploaded, on_change=upload, max_upload_size=GRID_MEGABYTES)
    if why := st.session_state.pop(f"{_key(side)} refused", None):
        st.error(plain(why))


def _grid_or_why_not(side: str, make: Callable[[], Grid]) -> None:
    try:
        write(side, str(make()))
    except ValueError as problem:
        st.session_state[f"{_key(side)} refused"] = str(problem)
        st.toast(plain(str(problem)), icon=":material/error:")
