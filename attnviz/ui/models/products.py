"""The queries, keys and values of one head, and the contribution of each dimension to a score."""

from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st
import torch
from jaxtyping import Float

from attnviz import figures
from attnviz.analysis.head_maps import Special, strongest_keys
from attnviz.figures.products import scaled
from attnviz.figures.sentences import CellSentences
from attnviz.formatting import grouped, number
from attnviz.language import _
from attnviz.layer import Layer
from attnviz.mechanism import Mechanism
from attnviz.page import html
from attnviz.scores import Dot, ScaledDot
from attnviz.state.color_range import largest_weight
from attnviz.state.head_state import NO_QUERY
from attnviz.state.models import ModelSelection, ModelsState
from attnviz.state.viewport import numbered_token
from attnviz.ui import pinned_query
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import read_widget
from attnviz.ui.widget_values import field_value, set_field_value
from attnviz.views.mechanism_sentences import bias_phrase
from attnviz.views.selected_maps import zoom_key

MOST_CELLS = 150_000  # of one picture of tokens × dimensions


def score_scale(mechanism: Mechanism, width: int) -> float | None:
    """Returns the factor of the dot products of a score; None if it is not a scaled dot product."""
    score = mechanism.score
    if isinstance(score, Dot):
        return 1.0
    if not isinstance(score, ScaledDot):
        return None
    return width**-0.5 if score.scale is None else score.scale


def show(selection: ModelSelection, row: int | None, weights: Float[torch.Tensor, " keys"] | None) -> None:
    """Draws the terms of the pinned query's score with a chosen key, and the head's queries, keys and values.

    `weights` are those of the pinned row, NaN where masked.
    """
    if selection.layer.locked:
        st.caption(plain(selection.layer.locked_reason))
        return
    inputs, head = selection.inputs.vectors, selection.head
    if not isinstance(head, int):
        st.caption(_("Choose one head to see its queries, keys and values."))
        return
    key = _show_score(selection, row, weights, head)
    query_head, key_head = inputs.query_of(head), inputs.key_of(head)

    def pin(row: int, _column: int) -> None:
        if row in selection.queries:
            pinned_query.toggle(selection.query_names, selection.queries.index(row))

    def choose(row: int, _column: int) -> None:
        if row in selection.keys:
            set_field_value(ModelsState.key, selection.keys.index(row), selection.state)

    sides = (
        (_("Queries"), query_head, inputs.query_tokens, selection.queries[row] if row is not None else None, pin),
        (_("Keys"), key_head, inputs.key_tokens, key, choose),
        (_("Values"), inputs.value_of(head), inputs.key_tokens, key, choose),
    )
    for column, (name, vectors, tokens, marked, on_click) in zip(st.columns(3, gap="medium"), sides, strict=True):
        with column:
            _show_vectors(name, vectors.numpy(), tokens, marked, on_click, zoom_key(inputs))


def pin_cell(selection: ModelSelection) -> Callable[[int, int], None]:
    """Returns the callback of a click on a cell: it pins the query and chooses the key, or resets both."""
    queries, state = selection.query_names, selection.state

    def click(row: int, column: int) -> None:
        if column < 0:  # the name of a row
            return pinned_query.toggle(queries, row)
        again = read_widget(pinned_query.KEY) == queries[row] and field_value(ModelsState.key, state) == column
        pinned_query.pin_query(NO_QUERY if again else queries[row])
        set_field_value(ModelsState.key, None if again else column, state)

    return click


