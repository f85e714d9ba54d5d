"""Several heads, layers or tokens together."""

from collections.abc import Callable, Sequence
from html import escape
from math import sqrt

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.aggregation import aggregate_queries
from attnviz.analysis.downsampling import thumbnails
from attnviz.analysis.head_maps import strongest_keys
from attnviz.analysis.work import is_affordable
from attnviz.figures import Chart, mosaic
from attnviz.figures.bars import row_bars
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.heatmap import mark_queries
from attnviz.figures.mosaic import ACCENT
from attnviz.formatting import number, visible
from attnviz.layer import Layer
from attnviz.ui import cache
from attnviz.ui.chart import chart
from attnviz.ui.color_range import ColorRange, largest_weight
from attnviz.ui.head_charts import MOST_NAMES, numbers_of
from attnviz.ui.markdown import plain
from attnviz.ui.models.head_aggregate import WAYS, Head, Taken, take, whose, written
from attnviz.ui.models.one_head import open_head
from attnviz.ui.models.selection import LookedAt
from attnviz.ui.models.viewport import told
from attnviz.ui.view import THUMBNAIL_CELLS, fitting

HEADS, TOKENS = "heads-together", "tokens-together"  # of widgets, and in the link
HEIGHT = 430
BARS = 20  # that have room for their names on a phone


def show(seen: LookedAt) -> None:
    """Draws the heads to choose from, what they give together, and what several tokens look at."""
    name = st.segmented_control(
        "Taken together", list(WAYS), default="Mean", required=True, key="together", bind="query-params",
        label_visibility="collapsed",
    ) or "Mean"  # a link may say nothing  # fmt: skip
    stack, notes = stacked(seen.layers, seen.layer), st.container()
    if WAYS[name].how and not is_affordable(_cells(seen) * len(stack) * seen.shown.inputs.heads):
        stack = [seen.layer]
        notes.caption(f"Of so long a text these are the heads of {plain(seen.shown.name)}: all would be too many.")
    left, right = st.columns([0.36, 0.64], gap="medium")
    with left:
        chosen = _choose(seen, stack, name)
    try:
        taken = take(seen, stack, chosen, name)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    below = st.columns([0.36, 0.64], gap="medium")
    with below[0]:
        # Their names hold their positions, so that a choice stays with its tokens when the text changes elsewhere.
        several = st.multiselect("Tokens", taken.rows, key=TOKENS, bind="query-params", placeholder="Choose, or click")
    with right:
        about = escape(WAYS[taken.name].about)
        st.html(f"<p class='attnviz-summary'>{escape(taken.title)}</p><p class='attnviz-note'>{about}</p>")
        chart(
            _picture(taken, several, seen.colors),
            "together-map",
            label=f"{taken.name} of attention",
            name=f"attention {taken.title}",
            description=f"{taken.title}: {taken.screen.size}.",
            height=HEIGHT,
            hint="Click to choose a query.",
            on_click=lambda row, column: _toggle(taken.name_of(row, column)),
            on_view=taken.screen.on_view,
        )
    _several(taken, several, below)


def stacked(layers: Sequence[Layer], at: int) -> list[int]:
    """The layers that can be taken together with this one: of one kind, with as many heads, queries and keys."""
    return [i for i, layer in enumerate(layers) if fitting(layer) == fitting(layers[at])]


def choices(layers: Sequence[Layer], stack: Sequence[int]) -> dict[str, list[Head]]:
    """What can be chosen, by name: a whole layer, or one head of it."""
    named: dict[str, list[Head]] = {}
    for i in stack:
        heads = [(i, head) for head in range(layers[i].inputs.heads)]
        named |= {layers[i].name: heads} | {f"{layers[i].name}, head {head}": [(i, head)] for _, head in heads}
    return named


def _choose(seen: LookedAt, stack: Sequence[int], name: str) -> list[Head]:
    """The heads that are taken together: named in the menu, or clicked."""
    by_hand, named = WAYS[name].how is not None, choices(seen.layers, stack)
    every = [head for i in stack for head in named[seen.layers[i].name]]
    # The menu stays where nothing is to be chosen in it, so that the charts below it stay too.
    picked = st.multiselect(
        "Heads", list(named), key=HEADS, bind="query-params", disabled=not by_hand,
        placeholder=f"All heads{whose(seen, stack)}" if by_hand else "As the layer and the head are chosen",
    )  # fmt: skip
    chosen = sorted({head for one in picked for head in named[one]})
    opened = [(seen.layer, seen.head)] if isinstance(seen.head, int) else named[seen.shown.name]
    through = [head for head in every if head[0] <= seen.layer]
    framed = {"Rollout": through, "Value-weighted": opened}.get(name, chosen)

    def click(head: Head) -> None:
        if by_hand:
            st.session_state[HEADS] = written(seen.layers, set(chosen) ^ {head})
        else:
            open_head(seen.layers, *head)

    _mosaic(seen, stack, framed, click, "Click to choose" if by_hand else "Click to open")
    return framed or every


