"""The selected head among the heads of its mosaic, as Explore and Write draw it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import strongest_keys
from attnviz.base.formatting import number, visible
from attnviz.base.language import N_, _
from attnviz.base.link import Link
from attnviz.figures.sentences import EMPTY_ROW, CellSentences, cell_sentence
from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.page import html
from attnviz.page.blocks import Anchor, Block, Columns, Figure, Listing, ScoreLinks, Summary
from attnviz.page.head_mosaic import head_mosaic, head_of_tile, moved_part
from attnviz.page.long_map_blocks import map_zooms, viewport_link
from attnviz.page.long_map_state import LongMapState
from attnviz.page.selected_maps import HeadMap, map_panel, row_weights, selected_map, selected_thumbnails
from attnviz.page.selection import Selection

HEIGHT = 470  # pixels
WHY_THERE = N_("Why there?")
HIDDEN = N_("{query} may not look at {key}, or it is still to be predicted.")
HIDDEN_ROW = N_("What {query} looks at is still to be predicted, or there is nothing.")


@dataclass(frozen=True, eq=False)
class HeadView:
    """A selection with the map of its head, and small maps of all heads in its mosaic."""

    selection: Selection
    head_map: HeadMap
    thumbnails: Float[np.ndarray, "heads height width"]  # layer by layer
    score_links: ScoreLinks | None = None  # to why the head looks somewhere, where Why can be asked

    @property
    def is_whole(self) -> bool:
        """Whether a cell of the map is one query and one key."""
        return self.head_map.downsampled is None

    @property
    def mosaic_end(self) -> float:
        """The upper end of the colors of the mosaic."""
        own = self.head_map.weights if self.is_whole else self.thumbnails
        return self.selection.colors.end([own], [self.thumbnails])

    @property
    def map_end(self) -> float:
        """The upper end of the colors of the map. Of a long text most weights are small among thousands of keys: its
        map has a range of its own."""
        return self.mosaic_end if self.is_whole else self.selection.colors.end([self.head_map.weights])

    def without_row(self, row: int | None) -> "HeadView":
        """Returns the view without the weights of a row that is still to be predicted, so that they are not sent to
        the browser."""
        if row is None:
            return self
        weights = self.head_map.weights.copy()
        weights[row] = np.nan
        sentences = CellSentences(self.head_map.sentences.allowed, HIDDEN, HIDDEN_ROW)
        hidden = replace(self.head_map, weights=weights, sentences=sentences)
        return replace(self, head_map=hidden, thumbnails=hide_thumbnail_rows(self.thumbnails, len(weights), row))


def head_view(selection: Selection, links: ScoreLinks | None = None) -> HeadView:
    """Returns the maps of a selection, with links to why its head looks somewhere. Raises ValueError if they take too
    much work, or nothing is left to show."""
    return HeadView(selection, selected_map(selection), selected_thumbnails(selection), links)


def map_figure(state: LongMapState, view: HeadView, row: int | None, *, fan: bool = True, link: str = "") -> Figure:
    """Returns the map of the selected head, where a click pins a query: with the lines of the pinned row beside it, if
    wanted. Charts of one `link` show the same row."""
    selection, head_map, is_whole = view.selection, view.head_map, view.is_whole

    def opens(cell_row: int, column: int) -> Link | None:
        if is_whole:
            return state.row_link(cell_row)
        place = head_map.position_at(cell_row, column) if column >= 0 else None  # the name of a row is of several
        return None if place is None else state.row_link(selection.queries.index(place[0]))

    picture = head_map.chart(largest=view.map_end, link=link, fan=fan and is_whole)
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


def heads_figure(
    state: LongMapState, view: HeadView, of_row: Float[np.ndarray, "heads height width"] | None = None
) -> Figure:
    """Returns the small maps of all heads, or what each gives in one row, where a click opens one."""
    selection = view.selection
    thumbnails, end = view.thumbnails, view.mosaic_end
    if of_row is not None:
        thumbnails, end = of_row, float(np.nanmax(of_row, initial=0)) or 1.0
    picture = head_mosaic(selection, thumbnails, end, hint=_("Click a head to open it."))
    picture = picture.with_about(
        label=_("Mosaic"), description=f"{picture.about.description} {_('The head menu opens one.')}"
    )

    def opens(row: int, column: int) -> Link | None:
        part = moved_part(selection, picture.spec, row, column)
        if part is not None:
            return viewport_link(state, *part)
        head = head_of_tile(selection, picture.spec, row, column)
        return None if head is None else head_link(state, *head)

    return Figure(picture, "heads", HEIGHT, opens, grows=True)


def heads_and_map(
    selection: Selection, heads: Figure, picture: Figure, second: Figure | None = None
) -> Iterator[Block]:
    """Yields the small maps of all heads, one or two figures beside each other, or below each other where layers run
    from left to right."""
    count, tiles = selection.inputs.heads, selection.tiles
    if tiles.is_wide:
        yield heads
        yield picture if second is None else Columns([(0.5, [second]), (0.5, [picture])])
        return
    # Twelve heads in a row fit beside a map that has its lines beside it on a laptop.
    left = 0.45 if count > 16 else 0.38 if count > 8 and tiles.layers > 1 else 0.32
    others = [(1 - left, [picture])] if second is None else [((1 - left) / 2, [one]) for one in (second, picture)]
    yield Columns([(left, [heads]), *others])


def head_link(state: LongMapState, index: int, head: int) -> Link | None:
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
        sentence += [] if links.in_general is None else [" ", links.in_general]
    yield Summary(tuple(sentence), numbers, query)
    items = [(html.token(key), " ", number(weight)) for key, weight in keys]
    yield Listing(items, _("Keys with the largest weights"), "attnviz-row attnviz-strongest")


def map_reading(head_map: HeadMap, row: int) -> str:
    """Returns the sentence of the largest weight of a row."""
    best, token = strongest_keys(torch.from_numpy(head_map.weights[row]), 1), head_map.query_tokens[row]
    if not best:
        return _(EMPTY_ROW, query=visible(token))
    return cell_sentence(token, head_map.key_tokens[best[0][0]], best[0][1], head_map.sentences.allowed)


def pinned_quantities(selection: Selection, head_map: HeadMap, row: int) -> Quantities:
    """Returns the quantities of one of the shown queries, at all keys that are shown."""
    tokens = [head_map.inputs.key_tokens[i] for i in selection.keys]  # of all, where a part is in view
    return row_quantities(tokens, row_weights(selection, head_map, row).numpy())


def hide_thumbnail_rows(
    maps: Float[np.ndarray, "heads height width"], queries: int, row: int
) -> Float[np.ndarray, "heads height width"]:
    """Returns thumbnails without the cells of one query, by the cells of a downsampled map."""
    height = maps.shape[1]
    hidden = maps.copy()
    hidden[:, [i for i in range(height) if i * queries // height <= row < (i + 1) * queries // height]] = np.nan
    return hidden
