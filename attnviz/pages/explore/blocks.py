"""What Explore shows: the heads of a layer or of all layers, the map of the selected one, and what its pinned query
looks at."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import Aggregate, Special, empty_rows, hidden_mass
from attnviz.analysis.head_metrics import First, HeadMetric, Previous, head_metrics
from attnviz.analysis.work import check_work, heads_work
from attnviz.base.formatting import SPACE, grouped, number, numbered_tokens, visible
from attnviz.base.language import N_, _, value_error
from attnviz.base.turns import is_heavy
from attnviz.mechanism import Mechanism
from attnviz.page.blocks import (
    Block,
    Caption,
    Control,
    Download,
    Figure,
    HeadQuestion,
    Note,
    Prediction,
    Row,
    Table,
)
from attnviz.page.head_numbers import HeadNumbers
from attnviz.page.head_view import (
    HeadView,
    head_link,
    head_view,
    heads_and_map,
    heads_figure,
    map_figure,
    strongest_blocks,
)
from attnviz.page.long_map_blocks import pinned_curve, search_blocks
from attnviz.page.model_picture import patches_of_heads, picture_of_model
from attnviz.page.result_cache import result_cache
from attnviz.page.selected_maps import HeadMap, map_files
from attnviz.page.selection import Selection
from attnviz.pages.explore.state import ExploreState
from attnviz.pages.why.links import selection_links

MOST_NUMBERS = 4096  # in a table
QUESTIONS: dict[str, HeadMetric] = {
    N_("the previous-token head"): Previous(),
    N_("the one that gives most to the first token"): First(),
}
HEAD = "head"  # the link of its map and the picture
UNPINNED = N_("Click a row of the map to read what it looks at.")


def explore(state: ExploreState) -> Iterator[Block]:
    """Yields the mosaic of heads, the map of the selected one, and what its pinned query looks at. Raises ValueError
    if they take too much work, or nothing is left to show."""
    selection = state.selection
    if selection.layer.locked:
        yield Note(selection.layer.locked_reason)
    yield from search_blocks(state)
    view, row = head_view(selection, selection_links(selection)), state.pinned
    above, below = partial(_pictures, state, view, row), partial(_numbers, state, view, row)
    if state.predict and view.is_whole and row is not None:
        query, weights = view.head_map.query_tokens[row], view.head_map.weights[row]
        yield Prediction(query, view.head_map.key_tokens, weights, above, below)
    else:
        yield from above(is_known=True)
        yield from below(is_known=True)
    for name, metric in QUESTIONS.items():
        yield HeadQuestion(_(name), partial(_light_metric, selection, metric))
    yield Caption(
        _(
            "**What you are seeing.** Each row is a token that looks, a *query*; each column a token "
            "that can be looked at, a *key*. The color of a cell is the share of the query's attention "
            "that goes to the key: after a softmax a row adds up to 1. Gray cells are masked: the "
            "query may not look there. A layer has several *heads*, each with queries and keys of its "
            "own; the small maps show them all."
        )
    )


def _pictures(state: ExploreState, view: HeadView, row: int | None, is_known: bool) -> Iterator[Block]:
    """Yields both figures, without a row that is still to be predicted."""
    if not is_known:
        view, row = view.without_row(row), None
    second = picture_of_model(state, view.head_map, row, HEAD)
    link = "" if second is None else HEAD
    picture = map_figure(state, view, row, fan=second is None, link=link)
    of_row = None if second is None or row is None else patches_of_heads(view.selection, row)
    yield from heads_and_map(view.selection, _heads(state, view, of_row), picture, second)
    if of_row is not None and row is not None and state.color_by is None:
        yield Note(
            _(
                "The small images are what {query} looks at in each head. Patches are named by row and column, counted "
                "from 0.",
                query=visible(view.selection.shown_query(row)),
            )
        )


def _numbers(state: ExploreState, view: HeadView, row: int | None, is_known: bool) -> Iterator[Block]:
    """Yields what the pinned query looks at, notes on the map, and its numbers as a table and as files."""
    selection = view.selection
    if row is None:
        yield Note(_("Pin a query to predict where it looks.") if state.predict and view.is_whole else _(UNPINNED))
    elif is_known:
        yield from strongest_blocks(view, row)
    if not view.is_whole and row is not None:
        yield from pinned_curve(state, view.head_map, row)
    if view.is_whole:
        yield from map(Note, notes(selection, view.head_map))
    shown = view if is_known else view.without_row(row)
    files = map_files(shown.head_map, lambda: map_figure(state, shown, None).picture, selection.source.weights_note)
    controls: list[Block] = [Control(ExploreState.predict, state)] if view.is_whole else []
    yield Row([*controls, Control(ExploreState.table, state), Download(files)], "explore-below")
    if state.table:
        yield _table(shown.head_map)


def _heads(
    state: ExploreState, view: HeadView, of_row: Float[np.ndarray, "heads height width"] | None = None
) -> Figure:
    """Returns the small maps of all heads, or one number for each."""
    selection, link = view.selection, partial(head_link, state)
    if state.color_by is not None:
        indices = selection.mosaic_layers
        metric, ids = state.color_by, [selection.layers[i].id for i in indices]
        largest = 1.0 if metric.unit == "share" else None
        numbers = HeadNumbers(_(metric.name), ids, _metric_of_heads(selection, metric)[indices], largest=largest)
        place = indices.index(selection.index)
        chosen = (place, selection.head) if isinstance(selection.head, int) else None
        hint = _("Click a head to open it.")
        return numbers.grid("heads", hint, lambda place: link(indices[place[0]], place[1]), chosen)
    return heads_figure(state, view, of_row)


def _metric_of_heads(selection: Selection, metric: HeadMetric) -> Float[np.ndarray, "layers heads"]:
    """Returns a metric of all heads; NaN where it is not defined. Raises ValueError if that takes too long."""
    layers = selection.layers
    work = heads_work(layers)
    check_work(work, _("To measure all heads"), _("Shorten the text, or see the page Heads."))
    key = "head metrics", selection.source, [layer.mechanism for layer in layers], metric.name
    table = result_cache().once(partial(head_metrics, layers, metrics=[metric]), *key, work=work)
    values = np.full((len(layers), max(layer.inputs.heads for layer in layers)), np.nan)
    values[table.layers, table.heads] = table.values[metric.name]
    return values


def _light_metric(selection: Selection, metric: HeadMetric) -> Float[np.ndarray, "layers heads"]:
    """Returns a metric of all heads for a question. Raises ValueError if that takes long, as each run of a teacher
    asks."""
    if is_heavy(heads_work(selection.layers)):
        raise value_error("The metrics of all heads take too long.")
    return _metric_of_heads(selection, metric)


def _table(head_map: HeadMap) -> Block:
    weights = head_map.weights
    if weights.size > MOST_NUMBERS:
        return Note(_("A table of this map would have {count} numbers. Download them.", count=grouped(weights.size)))
    queries = numbered_tokens(head_map.queries, head_map.query_tokens)
    headings = [_("query"), *map(visible, head_map.key_tokens)]
    rows = [
        (query, *("" if np.isnan(weight) else number(float(weight)) for weight in row))
        for query, row in zip(queries, weights, strict=True)
    ]
    return Table(headings, rows)


def notes(selection: Selection, head_map: HeadMap) -> list[str]:
    """Returns notes on hidden special tokens, spaces and empty rows of a whole map."""
    weights = torch.from_numpy(head_map.weights)
    inputs, mechanism = head_map.inputs, selection.layer.mechanism
    normalizer = mechanism.normalizer if isinstance(mechanism, Mechanism) else None
    texts: list[str] = [normalizer.row] if normalizer and normalizer.row else []
    if selection.special != Special.SHOWN and inputs.special_keys:
        hidden = _joined_tokens([inputs.key_tokens[i] for i in inputs.special_keys])
        if selection.special == Special.RESCALED and not (normalizer and normalizer.negative):
            texts.append(_("{hidden} are hidden, and each row is rescaled to the sum it had with them.", hidden=hidden))
        elif selection.head == Aggregate.MAXIMUM or not (normalizer and normalizer.adds_up):
            texts.append(_("{hidden} are hidden; the rows keep their weights.", hidden=hidden))
        else:
            share = number(hidden_mass(weights))
            texts.append(
                _(
                    "{hidden} are hidden; on average {share} of a query's attention is not shown.",
                    hidden=hidden,
                    share=share,
                )
            )
    if any(token != token.strip(" ") for token in (*head_map.query_tokens, *head_map.key_tokens)):
        texts.append(_("{space} is a space that is a part of its token.", space=SPACE))
    if empty := empty_rows(weights):
        few = _joined_tokens([head_map.query_tokens[row] for row in empty[:5]]) + (", …" if len(empty) > 5 else "")
        texts.append(
            _(
                "{count} of {queries} queries may look at no key shown: {few}.",
                count=len(empty),
                queries=len(weights),
                few=few,
            )
        )
    return texts


def _joined_tokens(tokens: Sequence[str]) -> str:
    return ", ".join(visible(token) for token in tokens)
