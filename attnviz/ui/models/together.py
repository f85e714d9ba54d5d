"""Several heads, layers or tokens together."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from attnviz.figures import head_at, heatmap, mosaic
from attnviz.figures.bars import row_bars
from attnviz.figures.mosaic import ACCENT
from attnviz.figures.sentences import GIVES_AT_MOST, GIVES_ON_AVERAGE, number, visible
from attnviz.inputs import Layer
from attnviz.long_maps import thumbnails
from attnviz.measures import Together, kept, over, strongest
from attnviz.together import combined, from_queries, rollout, value_weighted
from attnviz.ui import cache, pinned
from attnviz.ui.chart import chart
from attnviz.ui.heads import MOST_NAMES, numbers_of
from attnviz.ui.models.looked_at import LookedAt
from attnviz.ui.models.overview import MOST_CELLS
from attnviz.ui.models.what_heads_do import open_head
from attnviz.ui.plain import plain
from attnviz.ui.view import COLORS, MOST_WORK, THUMBNAIL_CELLS, fitting, largest, tokens_stamp

HEADS, TOKENS = "heads-together", "tokens-together"  # of widgets, and in the link
HEIGHT = 430
BARS = 20  # that have room for their names on a phone
Head = tuple[int, int]  # a layer, and a head of it


@dataclass(frozen=True)
class Way:
    """A way to take heads or layers together, and what is to be said of it."""

    about: str
    says: str  # of one cell
    how: Together | None = None  # where heads are chosen by hand
    total: str = "{weight} to {key}"  # of several queries together


WAYS = {
    "Mean": Way(
        "Each cell is the mean of the weights that the chosen heads have there.",
        GIVES_ON_AVERAGE,
        "mean",
    ),
    "Maximum": Way(
        "Each cell is the largest weight that a chosen head has there, so that what one head alone does is seen.",
        GIVES_AT_MOST,
        "maximum",
    ),
    "Minimum": Way(
        "Each cell is the smallest weight that a chosen head has there: what all of them look at.",
        "{query} gives at least {weight} of its attention to {key}, in every one of these heads.",
        "minimum",
    ),
    "Rollout": Way(
        "What has come from where after these layers, if each layer takes as much from attention, the mean of its "
        "heads, as it keeps of what was there (Abnar & Zuidema 2020).",
        "{weight} of what is at {query} after these layers comes from {key}.",
        total="{weight} from {key}",
    ),
    "Value-weighted": Way(
        "The weight times the length of the key’s value vector: how much a key adds. One that gets attention but has "
        "next to no value adds next to nothing. As in Kobayashi et al. 2020, but before the layer’s output projection.",
        "{key} adds a vector of length {weight} to {query}.",
        total="a length of {weight} from {key}",
    ),
}


@dataclass(frozen=True, eq=False)
class Taken:
    """A map of several heads together, with all that is said of it."""

    weights: Float[np.ndarray, "queries keys"]
    title: str
    name: str  # of its way
    query_tokens: list[str]
    key_tokens: list[str]
    rows: list[str]  # the queries' names, told apart by their positions
    stamp: str


def show(seen: LookedAt) -> None:
    """Draws the heads to choose from, what they give together, and what several tokens look at."""
    name = st.segmented_control(
        "Taken together", list(WAYS), default="Mean", required=True, key="together", bind="query-params",
        label_visibility="collapsed",
    ) or "Mean"  # a link may say nothing  # fmt: skip
    stack, notes = stacked(seen.layers, seen.layer), st.container()
    left, right = st.columns([0.36, 0.64], gap="medium")
    with left:
        chosen = _choose(seen, stack, name)
    try:
        taken = _taken(seen, stack, chosen, name)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    below = st.columns([0.36, 0.64], gap="medium")
    with below[0]:
        # Their names hold their positions, so that a choice stays with its tokens when the text changes elsewhere.
        several = st.multiselect("Tokens", taken.rows, key=TOKENS, bind="query-params", placeholder="Choose, or click")
    with right:
        about = escape(WAYS[taken.name].about)
        st.html(f"<p class='attnviz-said'>{escape(taken.title)}</p><p class='attnviz-whose'>{about}</p>")
        chart(
            _picture(taken, several, seen.colors),
            "together-map",
            label=f"{taken.name} of attention",
            name=f"attention {taken.title}",
            description=f"{taken.title}: {len(taken.query_tokens)} queries by {len(taken.key_tokens)} keys.",
            height=HEIGHT,
            hint="Point at a cell to read it, click to choose its query.",
            on_click=lambda row, _: _toggle(taken.rows[row]),
        )
    _several(taken, [taken.rows.index(one) for one in several], below)


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


def written(layers: Sequence[Layer], heads: Collection[Head]) -> list[str]:
    """The names of these heads, a layer's own where all of its heads are among them."""
    names: list[str] = []
    for i, layer in enumerate(layers):
        ours = sorted(head for at, head in heads if at == i)
        whole = len(ours) == layer.inputs.heads
        names += [layer.name] if whole else [f"{layer.name}, head {head}" for head in ours]
    return names


