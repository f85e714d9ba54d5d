"""The queries, keys and values of one head, and what each of their dimensions adds to a score."""

from collections.abc import Callable, Sequence
from html import escape

import numpy as np
import streamlit as st
import torch
from jaxtyping import Float

from attnviz import figures
from attnviz.analysis.head_maps import Special, strongest_keys
from attnviz.figures.products import scaled
from attnviz.figures.sentences import CellSentences
from attnviz.formatting import number, visible
from attnviz.layer import Layer
from attnviz.mechanism import Mechanism
from attnviz.scores import Dot, ScaledDot
from attnviz.ui import pinned_query
from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.head_map import zoom_key
from attnviz.ui.markdown import plain
from attnviz.ui.mechanism_sentences import bias_phrase
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.selection import Selection
from attnviz.ui.viewport import token_name

STRONGEST = "Its strongest key"
MOST_CELLS = 150_000  # of one picture of tokens × dimensions
KEY = "key"


def factor(mechanism: Mechanism, width: int) -> float | None:
    """What the products of a query's and a key's numbers are multiplied with; None where scores are no sum of them."""
    score = mechanism.score
    if isinstance(score, Dot):
        return 1.0
    if not isinstance(score, ScaledDot):
        return None
    return width**-0.5 if score.scale is None else score.scale


def show(selection: ModelSelection, row: int | None, weights: Float[torch.Tensor, " keys"] | None) -> None:
    """Draws the dimensions of the pinned query's score with a chosen key, and the head's queries, keys and values.

    `weights` are those of the pinned row, NaN where not allowed.
    """
    inputs, head = selection.layer.inputs, selection.head
    if selection.layer.locked:
        st.caption(plain(selection.layer.locked_reason))
        return
    if not isinstance(head, int):
        st.caption("Choose one head to see its queries, keys and values.")
        return
    key = _show_score(selection, row, weights, head)
    query_head, key_head = inputs.query[head], inputs.key[inputs.kv_head(head)]
    pin, choose = _pin(selection), _choose(selection)
    sides = (
        ("Queries", query_head, inputs.query_tokens, selection.queries[row] if row is not None else None, pin),
        ("Keys", key_head, inputs.key_tokens, key, choose),
        ("Values", inputs.value_of(head), inputs.key_tokens, key, choose),
    )
    for column, (name, vectors, tokens, marked, on_click) in zip(st.columns(3, gap="medium"), sides, strict=True):
        with column:
            _vectors(name, vectors.numpy(), tokens, marked, on_click, zoom_key(inputs))


def pick(selection: Selection) -> Callable[[int, int], None]:
    """What a click on a cell does: it pins the query and chooses the key; the same click again lets go of both."""
    queries, keys = selection.query_names, selection.key_names

    def at(row: int, column: int) -> None:
        if column < 0:  # the name of a row
            return pinned_query.toggle(queries, row)
        both = {"pinned": queries[row], KEY: keys[column]}
        again = all(st.session_state.get(name) == value for name, value in both.items())
        st.session_state.update({"pinned": pinned_query.NOBODY, KEY: STRONGEST} if again else both)

    return at


def _show_score(
    selection: ModelSelection, row: int | None, weights: Float[torch.Tensor, " keys"] | None, head: int
) -> int | None:
    """The bars of one score, with its key from a menu; the position of that key."""
    inputs, mechanism = selection.layer.inputs, selection.mechanism
    st.markdown("##### Which dimensions made the score?")
    menu, drawn = st.columns([0.32, 0.68], gap="medium")
    names = selection.key_names
    with menu:
        chosen = st.selectbox(
            "Key", [STRONGEST, *names], key=KEY, bind="query-params",
            help="Or click a cell of the map: it pins its query and chooses its key.",
        )  # fmt: skip
        if row is None or weights is None:
            st.html("<p>Pin a query, or click a cell of the map above.</p>")
            return None
        best = strongest_keys(weights, 1)
        if chosen == STRONGEST and not best:
            st.html("<p>This query may look at nothing.</p>")
            return None
        column = best[0][0] if chosen == STRONGEST else names.index(chosen)
        query, key = selection.queries[row], selection.keys[column]
        scale = factor(mechanism, inputs.query.shape[-1])
        if scale is None:
            st.html("<p>The scores of this layer are no sums of products.</p>")
            return key
        pair = inputs.query[head, query].numpy(), inputs.key[inputs.kv_head(head), key].numpy()
        tokens = token_name(inputs, inputs.query_tokens, query), token_name(inputs, inputs.key_tokens, key)
        terms = pair[0].astype("f8") * pair[1].astype("f8") * scale
        then = biased(selection.layer, head, query, key, float(terms.sum()))
        st.html(
            said(terms, scale, tokens, then, float(weights[column]), rescaled=selection.special == Special.RESCALED)
        )
    with drawn:
        chart(
            figures.products(*pair, scale=scale),
            "products",
            label="Products",
            name=f"products {selection.title}",
            description=f"{len(pair[0])} bars, one for each dimension: what it adds to the score.",
            height=230,
            hint="Point at a bar to read it.",
            grows=False,
        )
    return key