def _show_score(
    selection: ModelSelection, row: int | None, weights: Float[torch.Tensor, " keys"] | None, head: int
) -> int | None:
    """Draws the menu of the key and the bars of one score; returns the position of the key."""
    inputs, mechanism = selection.inputs.vectors, selection.mechanism
    st.markdown(f"#### {_('Which dimensions made the score?')}")
    menu, bars = st.columns([0.32, 0.68], gap="medium")
    with menu:
        chosen = draw(ModelsState.key, selection.state)
        if row is None or weights is None:
            st.html(html.element("p", _("Pin a query, or click a cell of the map above.")))
            return None
        best = strongest_keys(weights, 1)
        if chosen is None and not best:
            st.html(html.element("p", _("This query may look at nothing.")))
            return None
        column = best[0][0] if chosen is None else chosen
        query, key = selection.queries[row], selection.keys[column]
        scale = score_scale(mechanism, inputs.query.shape[-1])
        if scale is None:
            st.html(html.element("p", _("The scores of this layer are not sums of products.")))
            return key
        pair = inputs.query_of(head)[query].numpy(), inputs.key_of(head)[key].numpy()
        tokens = numbered_token(inputs, inputs.query_tokens, query), numbered_token(inputs, inputs.key_tokens, key)
        terms = pair[0].astype("f8") * pair[1].astype("f8") * scale
        steps = bias_steps(selection.layer, head, query, key, float(terms.sum()))
        rescaled = selection.special == Special.RESCALED
        st.html(score_text(terms, scale, tokens, steps, float(weights[column]), rescaled=rescaled))
    with bars:
        picture = figures.products(*pair, scale=scale)
        chart(picture.with_about(name=_("products {title}", title=selection.title)), "products", height=230)
    return key


def bias_steps(layer: Layer, head: int, query: int, key: int, score: float) -> list[tuple[str, float]]:
    """Returns the effect of each bias on one score, in order, and the final score."""
    inputs = layer.inputs
    positions = [torch.tensor(position) for position in (0, head, query, key)]
    value, steps = torch.tensor(score), []
    for bias in layer.known_mechanism.bind(inputs.queries, inputs.keys, inputs.heads).biases:
        value = bias(value, *positions)
        steps.append((bias_phrase(bias), float(value)))
    return steps


def score_text(
    terms: Float[np.ndarray, " d_k"],
    scale: float,
    tokens: tuple[str, str],
    steps: Sequence[tuple[str, float]],
    weight: float,
    *,
    rescaled: bool = False,
) -> html.Markup:
    """Returns a sentence about one score: the sum of its terms, the biases, and the resulting weight."""
    best = int(np.argmax(np.abs(terms)))
    values = [number(value) for value in (float(terms.sum()), *(value for _, value in steps))]
    phrases = [
        _("{score}, {change}, makes {changed}.", score=values[i], change=change, changed=values[i + 1])
        for i, (change, _after) in enumerate(steps)
    ]
    becomes = (
        _("A score of {score} becomes a weight of {weight}, rescaled with its row.")
        if rescaled
        else _("A score of {score} becomes a weight of {weight}.")
    ).format(score=values[-1], weight=number(weight))
    query, key = map(html.token, tokens)
    pair = html.Markup(_("Query {query} and key {key}")).format(query=query, key=key)
    product = html.Markup("{}<br>q · k{} = <b>{}</b>").format(pair, scaled(scale), values[0])
    shares = _(
        "This is the sum of {count} products, a bar each: a number of the query × one of the key{scaled}. "
        "Dimension {best} counts most, {term}.",
        count=len(terms),
        scaled=scaled(scale),
        best=best,
        term=number(float(terms[best])),
    )
    sentences = [shares, *phrases, _("The mask hides this key.") if np.isnan(weight) else becomes]
    return html.element("p", product, class_="attnviz-summary attnviz-score") + html.element("p", " ".join(sentences))


def _show_vectors(
    name: str,
    vectors: Float[np.ndarray, "tokens width"],
    tokens: Sequence[str],
    marked: int | None,
    on_click: Callable[[int, int], None],
    zoom: str,
) -> None:
    if vectors.size > MOST_CELLS:
        st.caption(
            plain(
                _(
                    "{name}: {rows} × {columns} numbers are too many for one figure.",
                    name=name,
                    rows=grouped(vectors.shape[0]),
                    columns=grouped(vectors.shape[1]),
                )
            )
        )
        return
    picture = figures.heatmap(
        vectors, tokens, [str(i) for i in range(vectors.shape[1])], largest=largest_weight([vectors]), scale="changes",
        sentences=CellSentences(_("{query} has {weight} in dimension {key}.")), fan=False, zoom_key=f"{name} {zoom}",
    )  # fmt: skip
    axes = picture.figure.layout
    axes.xaxis.title.text, axes.yaxis.title.text = "dimensions", name.lower()
    tokens_count, width = vectors.shape
    picture = picture.with_about(
        label=name, hint="",
        description=_("{tokens} vectors of {width} numbers each.", tokens=tokens_count, width=width),
    )  # fmt: skip
    chart(picture, name.lower(), height=300, title=name, grows=False, pinned=marked, on_click=on_click)
