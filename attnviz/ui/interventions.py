"""Widgets, presets, captions and columns that the What if tabs of the Transformer and the Models pages share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import N_, _, option_name
from attnviz.mechanism import Mechanism
from attnviz.models.interventions import Intervention
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import Cosine, Dot, ScaledDot, Score
from attnviz.ui import cache, widgets
from attnviz.ui.markdown import plain
from attnviz.ui.mechanism_controls import MASK_MENU
from attnviz.ui.mechanism_sentences import describe_parts

T = TypeVar("T")
# General and additive scores have learned weights: they make no sense where they were not trained.
SCORES: tuple[type[Score], ...] = (ScaledDot, Dot, Cosine)
NORMALIZER_MENU: dict[str, type] = {widgets.title(kind): kind for kind in NORMALIZERS}
SIDES = (N_("As trained"), N_("Changed"))
UNCHANGED = N_("Nothing is changed. Try one of the changes above, or make one of your own.")
ABLATED = N_("This head is ablated: it sees nothing, and adds nothing.")
ABLATION_HELP = N_("An ablated head sees nothing, and adds nothing to what its layer gives.")


@dataclass(frozen=True)
class AsTrained:
    """Each layer keeps its trained part."""


class _Menu(NamedTuple):
    """The menu of one part of a mechanism, and its initial value."""

    part: str  # "mask", "score" or "normalizer": a field of Intervention
    kinds: Mapping[str, type]
    start: Any


def _menus(trained: Mechanism | None) -> list[_Menu]:
    mask, score, normalizer = (
        (trained.mask, trained.score, trained.normalizer) if trained else (AsTrained(), AsTrained(), AsTrained())
    )
    # A trained score is a choice of its own, so that the others are the same for every model.
    scores = {widgets.title(kind): kind for kind in SCORES if kind is not type(score)}
    return [
        _Menu("mask", MASK_MENU, mask),
        _Menu("score", scores, score),
        _Menu("normalizer", NORMALIZER_MENU, normalizer),
    ]


def choose_parts(
    prefix: str, trained: Mechanism | None, columns: Sequence[DeltaGenerator], refused: list[str]
) -> dict[str, Any]:
    """Draws the menus of a mask, a score and a normalizer, one to a column; returns the parts that differ from
    `trained`.

    The keys of the widgets begin with `prefix`. `trained` is the initial mechanism, or None if it differs between
    layers. Messages about refused parts are added to `refused`.
    """
    chosen = {}
    for (part, kinds, start), column in zip(_menus(trained), columns, strict=True):
        with column:
            choice = widgets.choose_object(part.capitalize(), dict(kinds), start, f"{prefix}-{part}", refused.append)
        if choice != start:
            chosen[part] = choice
    return chosen


def write_parts(prefix: str, trained: Mechanism | None, intervention: Intervention) -> None:
    """Makes the menus under a prefix show an intervention."""
    for part, kinds, start in _menus(trained):
        _write_part(kinds, getattr(intervention, part) or start, f"{prefix}-{part}")


def _write_part(kinds: Mapping[str, type], part: Any, key: str) -> None:
    usual = widgets.widget_state(kinds, type(part)(), key)
    for name, value in widgets.widget_state(kinds, part, key).items():
        # What is set before its widget is there, Streamlit 1.67 leaves out of the link.
        if name not in st.session_state and value != usual[name]:
            st.query_params[name] = str(value)
        st.session_state[name] = value


def show_presets(presets: Mapping[str, T], current: T, key: str, write: Callable[[T], None]) -> None:
    """Draws the presets by name, the one that equals `current`, what is shown, marked; a click calls `write` with its
    preset."""
    marked = next((name for name, preset in presets.items() if preset == current), None)

    def take() -> None:
        if name := st.session_state[key] or marked:  # a click on the marked one takes its mark away
            write(presets[name])

    st.session_state[key] = marked
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
