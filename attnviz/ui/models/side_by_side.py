"""Two texts or two models side by side."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from html import escape

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.difference import ADDED, REMOVED, difference, kinds
from attnviz.analysis.head_maps import HeadChoice
from attnviz.figures.difference import difference as difference_figure
from attnviz.figures.sentences import ChangeSentences
from attnviz.formatting import visible
from attnviz.layer import Layer
from attnviz.models.hub import allowed
from attnviz.models.image_inputs import FORMATS
from attnviz.sources.upload import File
from attnviz.text import EXAMPLE
from attnviz.ui import cache
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import AGGREGATES, head_names
from attnviz.ui.markdown import plain
from attnviz.ui.models import viewport
from attnviz.ui.models.model_picker import PICTURE_MB, Example, choices, still_there
from attnviz.ui.models.one_head import OneHead
from attnviz.ui.models.selection import LookedAt

TWIN = EXAMPLE.replace("tired", "wide")  # one word more or less, and “it” is something else
SAME = "As on the left"
PICTURES = [kind.lower() for kind in FORMATS]
HEIGHT, LONGEST = 400, 300  # pixels of a chart, and characters of a text above it
KEYS, LINK = ("left-map", "right-map"), "sides"
CHANGED = ChangeSentences(  # before is the left, after the right
    neither="On neither side may {query} look at {key}.",
    kept="{query} gives {after} of its attention to {key} on both sides.",
    reweighted="{query} gives {before} of its attention to {key} on the left, {after} on the right.",
    removed="{query} gives {before} of its attention to {key} on the left, and may not look at it on the right.",
    added="{query} gives {after} of its attention to {key} on the right, and may not look at it on the left.",
)


@dataclass(frozen=True, eq=False)
class Side(OneHead):
    """One head on one text, with what is written above it."""

    model: str = field(init=False)  # its name

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "model", self.example.model().name)

    @property
    def read(self) -> str:
        """What is read, or what is seen."""
        image = self.example.image
        return visible(self.example.text or (image.name if image else "a drawing"))[:LONGEST]


def show(seen: LookedAt) -> None:
    """Draws a head on the text of the page, and a head on a second text or in a second model."""
    top, notes = st.container(), st.container()
    with top:
        example, layers, layer, head = _right(seen, notes)
    try:
        left = Side(seen.example, seen.layers, seen.layer, seen.head, seen.special, seen.part)
        part = seen.part if viewport.is_long(seen.shown.inputs) else viewport.part(layers[layer].inputs)
        right = Side(example, layers, layer, head, seen.special, part)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    end = seen.colors.end([left.weights, right.weights])
    linked = alike(left, right)
    for side, key, column in zip((left, right), KEYS, st.columns(2, gap="medium"), strict=True):
        with column:
            _map(side, key, end, linked)
    st.caption(
        "**What you are seeing.** Both maps have one range of colors: equal colors are equal weights. "
        + ("" if linked else "Their cells do not stand for the same tokens, so each is read by itself.")
    )
    if linked and not left.screen.reduced and st.toggle("Difference", key="difference", bind="query-params"):
        _difference(left, right)


def _map(side: Side, key: str, end: float, linked: bool) -> None:
    st.html(
        f"<p class='attnviz-summary'>{escape(side.title)}</p>"
        f"<p class='attnviz-note attnviz-one-line'>{escape(side.model)}: <bdi>{escape(side.read)}</bdi></p>"
    )
    chart(
        side.figure(end, LINK if linked else ""),
        key,
        label=f"Attention weights on the {'left' if key == KEYS[0] else 'right'}",
        name=f"attention {side.title} {key}",
        description=f"{side.model}, {side.title}: {side.screen.size}.",
        height=HEIGHT,
        hint="Point at a cell: it is marked on both sides." if linked else "Point at a cell to read it.",
        on_view=side.screen.on_view,
    )


def _difference(left: Side, right: Side) -> None:
    """The right map minus the left one, cell by cell."""
    maps = torch.from_numpy(left.weights), torch.from_numpy(right.weights)
    became = kinds(*maps).numpy()
    tokens = (
        [a if a == b else f"{a} / {b}" for a, b in zip(*both, strict=True)]
        for both in zip(left.screen.tokens, right.screen.tokens, strict=True)
    )
    picture = difference_figure(
        difference(*maps).numpy(),
        became == REMOVED,
        became == ADDED,
        *tokens,
        charts=KEYS,
        sentences=CHANGED,
        link=LINK,
    )
    chart(
        picture,
        "sides-difference",
        title="Right − left",
        label="What is different on the right",
        name=f"attention {right.title} minus {left.title}",
        description="The right map minus the left one, cell by cell.",
        height=HEIGHT,
        hint="More attention on the right is blue, less is brown.",
    )


def alike(left: Side, right: Side) -> bool:
    """Whether cells at the same place are worth comparing: maps of as many tokens, at least half of them the same."""
    pairs = list(zip(left.screen.tokens, right.screen.tokens, strict=True))
    if any(len(ours) != len(theirs) for ours, theirs in pairs):
        return False
    return all(2 * sum(a == b for a, b in zip(*both, strict=True)) >= len(both[0]) for both in pairs)


def _right(seen: LookedAt, notes: DeltaGenerator) -> tuple[Example, Sequence[Layer], int, HeadChoice]:
    """The example on the right, or the last that could be read, with its layers, the chosen one and its head."""
    model_place, text_place, layer_place, head_place = st.columns([0.25, 0.4, 0.2, 0.15])
    anywhere = allowed() is None
    with model_place:
        about = "One of those that are here, the path of a folder, or an id of the hub that was downloaded before."
        name = st.selectbox(
            "Model on the right", [SAME, *choices()], key="right-model", bind="query-params",
            help=about if anywhere else None, accept_new_options=anywhere,
        )  # fmt: skip
    asked = replace(seen.example, name=seen.example.name if name in (SAME, None) else name)
    with text_place:
        asked = _given(asked)
    shown = cache.or_last_good("on the right", asked.read, lambda: Example(text=TWIN).read(), notes)
    shown, layers = still_there(shown, Example(text=TWIN))
    with layer_place:
        layer = _layer(seen, layers, notes)
    with head_place:
        head = _head(seen, layers[layer], notes)
    return shown, layers, layer, head


def _given(asked: Example) -> Example:
    """What is read or seen on the right; of a model that cannot be loaded it is the text."""
    try:
        reads: Collection[str] = asked.model().modality
    except ValueError:  # which is said where the example is read
        reads = ["text"]
    if "text" not in reads:
        brought = st.file_uploader("Picture on the right", PICTURES, key="right-picture", max_upload_size=PICTURE_MB)
        return replace(
            asked, text="", pair="", image=File(brought.name, brought.getvalue()) if brought else asked.image
        )
    return replace(asked, text=st.text_input("Text on the right", TWIN, key="right-text", bind="query-params"))


def _layer(seen: LookedAt, layers: Sequence[Layer], notes: DeltaGenerator) -> int:
    """The position of the chosen layer; that of the left is the one of its name, or else of its place."""
    names = [layer.name for layer in layers]
    chosen = st.selectbox("Layer on the right", [SAME, *names], key="right-layer", bind="query-params")
    if chosen != SAME:
        return names.index(chosen)
    if seen.shown.name in names:
        return names.index(seen.shown.name)
    place = min(seen.layer, len(names) - 1)
    notes.info(plain(f"There is no {seen.shown.name} on the right: it is {names[place]} that is shown there."))
    return place


def _head(seen: LookedAt, layer: Layer, notes: DeltaGenerator) -> HeadChoice:
    """The chosen head; that of the left is the one of its place, or the last where there are fewer."""
    heads = head_names(layer.inputs.heads)
    chosen = st.selectbox("Head on the right", [SAME, *heads, *AGGREGATES], key="right-head", bind="query-params")
    if chosen != SAME:
        return heads.index(chosen) if chosen in heads else AGGREGATES[chosen]
    if isinstance(seen.head, int) and seen.head >= len(heads):
        notes.info(f"There is no head {seen.head} on the right: it is head {len(heads) - 1} that is shown there.")
        return len(heads) - 1
    return seen.head
