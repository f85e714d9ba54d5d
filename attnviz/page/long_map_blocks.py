"""What is shown beside the map of a long text: where a phrase is, and the pinned query at all keys."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import torch

from attnviz.analysis.head_maps import strongest_keys
from attnviz.analysis.map_cells import peak_positions
from attnviz.analysis.token_context import find_phrase, token_context
from attnviz.base.formatting import grouped, quoted, visible
from attnviz.base.language import _, plural
from attnviz.base.link import Link
from attnviz.figures.query_curve import query_curve
from attnviz.inputs import MapAxes
from attnviz.page import html
from attnviz.page.blocks import Anchor, Block, Cells, Columns, Figure, Note, Paragraph
from attnviz.page.long_map_state import LongMapState
from attnviz.page.selected_maps import HeadMap, row_weights
from attnviz.page.viewport import numbered_token

CLOSE = 512  # positions of each axis in view around one of them
HEIGHT = 190  # pixels of the curve


def viewport_link(state: LongMapState, queries: slice | None, keys: slice | None, **values: object) -> Link:
    """Returns the link of a state in which these positions are in view; None leaves an axis as it is."""
    for name, part in (("part_of_queries", queries), ("part_of_keys", keys)):
        if part is not None:
            values[name] = (part.start, part.stop - 1)
    return state.link_with(**values)


def map_zooms(state: LongMapState, head_map: HeadMap) -> Callable[[Cells | None], Link]:
    """Returns what a zoom of the map of a long text opens."""
    return lambda cells: viewport_link(state, *head_map.positions_in(cells))


def around(position: int, count: int) -> slice:
    """Returns the CLOSE positions with this one in their middle, or nearest to it, of a text of `count`."""
    first = max(0, min(position - CLOSE // 2, count - CLOSE))
    return slice(first, min(first + CLOSE, count))


def search_blocks(state: LongMapState) -> Iterator[Block]:
    """Yields where a phrase is in a long text, with a link to the next place, which pins its query."""
    phrase, inputs = state.find, state.inputs
    if not phrase.strip():
        return
    queries, keys = matches(inputs, phrase)
    positions = queries or keys
    if not positions:
        yield Note(_("{phrase} is not in this text.", phrase=quoted(phrase)))
        return
    selection = state.selection
    row = state.values.get("pinned")
    pinned = None if row is None else selection.queries[row]
    keys_in_view = slice(state.part_of_keys[0], state.part_of_keys[1] + 1)
    current = [i for i, position in enumerate(positions) if queries and position == pinned]
    if not queries:
        current = [i for i, position in enumerate(positions) if around(position, inputs.keys) == keys_in_view]
    following = positions[(current[0] + 1) % len(positions)] if current else positions[0]
    values = {"pinned": selection.queries.index(following)} if queries and following in selection.queries else {}
    link = viewport_link(
        state,
        around(following, inputs.queries) if queries else None,
        around(following, inputs.keys) if keys else None,
        **values,
    )
    count = grouped(len(positions))
    text = plural("{count} match", "{count} matches", len(positions), count=count)
    if current:
        text = _("Match {index} of {count}", index=grouped(current[0] + 1), count=count)
    yield Paragraph((text, " ", Anchor(_("Next") if current else _("Go to the first"), link)))


def matches(inputs: MapAxes, phrase: str) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the matches among the queries, and those among the keys if they are the same text or no query matches."""
    queries = _positions(inputs.query_tokens, phrase)
    if inputs.query_tokens == inputs.key_tokens:
        return queries, queries
    return queries, () if queries else _positions(inputs.key_tokens, phrase)


@lru_cache(maxsize=8)  # every run of the page asks again
def _positions(tokens: tuple[str, ...], phrase: str) -> tuple[int, ...]:
    return tuple(find_phrase(tokens, phrase))


def pinned_curve(state: LongMapState, head_map: HeadMap, row: int) -> Iterator[Block]:
    """Yields the exact weights of one of the shown queries at all shown keys, where a click moves the part in view, and
    the text around the query and around the key with its largest weight."""
    selection, inputs = state.selection, head_map.inputs
    weights, query = row_weights(selection, head_map, row), selection.queries[row]
    if not len(weights):
        return
    peaks = peak_positions(weights)
    keys = [selection.keys[i] for i in peaks.tolist()]
    first, end = head_map.viewport.keys
    picture = query_curve(
        weights[peaks],
        torch.tensor(keys),
        numbered_token(inputs, inputs.query_tokens, query),
        [numbered_token(inputs, inputs.key_tokens, key) for key in keys],
        shaded=None if end is None else (first, end),
        scale=head_map.cell_colors.scale,
        allowed=head_map.sentences.allowed,
    ).with_about(
        name=_("attention of query {query} {title}", query=query, title=head_map.title),
        hint=_("All keys of the pinned query. Click one to go there."),
    )

    def opens(point: int, _column: int) -> Link:
        return viewport_link(state, around(query, inputs.queries), around(keys[point], inputs.keys))

    yield Figure(picture, "query-curve", HEIGHT, opens)
    best = strongest_keys(weights, 1)
    text = partial(context_blocks, _("The query in its text"), inputs.query_tokens, query)
    key_text = [] if not best else context_blocks(_("Its strongest key"), inputs.key_tokens, selection.keys[best[0][0]])
    yield Columns([(0.5, [*text()]), (0.5, [*key_text])])


def context_blocks(title: str, tokens: Sequence[str], position: int) -> Iterator[Block]:
    """Yields the text around a token, which is marked, under a title with its position."""
    context = token_context(tokens, position)
    yield Note(_("{title}, at {position}", title=title, position=grouped(position)))
    marked = html.element("bdi", context.before, html.element("mark", visible(context.token)), context.after)
    yield Paragraph(marked, "attnviz-context")
