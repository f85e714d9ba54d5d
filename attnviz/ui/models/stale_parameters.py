"""Removal of stale parameters, those of another model or text, from the link."""

from collections.abc import Collection

import streamlit as st

from attnviz.ui import bookmarks, pinned_query, token_finder, viewport
from attnviz.ui.head_controls import AGGREGATES, head_names
from attnviz.ui.menus import chosen_option
from attnviz.ui.models import (
    aggregation,
    head_metrics,
    overview,
    products,
    side_by_side,
    what_if,
)
from attnviz.ui.models.metrics_table import offered_metrics
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.selection import similar_layers


def clear(selection: ModelSelection) -> None:
    """Removes choices that do not exist from the link; Streamlit would show the default, and leave them there."""
    inputs, queries, first = selection.layer.inputs, selection.query_names, selection.first_row
    pinned_query.take_older_names(pinned_query.KEY, queries)
    pinned_query.take_older_names(products.KEY, selection.key_names)
    pinned_query.take_older_names(aggregation.TOKENS, queries, several=True)
    _only(
        pinned_query.KEY, [pinned_query.NO_QUERY, *queries], pinned_query.NO_QUERY if first is None else queries[first]
    )
    _only(products.KEY, [products.STRONGEST, *selection.key_names], products.STRONGEST)
    _only(aggregation.TOKENS, queries)
    stack = similar_layers(selection.layers, selection.index)
    _only(aggregation.HEADS, aggregation.head_choices(selection.layers, stack))
    _only(aggregation.ROLLOUT_LAYER, [selection.layers[i].name for i in stack])
    metrics = offered_metrics(selection.layers)
    _only("across", metrics, head_metrics.ACROSS)
    _only("up", metrics, head_metrics.UP)
    _only("color-by", [overview.MAPS, *metrics], overview.MAPS)
    _only(what_if.ABLATED, what_if.heads_by_name(selection.layers))
    if chosen_option("right-model", [side_by_side.SAME]) in ("", side_by_side.SAME):
        most = max(layer.inputs.heads for layer in selection.layers)
        _only("right-layer", [side_by_side.SAME, *(layer.name for layer in selection.layers)], side_by_side.SAME)
        _only("right-head", [side_by_side.SAME, *head_names(most), *AGGREGATES], side_by_side.SAME)
    if (
        not viewport.is_long(inputs) and st.session_state.get("inspect") != "Side by side"
    ):  # where the other may be long
        for key in (*viewport.SLIDERS, token_finder.KEY, bookmarks.KEY):
            _only(key, ())
    if not inputs.special_keys:
        _only("special-tokens", ())


def _only(key: str, there: Collection[str], start: str | None = None) -> None:
    """Removes unavailable choices from a widget's value, or from the link if there is no widget yet."""
    state, link = st.session_state, st.query_params
    value = state.get(key)
    if isinstance(value, list):
        if left := [one for one in value if one not in there]:
            state[key] = [one for one in value if one not in left]
    elif start is not None and value is not None and value not in there:
        state[key] = start
    elif value is None and key in link:
        left = [one for one in link.get_all(key) if one in there]
        if not left:
            del link[key]
        elif left != link.get_all(key):
            link[key] = left