def biased(layer: Layer, head: int, query: int, key: int, score: float) -> list[tuple[str, float]]:
    """What each bias of a layer does to one score, one after the other, and the number that it makes of it."""
    inputs = layer.inputs
    at = [torch.tensor(place) for place in (0, head, query, key)]
    now, made = torch.tensor(score), []
    for bias in layer.mechanism.bind(inputs.queries, inputs.keys, inputs.heads).biases:
        now = bias(now, *at)
        made.append((bias_phrase(bias), float(now)))
    return made


def said(
    terms: Float[np.ndarray, " d_k"],
    scale: float,
    tokens: tuple[str, str],
    then: Sequence[tuple[str, float]],
    weight: float,
    *,
    rescaled: bool = False,
) -> str:
    """One score in words, in HTML: the sum of the terms, what biases make of it, and the weight that it becomes."""
    best = int(np.argmax(np.abs(terms)))
    query, key = (f"<bdi>{escape(visible(token))}</bdi>" for token in tokens)
    made = [number(value) for value in (float(terms.sum()), *(value for _, value in then))]
    steps = "".join(f"{made[i]}, {what}, makes {made[i + 1]}. " for i, (what, _) in enumerate(then))
    becomes = f"A score of {made[-1]} becomes a weight of {number(weight)}{', rescaled with its row' * rescaled}."
    return (
        f"<p class='attnviz-score'>Query {query} and key {key}<br>q · k{scaled(scale)} = <b>{made[0]}</b></p>"
        f"<p>This is the sum of {len(terms)} products, a bar each: a number of the query × one of the key"
        f"{scaled(scale)}. Dimension {best} counts most, {number(float(terms[best]))}. "
        f"{escape(steps)}{'The mask hides this key.' if np.isnan(weight) else becomes}</p>"
    )


def _vectors(
    name: str,
    vectors: Float[np.ndarray, "tokens width"],
    tokens: Sequence[str],
    marked: int | None,
    on_click: Callable[[int, int], None],
    zoom: str,
) -> None:
    if vectors.size > MOST_CELLS:
        st.caption(plain(f"{name}: {vectors.shape[0]:,} × {vectors.shape[1]:,} numbers are too many for one picture."))
        return
    picture = figures.heatmap(
        vectors, tokens, [str(i) for i in range(vectors.shape[1])], largest=largest_weight([vectors]), scale="changes",
        sentences=CellSentences("{query} has {weight} in dimension {key}."), fan=False, zoom_key=f"{name} {zoom}",
    )  # fmt: skip
    picture.figure.update_xaxes(title_text="dimensions").update_yaxes(title_text=name.lower())
    chart(
        picture,
        name.lower(),
        label=name,
        name=f"{name.lower()} of one head",
        description=f"{vectors.shape[0]} {name.lower()} of {vectors.shape[1]} numbers each.",
        height=300,
        title=name,
        grows=False,
        pinned=marked,
        on_click=on_click,
    )


def _pin(selection: Selection) -> Callable[[int, int], None]:
    names = selection.query_names

    def at(row: int, _: int) -> None:
        if row in selection.queries:
            pinned_query.toggle(names, selection.queries.index(row))

    return at


def _choose(selection: Selection) -> Callable[[int, int], None]:
    names = selection.key_names

    def at(row: int, _: int) -> None:
        if row in selection.keys:
            st.session_state[KEY] = names[selection.keys.index(row)]

    return at
