"""Two texts or two models side by side."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.figures.sentences import ChangeSentences
from attnviz.formatting import visible
from attnviz.language import N_, _
from attnviz.models.hub import allowed_models
from attnviz.page import html
from attnviz.sources import Model
from attnviz.sources.model import load_model
from attnviz.sources.upload import File
from attnviz.state.models import SAME, SIDE_BY_SIDE, ModelSelection, ModelsState, right_example
from attnviz.state.viewport import is_long
from attnviz.ui import viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw, draw_text
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.model_menu import model_choices, typed_model
from attnviz.ui.models.model_picker import read_or_last
from attnviz.views.head_difference import head_difference
from attnviz.views.selected_maps import HeadMap, selected_map

HEIGHT, LONGEST_TEXT = 400, 300  # pixels of a chart, and characters of a text above it
KEYS, LINK = ("left-map", "right-map"), "sides"
LEFT_AND_RIGHT = ChangeSentences(  # before is the left, after the right
    neither=N_("On neither side may {query} look at {key}."),
    kept=N_("{query} gives {after} of its attention to {key} on both sides."),
    reweighted=N_("{query} gives {before} of its attention to {key} on the left, {after} on the right."),
    removed=N_("{query} gives {before} of its attention to {key} on the left, and may not look at it on the right."),
    added=N_("{query} gives {after} of its attention to {key} on the right, and may not look at it on the left."),
)


def show(selection: ModelSelection) -> None:
    """Draws the head on the text of the page next to a head on another text or in another model. Raises ValueError if
    a map cannot be computed."""
    top, notes = st.container(), st.container()
    with top:
        other = _choose_right(selection, notes)
    if other is None:
        return
    maps = selected_map(selection), selected_map(other)
    end = selection.colors.end([one.weights for one in maps])
    linked = are_alike(*maps, by_id=selection.model is other.model)
    for one, head_map, key, column in zip((selection, other), maps, KEYS, st.columns(2, gap="medium"), strict=True):
        with column:
            _show_map(one, head_map, key, end, linked)
    caption = _("**What you are seeing.** Both maps have one range of colors: equal colors are equal weights.")
    if not linked:
        caption += f" {_('Their cells do not represent the same tokens, so each is read by itself.')}"
    st.caption(caption)
    is_whole = all(one.downsampled is None for one in maps)
    if linked and is_whole and draw(ModelsState.difference):
        _show_difference(*maps)


def _show_map(selection: ModelSelection, head_map: HeadMap, key: str, largest: float, linked: bool) -> None:
    model, (text, *_rest), image = selection.model, selection.source.example, selection.source.image
    read = visible(text or (image.name if image else _("a drawing")))[:LONGEST_TEXT]
    st.html(
        html.summary(head_map.title)
        + html.element("p", f"{model.title}: ", html.element("bdi", read), class_="attnviz-note attnviz-one-line")
    )
    picture = head_map.chart(largest=largest, link=LINK if linked else "")
    picture = picture.with_about(
        label=_("Attention weights on the left") if key == KEYS[0] else _("Attention weights on the right"),
        name=f"{picture.about.name} {model.title}",
        hint=_("Point at a cell: it is marked on both sides.") if linked else picture.about.hint,
    )
    chart(picture, key, height=HEIGHT, on_zoom=viewport_sliders.on_zoom(head_map))


def _show_difference(left: HeadMap, right: HeadMap) -> None:
    """Draws the right map minus the left one, cell by cell."""
    picture = head_difference(left, right, charts=KEYS, sentences=LEFT_AND_RIGHT, link=LINK).with_about(
        label=_("What is different on the right"), description=_("The right map minus the left one, cell by cell."),
        hint=_("More attention on the right is blue, less is brown."),
    )  # fmt: skip
    chart(picture, "sides-difference", title=_("Right − left"), height=HEIGHT)


def are_alike(left: HeadMap, right: HeadMap, by_id: bool = False) -> bool:
    """Returns whether two maps can be compared cell by cell: equally many tokens, at least half of them equal. Tokens
    of one vocabulary are compared `by_id`."""
    pairs = list(zip(*(_compared_tokens(one, by_id) for one in (left, right)), strict=True))
    if any(len(ours) != len(theirs) for ours, theirs in pairs):
        return False
    return all(2 * sum(a == b for a, b in zip(*both, strict=True)) >= len(both[0]) for both in pairs)


def _compared_tokens(head_map: HeadMap, by_id: bool) -> tuple[Sequence[object], Sequence[object]]:
    """Returns the ids of queries and keys where they are known, or else their tokens."""
    inputs = head_map.inputs
    if by_id and inputs.query_ids and inputs.key_ids:
        return [inputs.query_ids[i] for i in head_map.queries], [inputs.key_ids[i] for i in head_map.keys]
    return head_map.query_tokens, head_map.key_tokens


def _choose_right(selection: ModelSelection, notes: DeltaGenerator) -> ModelSelection | None:
    """Draws the widgets of the right side; returns its selection, or that of the last good input of the same model, if
    any."""
    model_place, text_place, layer_place, head_place = st.columns([0.25, 0.4, 0.2, 0.15])
    anywhere, left = allowed_models() is None, selection.state

    def menu(value: str, **more: Any) -> str:
        options = [SAME, *model_choices()]
        names = names_of(ModelsState.right_model.parameter, options)
        return st.selectbox(options=options, format_func=names, accept_new_options=anywhere, **more) or SAME

    with model_place:
        name = draw_text(ModelsState.right_model, menu, **{} if anywhere else {"help": None})
    name = selection.source.name if name == SAME else typed_model(name)
    opening = ModelsState.partial(right_model=name)
    with text_place:
        text, picture = _choose_input(opening)
    example = Model(text, name, left.second, picture or left.picture)
    readable = read_or_last("on the right", example, replace(example.own_example, text=right_example(opening)), notes)
    if readable is None:
        return None
    source, _layers = readable
    state = left.updated(
        inspect=SIDE_BY_SIDE, right_model=source.name, right_text=source.text, right_picture=source.image
    )
    with layer_place:
        state = state.updated(right_layer=draw(ModelsState.right_layer, state))
    with head_place:
        state = state.updated(right_head=draw(ModelsState.right_head, state))
    right, left_name = state.right_selection, selection.layer.name
    right_name = right.layer.name
    if state.right_layer is None and right_name != left_name:
        missing = _(
            "There is no {missing} on the right: {shown} is shown there.",
            missing=left_name,
            shown=right_name,
        )
        notes.info(plain(missing))
    if state.right_head is None and right.head != selection.head:
        notes.info(
            _(
                "There is no head {head} on the right: head {count} is shown there.",
                head=selection.head,
                count=right.head,
            )
        )
    # Where both sides are long, they have one viewport.
    own_viewport = is_long(selection.inputs)
    part = selection.viewport if own_viewport else viewport_sliders.choose_viewport(right)
    return replace(right, viewport=part, cell_colors=selection.cell_colors)


def _choose_input(opening: ModelsState) -> tuple[str, File | None]:
    """Returns the text or the picture of the right side; text, if its model cannot be loaded."""
    try:
        reads: Collection[str] = load_model(opening.right_model).modality
    except ValueError:  # which is said where the example is read
        reads = ["text"]
    if "text" in reads:
        return draw(ModelsState.right_text, opening), None
    return "", draw(ModelsState.right_picture)
