"""What the link still says of another model or text."""

from collections.abc import Collection, Sequence

import streamlit as st

from attnviz.analysis.head_maps import shown_positions
from attnviz.ui import pinned_query
from attnviz.ui.head_controls import AGGREGATES, head_names
from attnviz.ui.models import aggregation, model_picker, products, side_by_side, viewport, what_if
from attnviz.ui.models.selection import LookedAt


def clear(seen: LookedAt) -> None:
    """Takes what is not there out of the link: Streamlit would show the beginning instead, and leave it.

    While the model that is asked for cannot be shown, the link may still mean it, and stays.
    """
    if model_picker.REFUSED in st.session_state:
        return
    inputs = seen.shown.inputs
    positions = shown_positions(inputs.queries, inputs.special_queries, seen.special)
    queries = _named(positions, inputs.query_tokens)
    keys = _named(shown_positions(inputs.keys, inputs.special_keys, seen.special), inputs.key_tokens)
    opening = seen.example.opening.query
    start = queries[positions.index(opening)] if opening in positions else pinned_query.NOBODY
    _only("pinned", [pinned_query.NOBODY, *queries], start)
    _only(products.KEY, [products.STRONGEST, *keys], products.STRONGEST)
    _only(aggregation.TOKENS, queries)
    _only(aggregation.HEADS, aggregation.choices(seen.layers, aggregation.stacked(seen.layers, seen.layer)))
    _only(what_if.ABLATED, what_if.heads_by_name(seen.layers))
    if st.session_state.get("right-model", st.query_params.get("right-model")) in (None, side_by_side.SAME):
        most = max(layer.inputs.heads for layer in seen.layers)
        _only("right-layer", [side_by_side.SAME, *(layer.name for layer in seen.layers)], side_by_side.SAME)
        _only("right-head", [side_by_side.SAME, *head_names(most), *AGGREGATES], side_by_side.SAME)
    if (
        not viewport.is_long(inputs) and st.session_state.get("inspect") != "Side by side"
    ):  # where the other may be long
        for key in viewport.SLIDERS:
            _only(key, ())
    if not inputs.special_keys:
        _only("special-tokens", ())


def _named(positions: Sequence[int], tokens: Sequence[str]) -> list[str]:
    return pinned_query.numbered(positions, [tokens[i] for i in positions])


def _only(key: str, there: Collection[str], start: str | None = None) -> None:
    """Leaves of a widget's value what is there, or else `start`; and of the link, where there is no widget yet."""
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
