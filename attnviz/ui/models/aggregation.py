"""The Aggregation tab: several heads or layers as one map, and the sum of several of its rows."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.aggregation import aggregate_queries
from attnviz.analysis.head_maps import strongest_keys
from attnviz.analysis.work import is_affordable
from attnviz.figures import Chart
from attnviz.figures.bars import row_bars
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.heatmap import mark_queries
from attnviz.formatting import number, visible
from attnviz.language import _
from attnviz.page import html
from attnviz.state.aggregation_methods import METHODS, ROLLOUT, VALUE_WEIGHTED, head_choices, layer_head_names
from attnviz.state.color_range import largest_weight
from attnviz.state.models import ModelSelection, ModelsState, stack_work
from attnviz.state.selection import similar_layers
from attnviz.state.viewport import numbered_token
from attnviz.ui import head_grid, viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.head_charts import show_mosaic
from attnviz.ui.head_controls import open_head
from attnviz.ui.markdown import plain
from attnviz.ui.widget_values import set_field_value
from attnviz.views.head_aggregate import aggregate_map, stack_name
from attnviz.views.selected_maps import HeadMap, selected_thumbnails

HEIGHT = 430
BARS = 20  # that have room for their names on a phone


def show(selection: ModelSelection) -> None:
    """Draws the heads to choose from, their map, and the sum of the chosen rows. Raises ValueError if they take too
    much work, or cannot be aggregated."""
    method = draw(ModelsState.aggregation, widget=st.segmented_control, label_visibility="collapsed")
    state, notes = selection.state.updated(aggregation=method), st.container()
    if len(state.stack) < len(similar_layers(selection.layers, selection.index)):
        name = plain(selection.layer.name)
        notes.caption(_("For a text of this length, these are the heads of {name}: all would be too many.", name=name))
    mosaic = replace(selection, all_layers=len(state.stack) > 1)  # of the stack
    left, right = head_grid.two_places(mosaic.tiles, 0.36)
    with left:
        state = _choose(mosaic, state)
    head_map = aggregate_map(selection, state.stack, state.aggregated_heads, method)
    below = st.columns([0.36, 0.64], gap="medium")
    with below[0]:
        queries = draw(ModelsState.summed_tokens, state, placeholder=_("Choose, or click"), select_all=False)

    def click_cell(row: int, column: int) -> None:
        query = _query_at(head_map, row, column)
        if query is not None:
            set_field_value(ModelsState.summed_tokens, tuple(sorted({*queries} ^ {query})), state)

    with right:
        st.html(html.summary(head_map.title) + html.note(_(METHODS[method].about)))
        picture = _picture(selection, head_map, method, queries).with_about(
            label=_("{method} of attention", method=_(method)), hint=_("Click to choose a query.")
        )
        chart(
            picture, "together-map", height=HEIGHT, on_click=click_cell, on_zoom=viewport_sliders.on_zoom(head_map)
        )  # fmt: skip
    _show_sum(selection, head_map, method, queries, below)


def _choose(selection: ModelSelection, state: ModelsState) -> ModelsState:
    """Draws the menu and the mosaic of heads; returns the state with the heads that are aggregated."""
    method, stack = state.aggregation, state.stack
    by_hand = METHODS[method].aggregate is not None
    if method == ROLLOUT:
        state = state.updated(rollout_to=draw(ModelsState.rollout_to, state, st.select_slider))
    else:
        # The menu stays where nothing is to be chosen in it, so that the charts below it stay too.
        placeholder = _("As the layer and the head are chosen")
        if by_hand:
            name = stack_name(selection, stack)
            placeholder = _("All heads of {stack}", stack=name) if name else _("All heads")
        picked = draw(ModelsState.chosen_heads, state, select_all=False, disabled=not by_hand, placeholder=placeholder)
        state = state.updated(chosen_heads=picked)
    chosen = [] if by_hand and not state.chosen_heads else state.aggregated_heads

    def click_head(index: int, head: int) -> None:
        if by_hand:
            by_name = head_choices(selection.layers, stack)
            names = layer_head_names(selection.layers, {*chosen} ^ {(index, head)})
            set_field_value(ModelsState.chosen_heads, tuple(by_name[name] for name in names), state)
        elif method == ROLLOUT:
            set_field_value(ModelsState.rollout_to, index, state)
        else:
            open_head(selection.layers, index, head)

    if is_affordable(stack_work(selection.layers, stack)):
        thumbnails = selected_thumbnails(selection)
        show_mosaic(
            selection,
            thumbnails,
            selection.colors.end([thumbnails]),
            "together-heads",
            framed=chosen,
            height=HEIGHT,
            hint=_("Click to choose")
            if by_hand
            else _("Click for the last layer")
            if method == ROLLOUT
            else _("Click a head to open it."),
            label=_("Heads to choose from"),
            about=_("The menu above chooses, too."),
            on_click=click_head,
        )
    else:
        st.caption(_("Small maps of all these heads would take too long on a text of this length."))
    return state


def _query_at(head_map: HeadMap, row: int, column: int) -> int | None:
    """Returns the position of the query of a cell, or of the label of a row; None if the row has several."""
    if column >= 0:
        place = head_map.position_at(row, column)
        return place[0] if place else None
    return head_map.queries[row] if _has_single_rows(head_map) else None


def _has_single_rows(head_map: HeadMap) -> bool:
    """Returns whether each row is one query."""
    return len(head_map.queries) == len(head_map.weights)


def _picture(selection: ModelSelection, head_map: HeadMap, method: str, queries: Sequence[int]) -> Chart[HeatmapSpec]:
    """Returns the map with marks at the chosen queries."""
    is_share = method != VALUE_WEIGHTED
    end = selection.colors.end([head_map.weights]) if is_share else largest_weight([head_map.weights])
    picture = head_map.chart(largest=end)
    if not _has_single_rows(head_map):
        return picture
    return mark_queries(picture, [row for row, query in enumerate(head_map.queries) if query in queries])


def _show_sum(
    selection: ModelSelection,
    head_map: HeadMap,
    method: str,
    queries: Sequence[int],
    places: Sequence[DeltaGenerator],
) -> None:
    """Draws the sum of the chosen rows as text and as bars."""
    if not queries:
        with places[1]:
            st.caption(_("Choose tokens, or click rows of the map: what they look at together is summed up here."))
        return
    inputs = head_map.inputs
    total = aggregate_queries(head_map.exact_rows(queries), range(len(queries)))
    key_tokens = [numbered_token(inputs, inputs.key_tokens, i) for i in selection.keys]
    strongest = [(key_tokens[key], number(weight)) for key, weight in strongest_keys(total)]
    most = _("nothing")
    if strongest:
        most = _(METHODS[method].total, weight=strongest[0][1], key=visible(strongest[0][0]))
    tokens = " + ".join(visible(numbered_token(inputs, inputs.query_tokens, query)) for query in queries)
    with places[0]:
        st.html(html.summary(f"{tokens}: {most}.") + html.strongest(strongest))
    keys = sorted(key for key, weight in strongest_keys(total, BARS))
    weights = total.nan_to_num(0)
    bars = row_bars(
        total.numpy()[keys],
        [key_tokens[key] for key in keys],
        lowest=min(0.0, float(weights.min())),
        highest=float(weights.max()) or 1.0,
    )
    with places[1]:
        bars = bars.with_about(
            label=_("What the chosen tokens look at"),
            description=_("Sums of {count} rows of the map, for each key.", count=len(queries)),
        )
        chart(bars, "together-sum", height=240)