def _choose(seen: LookedAt, stack: Sequence[int], name: str) -> list[Head]:
    """The heads that are taken together: named in the menu, or clicked."""
    by_hand, named = WAYS[name].how is not None, choices(seen.layers, stack)
    every = [head for i in stack for head in named[seen.layers[i].name]]
    # The menu stays where nothing is to be chosen in it, so that the charts below it stay too.
    picked = st.multiselect(
        "Heads", list(named), key=HEADS, bind="query-params", disabled=not by_hand,
        placeholder="All heads of all layers" if by_hand else "As the layer and the head are chosen",
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
    if too_much := _too_much(seen, heads * len(layers)):
        st.caption(too_much)
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
    figure = mosaic(
        maps.reshape(len(stack), heads, *maps.shape[1:]).swapaxes(0, 1).reshape(maps.shape),
        columns=len(stack),
        names=[f"{seen.layers[layer].name}, head {head}" for layer, head in places],
        row_names=_few([str(head) for head in range(heads)]),
        column_names=_few(numbers_of([layer.name for layer in layers])),
        chosen=[places.index(head) for head in framed if head[0] not in whole],
        largest=1.0 if seen.colors == COLORS[2] else largest([maps]),
    )
    for first, last in runs([column for column, layer in enumerate(stack) if layer in whole]):
        meta = figure.layout.meta
        figure.add_shape(
            type="rect", line={"color": ACCENT, "width": 3},
            x0=first * meta["broad"] - 0.5, x1=last * meta["broad"] + meta["width"] - 0.5,
            y0=meta["above"] - 0.5, y1=heads * meta["tall"] - 0.5,
        )  # fmt: skip

    def click_at(row: int, column: int) -> None:
        place = head_at(figure, row, column)
        if place is not None:
            click(places[place])

    chart(
        figure,
        "together-heads",
        label="Heads to choose from",
        name="attention heads",
        description=f"{len(maps)} small maps of attention weights, one for each head; the menu above chooses, too.",
        height=HEIGHT,
        hint=hint,
        on_click=click_at,
    )


def runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbors among increasing places, as the first and the last of each row of them."""
    first = [place for place in places if place - 1 not in places]
    last = [place for place in places if place + 1 not in places]
    return list(zip(first, last, strict=True))


def _few(names: Sequence[str]) -> list[str]:
    """As many of the names as find room along the small maps, with nothing in the place of the others."""
    step = -(-len(names) // MOST_NAMES)
    return [name if i % step == 0 else "" for i, name in enumerate(names)]


def _taken(seen: LookedAt, stack: Sequence[int], heads: Sequence[Head], name: str) -> Taken:
    """The heads taken together; raises ValueError, in words, where that cannot be done."""
    if too_much := _too_much(seen, len(heads)):
        raise ValueError(too_much)
    layers, mechanisms = seen.layers, [layer.mechanism for layer in seen.layers]
    inputs, how = seen.shown.inputs, WAYS[name].how
    queries = kept(inputs.queries, inputs.special_queries, seen.special)
    keys = kept(inputs.keys, inputs.special_keys, seen.special)

    def make() -> np.ndarray:
        if how is not None:
            return combined(layers, mechanisms, heads, how, seen.special).numpy()
        if name == "Value-weighted":
            maps = (value_weighted(inputs, mechanisms[layer], head, seen.special) for layer, head in heads)
            return over(maps, "maximum" if seen.head == "maximum" else "mean").numpy()
        through = sorted({layer for layer, _ in heads})
        whole = rollout([layers[i] for i in through], [mechanisms[i] for i in through])[queries][:, keys]
        return (whole / whole.sum(-1, keepdim=True) if seen.special == "rescaled" else whole).numpy()

    query_tokens = [inputs.query_tokens[i] for i in queries]
    return Taken(
        cache.once(make, "together", seen.example, name, heads, seen.head == "maximum", seen.special),
        _title(seen, stack, heads, name),
        name,
        query_tokens,
        [inputs.key_tokens[i] for i in keys],
        pinned.numbered(queries, query_tokens),
        tokens_stamp(inputs),
    )


def _too_much(seen: LookedAt, heads: int) -> str:
    """Why so many heads are not looked at together: it would keep a core busy for long, or fill a browser."""
    inputs = seen.shown.inputs
    cells = inputs.queries * inputs.keys
    size = f"{inputs.queries:,} queries by {inputs.keys:,} keys"
    if cells > MOST_CELLS:
        return f"Maps of {size} are too large to be taken together; at most {MOST_CELLS:,} cells are. Shorten the text."
    if cells * heads > MOST_WORK:
        return (
            f"{heads} heads of {size} are too many to be taken together: {cells * heads:,} numbers, and at most "
            f"{MOST_WORK:,} are computed for one picture. Choose fewer heads, or shorten the text."
        )
    return ""


def _title(seen: LookedAt, stack: Sequence[int], heads: Sequence[Head], name: str) -> str:
    """What the map is."""
    if name == "Rollout":
        layers = [seen.layers[i].name for i in sorted({layer for layer, _ in heads})]
        return f"Rollout, {layers[0]} to {layers[-1]}" if len(layers) > 1 else f"Rollout, {layers[0]}"
    names = written(seen.layers, heads)
    if len(stack) > 1 and len(heads) == sum(seen.layers[i].inputs.heads for i in stack):
        names = [f"all {len(heads)} heads"]
    elif len(names) > 3:
        names = [f"{len(heads)} heads"]
    return f"{name}, {' + '.join(names)}" if name == "Value-weighted" else f"{name} of {' and '.join(names)}"


def _picture(taken: Taken, several: Sequence[str], colors: str) -> go.Figure:
    """The map, in which the chosen queries have a mark."""
    shares = taken.name != "Value-weighted"
    figure = heatmap(
        taken.weights,
        taken.query_tokens,
        taken.key_tokens,
        largest=1.0 if colors == COLORS[2] and shares else largest([taken.weights]),
        says=WAYS[taken.name].says,
        zoom=taken.stamp,
        fan=False,
    )
    labels = zip(taken.rows, figure.layout.meta["queryLabels"], strict=True)
    marked = [f"<b>{label} ●</b>" if row in several else label for row, label in labels]
    figure.layout.meta = figure.layout.meta | {"queryLabels": marked}
    return figure


def _several(taken: Taken, rows: Sequence[int], places: Sequence[DeltaGenerator]) -> None:
    """What the chosen queries look at together."""
    if not rows:
        with places[1]:
            st.caption("Choose tokens, or click rows of the map: what they look at together is summed up here.")
        return
    total = from_queries(torch.from_numpy(taken.weights), rows)
    most = strongest(total)
    items = "".join(
        f"<li><bdi>{escape(visible(taken.key_tokens[key]))}</bdi> {number(weight)}</li>" for key, weight in most
    )
    said = "nothing"
    if most:
        said = WAYS[taken.name].total.format(weight=number(most[0][1]), key=visible(taken.key_tokens[most[0][0]]))
    tokens = " + ".join(visible(taken.query_tokens[row]) for row in rows)
    with places[0]:
        st.html(
            f"<p class='attnviz-said'>{escape(tokens)}: {escape(said)}.</p><ol class='attnviz-strongest'>{items}</ol>"
        )
    shown = sorted(key for key, _ in strongest(total, BARS))
    ends = total.nan_to_num(0)
    bars = row_bars(
        total.numpy()[shown],
        [taken.key_tokens[key] for key in shown],
        lowest=min(0.0, float(ends.min())),
        highest=float(ends.max()) or 1.0,
    )
    with places[1]:
        chart(
            bars,
            "together-sum",
            label="What the chosen tokens look at",
            name=f"attention of {len(rows)} tokens",
            description=f"Sums of {len(rows)} rows of the map, for each key.",
            height=240,
            grows=False,
        )


def _toggle(row: str) -> None:
    """Chooses a token, or lets go of it."""
    chosen = st.session_state[TOKENS]
    st.session_state[TOKENS] = [one for one in chosen if one != row] if row in chosen else [*chosen, row]