def _mosaic(
    seen: LookedAt, stack: Sequence[int], framed: Sequence[Head], click: Callable[[Head], None], hint: str
) -> None:
    """All heads of these layers as small maps."""
    layers = [seen.layers[i] for i in stack]
    heads = layers[0].inputs.heads
    if not is_affordable(_cells(seen) * heads * len(layers)):
        st.caption("Small maps of all these heads would take too long on so long a text.")
        return
    mechanisms, size = [layer.mechanism for layer in layers], THUMBNAIL_CELLS // max(heads, len(layers), 6)
    maps = cache.once(
        lambda: thumbnails(layers, mechanisms, size, seen.special).numpy(),
        *("together", seen.example, seen.special, stack, size),
    )
    # A layer of which all heads are meant has one frame around them, and so have layers side by side.
    whole = {layer for layer in stack if sum(at == layer for at, _ in framed) == heads}
    # Layers side by side, heads below each other: the small maps come layer by layer.
    places = [(layer, head) for head in range(heads) for layer in stack]
    several = len(stack) > 1
    picture = mosaic(
        maps.reshape(len(stack), heads, *maps.shape[1:]).swapaxes(0, 1).reshape(maps.shape),
        columns=len(stack) if several else max(1, round(sqrt(0.75 * heads))),
        names=[f"{seen.layers[layer].name}, head {head}" for layer, head in places],
        row_names=_few([str(head) for head in range(heads)]) if several else (),
        column_names=_few(numbers_of([layer.id for layer in layers])) if several else (),
        chosen=[places.index(head) for head in framed if head[0] not in whole],
        largest=seen.colors.end([maps]),
    )
    for first, last in runs([column for column, layer in enumerate(stack) if layer in whole and several]):
        spec = picture.spec
        picture.figure.add_shape(
            type="rect", line={"color": ACCENT, "width": 3},
            x0=first * spec.tile_width - 0.5, x1=last * spec.tile_width + spec.width - 0.5,
            y0=spec.tile_height - spec.height - 0.5, y1=heads * spec.tile_height - 0.5,
        )  # fmt: skip

    def click_at(row: int, column: int) -> None:
        place = picture.spec.head_at(row, column)
        if place is not None:
            click(places[place])

    chart(
        picture,
        "together-heads",
        label="Heads to choose from",
        name="attention heads",
        description=f"{len(maps)} small maps of attention weights, one for each head; the menu above chooses, too.",
        height=HEIGHT,
        hint=hint,
        on_click=click_at,
    )


def _cells(seen: LookedAt) -> int:
    return seen.shown.inputs.queries * seen.shown.inputs.keys


def runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbors among increasing places, as the first and the last of each row of them."""
    first = [place for place in places if place - 1 not in places]
    last = [place for place in places if place + 1 not in places]
    return list(zip(first, last, strict=True))


def _few(names: Sequence[str]) -> list[str]:
    """As many of the names as find room along the small maps, with nothing in the place of the others."""
    step = -(-len(names) // MOST_NAMES)
    return [name if i % step == 0 else "" for i, name in enumerate(names)]


def _picture(taken: Taken, several: Sequence[str], colors: ColorRange) -> Chart[HeatmapSpec]:
    """The map, in which the chosen queries have a mark."""
    shares = taken.name != "Value-weighted"
    end = colors.end([taken.screen.weights]) if shares else largest_weight([taken.screen.weights])
    picture = taken.screen.figure(largest=end, says=WAYS[taken.name].says)
    if taken.single:
        chosen = taken.positions(several)
        picture = mark_queries(picture, [row for row, query in enumerate(taken.screen.queries) if query in chosen])
    return picture


def _several(taken: Taken, several: Sequence[str], places: Sequence[DeltaGenerator]) -> None:
    """What the chosen queries look at together."""
    if not several:
        with places[1]:
            st.caption("Choose tokens, or click rows of the map: what they look at together is summed up here.")
        return
    inputs, queries = taken.screen.inputs, taken.positions(several)
    exact = cache.once(lambda: torch.cat([taken.of(slice(i, i + 1)) for i in queries]), queries, *taken.asked)
    total = aggregate_queries(exact, range(len(queries)))
    key_tokens = [told(inputs, inputs.key_tokens, i) for i in taken.keys]
    most = strongest_keys(total)
    items = "".join(f"<li><bdi>{escape(visible(key_tokens[key]))}</bdi> {number(weight)}</li>" for key, weight in most)
    said = "nothing"
    if most:
        said = WAYS[taken.name].total.format(weight=number(most[0][1]), key=visible(key_tokens[most[0][0]]))
    tokens = " + ".join(visible(told(inputs, inputs.query_tokens, query)) for query in queries)
    with places[0]:
        st.html(
            f"<p class='attnviz-summary'>{escape(tokens)}: {escape(said)}.</p>"
            f"<ol class='attnviz-strongest'>{items}</ol>"
        )
    shown = sorted(key for key, _ in strongest_keys(total, BARS))
    ends = total.nan_to_num(0)
    bars = row_bars(
        total.numpy()[shown],
        [key_tokens[key] for key in shown],
        lowest=min(0.0, float(ends.min())),
        highest=float(ends.max()) or 1.0,
    )
    with places[1]:
        chart(
            bars,
            "together-sum",
            label="What the chosen tokens look at",
            name=f"attention of {len(queries)} tokens",
            description=f"Sums of {len(queries)} rows of the map, for each key.",
            height=240,
            grows=False,
        )


def _toggle(row: str | None) -> None:
    """Chooses a token, or lets go of it."""
    chosen = st.session_state[TOKENS]
    if row is not None:
        st.session_state[TOKENS] = [one for one in chosen if one != row] if row in chosen else [*chosen, row]
