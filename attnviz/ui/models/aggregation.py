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
from attnviz.language import N_, _
from attnviz.layer import Layer
from attnviz.ui import html
from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.head_charts import show_mosaic
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_map import HeadMap, selected_thumbnails
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.models.head_aggregate import (
    METHODS,
    ROLLOUT,
    VALUE_WEIGHTED,
    LayerHead,
    aggregate_map,
    layer_head_name,
    layer_head_names,
    of_stack,
)
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.selection import similar_layers
from attnviz.ui.viewport import numbered_token

METHOD, HEADS, TOKENS = "together", "heads-together", "tokens-together"  # of widgets, and in the link
ROLLOUT_LAYER = "rollout-to"
HEIGHT = 430
BARS = 20  # that have room for their names on a phone


def show(selection: ModelSelection) -> None:
    """Draws the heads to choose from, their map, and the sum of the chosen rows."""
    method = st.segmented_control(
        _("Taken together"), list(METHODS), default=N_("Mean"), required=True, key=METHOD, bind="query-params",
        format_func=names_of(METHOD, METHODS),
        label_visibility="collapsed",
      ) or "Mean"  # a link may say nothing  # fmt: skip
    stack, notes = similar_layers(selection.layers, selection.index), st.container()
    if METHODS[method].aggregate and not _is_affordable(selection, stack):
        stack = [selection.index]
        notes.caption(
            _("Of so long a text these are the heads of {name}: all would be too many.").format(
                name=plain(selection.layer.name)
            )
        )
    left, right = st.columns([0.36, 0.64], gap="medium")
    with left:
        heads = _choose(selection, stack, method)
    try:
        head_map = aggregate_map(selection, stack, heads, method)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    names = selection.query_names
    below = st.columns([0.36, 0.64], gap="medium")
    with below[0]:
        # Their names hold their positions, so that a choice stays with its tokens when the text changes elsewhere.
        tokens = st.multiselect(
            _("Tokens"), names, key=TOKENS, bind="query-params", placeholder=_("Choose, or click"), select_all=False
        )
    queries = [selection.queries[names.index(token)] for token in tokens]

    def click_cell(row: int, column: int) -> None:
        query = _query_at(head_map, row, column)
        if query is not None:
            _toggle(names[selection.queries.index(query)])

    with right:
        st.html(html.summary(head_map.title) + html.note(_(METHODS[method].about)))
        chart(
            _picture(selection, head_map, method, queries),
            "together-map",
            label=_("{method} of attention").format(method=_(method)),
            name=_("attention {title}").format(title=head_map.title),
            description=f"{head_map.title}: {head_map.size}.",
            height=HEIGHT,
            hint=_("Click to choose a query."),
            on_click=click_cell,
            on_view=head_map.on_view,
        )
    _show_sum(selection, head_map, method, queries, below)


def head_choices(layers: Sequence[Layer], stack: Sequence[int]) -> dict[str, list[LayerHead]]:
    """Returns the choices by name: whole layers, and single heads."""
    by_name: dict[str, list[LayerHead]] = {}
    for i in stack:
        heads = [(i, head) for head in range(layers[i].inputs.heads)]
        by_name |= {layers[i].name: heads} | {f"{layers[i].name}, head {head}": [(i, head)] for i, head in heads}
    return by_name


def _choose(selection: ModelSelection, stack: Sequence[int], method: str) -> list[LayerHead]:
    """Draws the menu and the mosaic of heads; returns the heads that are aggregated."""
    by_hand, by_name = METHODS[method].aggregate is not None, head_choices(selection.layers, stack)
    every = [head for i in stack for head in by_name[selection.layers[i].name]]
    if method == ROLLOUT:
        last = _choose_last_layer(selection.layers, stack)
        chosen = [head for head in every if head[0] <= last]
    else:
        # The menu stays where nothing is to be chosen in it, so that the charts below it stay too.
        picked = st.multiselect(
            _("Heads"),
            list(by_name),
            key=HEADS,
            bind="query-params",
            format_func=names_of(HEADS, by_name, layer_head_name),
            select_all=False,
            disabled=not by_hand,
            placeholder=_("All heads{of_stack}").format(of_stack=of_stack(selection, stack))
            if by_hand
            else _("As the layer and the head are chosen"),
        )
        chosen = sorted({head for one in picked for head in by_name[one]})
    if method == VALUE_WEIGHTED:
        is_one = isinstance(selection.head, int)
        chosen = [head for head in by_name[selection.layer.name] if not is_one or head[1] == selection.head]

    def click_head(index: int, head: int) -> None:
        if by_hand:
            st.session_state[HEADS] = layer_head_names(selection.layers, {*chosen} ^ {(index, head)})
        elif method == ROLLOUT:
            st.session_state[ROLLOUT_LAYER] = selection.layers[index].name
        else:
            open_head(selection.layers, index, head)

    if _is_affordable(selection, stack):
        # The layers of the stack are those of a mosaic of all layers.
        thumbnails = selected_thumbnails(mosaic := replace(selection, all_layers=len(stack) > 1))
        show_mosaic(
            mosaic,
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
            about=_("the menu above chooses, too"),
            on_click=click_head,
        )
    else:
        st.caption(_("Small maps of all these heads would take too long on so long a text."))
    return chosen or every


def _choose_last_layer(layers: Sequence[Layer], stack: Sequence[int]) -> int:
    """Draws the slider of the last layer of a rollout, and returns its index."""
    names = [layers[i].name for i in stack]
    if len(stack) == 1:
        return stack[0]
    if st.session_state.get(ROLLOUT_LAYER, names[-1]) not in names:  # of another model
        st.session_state[ROLLOUT_LAYER] = names[-1]
    name = st.select_slider(_("Through the layers, up to"), names, names[-1], key=ROLLOUT_LAYER, bind="query-params",
        format_func=names_of(ROLLOUT_LAYER, names),
    )  # fmt: skip
    return stack[names.index(name)]


def _is_affordable(selection: ModelSelection, stack: Sequence[int]) -> bool:
    inputs = selection.layer.inputs
    return is_affordable(inputs.queries * inputs.keys * inputs.heads * len(stack))


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
        most = _(METHODS[method].total).format(weight=strongest[0][1], key=visible(strongest[0][0]))
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
        chart(
            bars,
            "together-sum",
            label=_("What the chosen tokens look at"),
            name=_("attention of {count} tokens").format(count=len(queries)),
            description=_("Sums of {count} rows of the map, for each key.").format(count=len(queries)),
            height=240,
            grows=False,
        )


def _toggle(token: str) -> None:
    """Adds a token to the chosen ones, or removes it."""
    chosen = st.session_state[TOKENS]
    st.session_state[TOKENS] = [one for one in chosen if one != token] if token in chosen else [*chosen, token]
