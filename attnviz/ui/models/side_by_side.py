"""Two texts or two models side by side."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.difference import ADDED, REMOVED, difference, outcomes
from attnviz.analysis.head_maps import HeadChoice
from attnviz.figures.difference import difference_heatmap
from attnviz.figures.sentences import ChangeSentences
from attnviz.formatting import visible
from attnviz.language import N_, _
from attnviz.layer import Layer
from attnviz.models.hub import allowed_models
from attnviz.models.image_inputs import FORMATS
from attnviz.sources.upload import File
from attnviz.text import EXAMPLE
from attnviz.ui import html, viewport
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import AGGREGATES, head_names
from attnviz.ui.head_map import HeadMap, selected_map
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.models.model_picker import model_choices, picture_megabytes, read_or_last
from attnviz.ui.models.model_source import ModelSource
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.models.text_box import choose_text, not_linked_note

TWIN = EXAMPLE.replace("tired", "wide")  # one word more or less, and “it” is something else
SAME = N_("As on the left")
PICTURES = [kind.lower() for kind in FORMATS]
HEIGHT, LONGEST = 400, 300  # pixels of a chart, and characters of a text above it
KEYS, LINK = ("left-map", "right-map"), "sides"
LEFT_AND_RIGHT = ChangeSentences(  # before is the left, after the right
    neither=N_("On neither side may {query} look at {key}."),
    kept=N_("{query} gives {after} of its attention to {key} on both sides."),
    reweighted=N_("{query} gives {before} of its attention to {key} on the left, {after} on the right."),
    removed=N_("{query} gives {before} of its attention to {key} on the left, and may not look at it on the right."),
    added=N_("{query} gives {after} of its attention to {key} on the right, and may not look at it on the left."),
)


def show(selection: ModelSelection) -> None:
    """Draws the head on the text of the page next to a head on another text or in another model."""
    top, notes = st.container(), st.container()
    with top:
        other = _choose_right(selection, notes)
    if other is None:
        return
    try:
        maps = selected_map(selection), selected_map(other)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    end = selection.colors.end([one.weights for one in maps])
    linked = are_alike(*maps, by_id=selection.model is other.model)
    for one, head_map, key, column in zip((selection, other), maps, KEYS, st.columns(2, gap="medium"), strict=True):
        with column:
            _show_map(one, head_map, key, end, linked)
    st.caption(
        _("**What you are seeing.** Both maps have one range of colors: equal colors are equal weights. ")
        + ("" if linked else _("Their cells do not stand for the same tokens, so each is read by itself."))
    )
    is_whole = all(one.downsampled is None for one in maps)
    if linked and is_whole and st.toggle(_("Difference"), key="difference", bind="query-params"):
        _show_difference(*maps)


def _show_map(selection: ModelSelection, head_map: HeadMap, key: str, largest: float, linked: bool) -> None:
    model, image = selection.model.name, selection.source.image
    read = visible(selection.source.text or (image.name if image else _("a drawing")))[:LONGEST]
    st.html(
        html.summary(head_map.title)
        + html.element("p", f"{model}: ", html.element("bdi", read), class_="attnviz-note attnviz-one-line")
    )
    chart(
        head_map.chart(largest=largest, link=LINK if linked else ""),
        key,
        label=_("Attention weights on the left") if key == KEYS[0] else _("Attention weights on the right"),
        name=_("attention {title} {key}").format(title=head_map.title, key=key),
        description=f"{model}, {head_map.title}: {head_map.size}.",
        height=HEIGHT,
        hint=_("Point at a cell: it is marked on both sides.") if linked else _("Point at a cell to read it."),
        on_view=head_map.on_view,
    )


def _show_difference(left: HeadMap, right: HeadMap) -> None:
    """Draws the right map minus the left one, cell by cell."""
    maps = torch.from_numpy(left.weights), torch.from_numpy(right.weights)
    cell_kinds = outcomes(*maps).numpy()
    tokens = (
        [a if a == b else f"{a} / {b}" for a, b in zip(*both, strict=True)]
        for both in zip(left.labels, right.labels, strict=True)
    )
    chart(
        difference_heatmap(
            difference(*maps).numpy(),
            cell_kinds == REMOVED,
            cell_kinds == ADDED,
            *tokens,
            charts=KEYS,
            sentences=LEFT_AND_RIGHT,
            link=LINK,
        ),
        "sides-difference",
        title=_("Right − left"),
        label=_("What is different on the right"),
        name=_("attention {title} minus {title_2}").format(title=right.title, title_2=left.title),
        description=_("The right map minus the left one, cell by cell."),
        height=HEIGHT,
        hint=_("More attention on the right is blue, less is brown."),
    )


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
    """Draws the widgets of the right side; returns its selection, or the last good one of the same model, if any."""
    model_place, text_place, layer_place, head_place = st.columns([0.25, 0.4, 0.2, 0.15])
    anywhere = allowed_models() is None
    with model_place:
        about = _("One of those that are here, the path of a folder, or an id of the hub that was downloaded before.")
        name = st.selectbox(
            _("Model on the right"), [SAME, *model_choices()], key="right-model", bind="query-params",
            format_func=names_of("right-model", [SAME, *model_choices()]),
            help=about if anywhere else None, accept_new_options=anywhere,
        )  # fmt: skip
    chosen = replace(selection.source, name=selection.source.name if name in (SAME, None) else name)
    with text_place:
        chosen = _choose_input(chosen)
    if note := not_linked_note(chosen.text):
        notes.caption(note)
    readable = read_or_last("on the right", chosen, ModelSource(text=TWIN), notes)
    if readable is None:
        return None
    example, layers = readable
    with layer_place:
        index = _choose_layer(selection, layers, notes)
    with head_place:
        head = _choose_head(selection, layers[index], notes)
    # Where both sides are long, they have one viewport.
    own_viewport = viewport.is_long(selection.layer.inputs)
    return replace(
        selection,
        source=example,
        model=example.model(),
        layers=layers,
        mechanisms=[layer.mechanism for layer in layers],
        index=index,
        head=head,
        viewport=selection.viewport if own_viewport else viewport.choose_viewport(layers[index].inputs),
    )


def _choose_input(example: ModelSource) -> ModelSource:
    """Returns the input of the right side; text, if its model cannot be loaded."""
    try:
        reads: Collection[str] = example.model().modality
    except ValueError:  # which is said where the example is read
        reads = ["text"]
    if "text" not in reads:
        uploaded = st.file_uploader(
            _("Picture on the right"), PICTURES, key="right-picture", max_upload_size=picture_megabytes()
        )
        return replace(
            example, text="", pair="", image=File(uploaded.name, uploaded.getvalue()) if uploaded else example.image
        )
    return replace(example, text=choose_text(_("Text on the right"), TWIN, "right-text"))


def _choose_layer(selection: ModelSelection, layers: Sequence[Layer], notes: DeltaGenerator) -> int:
    """Returns the index of the chosen layer, by default the one with the name or the index of the left one."""
    names = [layer.name for layer in layers]
    chosen = st.selectbox(
        _("Layer on the right"), [SAME, *names], key="right-layer", bind="query-params",
        format_func=names_of("right-layer", [SAME, *names]),
    )  # fmt: skip
    if chosen != SAME:
        return names.index(chosen)
    if selection.layer.name in names:
        return names.index(selection.layer.name)
    place = min(selection.index, len(names) - 1)
    notes.info(
        plain(
            _("There is no {name} on the right: it is {name_2} that is shown there.").format(
                name=selection.layer.name, name_2=names[place]
            )
        )
    )
    return place


def _choose_head(selection: ModelSelection, layer: Layer, notes: DeltaGenerator) -> HeadChoice:
    """Returns the chosen head, by default the index of the left one, or the last one."""
    heads = head_names(layer.inputs.heads)
    chosen = st.selectbox(
        _("Head on the right"), [SAME, *heads, *AGGREGATES], key="right-head", bind="query-params",
        format_func=names_of("right-head", [SAME, *heads, *AGGREGATES]),
    )  # fmt: skip
    if chosen != SAME:
        return heads.index(chosen) if chosen in heads else AGGREGATES[chosen]
    if isinstance(selection.head, int) and selection.head >= len(heads):
        notes.info(
            _("There is no head {head} on the right: it is head {count} that is shown there.").format(
                head=selection.head, count=len(heads) - 1
            )
        )
        return len(heads) - 1
    return selection.head
