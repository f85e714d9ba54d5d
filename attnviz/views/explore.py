"""What Explore shows: the heads of a layer or of all layers, the map of the selected one, and what its pinned query
looks at."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import Aggregate, Special, empty_rows, hidden_mass, strongest_keys
from attnviz.analysis.head_metrics import First, HeadMetric, Previous, head_metrics
from attnviz.analysis.work import check_work, heads_work
from attnviz.base.formatting import SPACE, grouped, number, numbered_tokens, visible
from attnviz.base.language import N_, _, value_error
from attnviz.base.link import Link
from attnviz.base.turns import is_heavy
from attnviz.figures import cell_sentence
from attnviz.figures.sentences import EMPTY_ROW
from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.mechanism import Mechanism
from attnviz.page import html
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Control,
    Download,
    Figure,
    HeadQuestion,
    Listing,
    Note,
    Prediction,
    Row,
    Summary,
    Table,
)
from attnviz.page.head_numbers import HeadNumbers
from attnviz.result_cache import result_cache
from attnviz.state.explore import ExploreState
from attnviz.state.long_map_state import LongMapState
from attnviz.state.selection import Selection
from attnviz.views.head_mosaic import head_mosaic, head_of_tile, moved_part
from attnviz.views.head_view import HeadView, head_view
from attnviz.views.long_map_blocks import map_zooms, pinned_curve, search_blocks, viewport_link
from attnviz.views.selected_maps import HeadMap, map_files, map_panel, row_weights

HEIGHT = 470  # pixels
MOST_NUMBERS = 4096  # in a table
QUESTIONS: dict[str, HeadMetric] = {
    N_("the previous-token head"): Previous(),
    N_("the one that gives most to the first token"): First(),
}
WHY_THERE, UNPINNED = N_("Why there?"), N_("Click a row of the map to read what it looks at.")


def explore(state: ExploreState) -> Iterator[Block]:
    """Yields the mosaic of heads, the map of the selected one, and what its pinned query looks at. Raises ValueError
    if they take too much work, or nothing is left to show."""
    selection = state.selection
    if selection.layer.locked:
        yield Note(selection.layer.locked_reason)
    yield from search_blocks(state)
    view, row = head_view(selection), state.pinned
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
    yield from _side_by_side(view.selection, _heads(state, view), map_figure(state, view, row))


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


def _side_by_side(selection: Selection, heads: Figure, picture: Figure) -> Iterator[Block]:
    """Yields both figures beside each other, or below each other where layers run from left to right."""
    count, tiles = selection.inputs.heads, selection.tiles
    if tiles.is_wide:
        yield heads
        yield picture
        return
    # Twelve heads in a row fit beside a map that has its lines beside it on a laptop.
    left = 0.45 if count > 16 else 0.38 if count > 8 and tiles.layers > 1 else 0.32
    yield Columns([(left, [heads]), (1 - left, [picture])])


def map_figure(state: LongMapState, view: HeadView, row: int | None, *, fan: bool = True) -> Figure:
    """Returns the map of the selected head, where a click pins a query: with the lines of the pinned row beside it, if
    wanted."""
    selection, head_map, is_whole = view.selection, view.head_map, view.is_whole

    def opens(cell_row: int, column: int) -> Link | None:
        if is_whole:
            return state.row_link(cell_row)
        place = head_map.position_at(cell_row, column) if column >= 0 else None  # the name of a row is of several
        return None if place is None else state.row_link(selection.queries.index(place[0]))

    picture = head_map.chart(largest=view.map_end, fan=fan and is_whole)
    reading = map_reading(head_map, row) if is_whole and row is not None else ""
    picture = picture.with_about(
        description=f"{picture.about.description} {reading}".strip(),
        hint=_("Point at a cell to read it, click to pin its query."),
    )
    links = view.score_links if is_whole else None
    if links is not None:
        queries, keys = [links.queries[i] for i in head_map.queries], [links.keys[i] for i in head_map.keys]
        links = replace(links, queries=queries, keys=keys)
    panels, zooms = [map_panel(head_map, selection.title, row)], None if is_whole else map_zooms(state, head_map)
    pinned = row if is_whole else None
    return Figure(picture, "heatmap", HEIGHT, opens, panels, pinned=pinned, score_links=links, zooms=zooms, grows=True)


def _heads(state: ExploreState, view: HeadView) -> Figure:
    """Returns the small maps of all heads, or one number for each."""
    selection, link = view.selection, partial(_head_link, state)
    if state.color_by is not None:
        indices = selection.mosaic_layers
        metric, ids = state.color_by, [selection.layers[i].id for i in indices]
        largest = 1.0 if metric.unit == "share" else None
        numbers = HeadNumbers(_(metric.name), ids, _metric_of_heads(selection, metric)[indices], largest=largest)
        place = indices.index(selection.index)
        chosen = (place, selection.head) if isinstance(selection.head, int) else None
        hint = _("Click a head to open it.")
        return numbers.grid("heads", hint, lambda place: link(indices[place[0]], place[1]), chosen)
    return heads_figure(state, view)


def heads_figure(state: LongMapState, view: HeadView) -> Figure:
    """Returns the small maps of all heads, where a click opens one."""
    selection = view.selection
    picture = head_mosaic(selection, view.thumbnails, view.mosaic_end, hint=_("Click a head to open it."))
    picture = picture.with_about(
        label=_("Mosaic"), description=f"{picture.about.description} {_('The head menu opens one.')}"
    )

    def opens(row: int, column: int) -> Link | None:
        part = moved_part(selection, picture.spec, row, column)
        if part is not None:
            return viewport_link(state, *part)
        head = head_of_tile(selection, picture.spec, row, column)
        return None if head is None else _head_link(state, *head)

    return Figure(picture, "heads", HEIGHT, opens, grows=True)


def _head_link(state: LongMapState, index: int, head: int) -> Link | None:
    """Returns the link of a head of a layer; None if it has no such head."""
    return None if head >= state.layers[index].inputs.heads else state.link_with(layer=index, head=head)


def strongest_blocks(view: HeadView, row: int) -> Iterator[Block]:
    """Yields the keys with the largest weights of the pinned query: the first as a sentence, all as a list."""
    selection, head_map = view.selection, view.head_map
    best = strongest_keys(row_weights(selection, head_map, row))
    name, query = selection.shown_query(row), visible(head_map.inputs.query_tokens[selection.queries[row]])
    numbers = partial(pinned_quantities, selection, head_map, row)
    if not best:
        yield Summary(_("{query_name} may look at nothing.", query_name=visible(name)), numbers, query)
        return
    keys = [(selection.shown_key(key), weight) for key, weight in best]
    sentence: list[object] = [cell_sentence(name, *keys[0], head_map.sentences.allowed)]
    if links := view.score_links:
        link = links.link(selection.queries[row], selection.keys[best[0][0]])
        sentence += [" ", Anchor(_(WHY_THERE), link, "why", "attnviz-page-link")]
    yield Summary(tuple(sentence), numbers, query)
    items = [(html.token(key), " ", number(weight)) for key, weight in keys]
    yield Listing(items, _("Keys with the largest weights"), "attnviz-row attnviz-strongest")


def map_reading(head_map: HeadMap, row: int) -> str:
    """Returns the sentence of the largest weight of a row."""
    best, token = strongest_keys(torch.from_numpy(head_map.weights[row]), 1), head_map.query_tokens[row]
    if not best:
        return _(EMPTY_ROW, query=visible(token))
    return cell_sentence(token, head_map.key_tokens[best[0][0]], best[0][1], head_map.sentences.allowed)


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


def pinned_quantities(selection: Selection, head_map: HeadMap, row: int) -> Quantities:
    """Returns the quantities of one of the shown queries, at all keys that are shown."""
    tokens = [head_map.inputs.key_tokens[i] for i in selection.keys]  # of all, where a part is in view
    return row_quantities(tokens, row_weights(selection, head_map, row).numpy())
