"""What Side by side shows: a head on two texts or of two models, and the difference where tokens belong together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from attnviz.analysis.difference import difference
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import number, visible
from attnviz.base.language import N_, _, option_name
from attnviz.base.link import Link
from attnviz.effects.token_alignment import Alignment, alignment
from attnviz.figures.chart_spec import Chart, HeatmapSpec
from attnviz.figures.sentences import ChangeSentences
from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.page import html
from attnviz.page.blocks import AlignedTexts, Block, Caption, Columns, Figure, More, Note, Summary
from attnviz.page.color_range import largest_weight
from attnviz.page.head_difference import head_difference
from attnviz.page.selected_maps import HeadMap, map_panel, selected_map
from attnviz.page.token_columns import token_columns
from attnviz.pages.side_by_side.state import SideBySideState
from attnviz.sources import Model

LINK, MAP = "sides", 330  # pixels
Places: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # of rows and of columns
CHARTS = ("left-map", "right-map")
SAME = 1e-6  # of weights: rounding
MOST_TOKENS = 60  # of texts that stand above the maps
LEFT_AND_RIGHT = ChangeSentences(  # before is the left, after the right
    neither=N_("On neither side may {query} look at {key}."),
    kept=N_("{query} gives {after} of its attention to {key} on both sides."),
    reweighted=N_("{query} gives {before} of its attention to {key} on the left, {after} on the right."),
    removed=N_("{query} gives {before} of its attention to {key} on the left, and may not look at it on the right."),
    added=N_("{query} gives {after} of its attention to {key} on the right, and may not look at it on the left."),
)

MORE = N_(
    "The largest difference: {query} gives {key} {change} more of its attention on the right ({right}) than on the "
    "left ({left})."
)
LESS = N_(
    "The largest difference: {query} gives {key} {change} less of its attention on the right ({right}) than on the "
    "left ({left})."
)


@dataclass(frozen=True, eq=False)
class Sides:
    """The maps of both sides, and pairs (left, right) of their rows and of their columns that belong together."""

    left: HeadMap
    right: HeadMap
    rows: Alignment
    columns: Alignment

    @classmethod
    def from_state(cls, state: SideBySideState) -> "Sides":
        """Returns the sides of a state. Raises ValueError if a map cannot be computed."""
        left, right = selected_map(state.selection), selected_map(state.right_selection)
        by_id = _has_one_vocabulary(state)
        of_queries, of_keys = (
            (_compared_tokens(left, axis, by_id), _compared_tokens(right, axis, by_id)) for axis in ("query", "key")
        )
        rows, columns = shared_tokens(of_queries, of_keys)
        return cls(left, right, rows, columns)

    @property
    def is_compared(self) -> bool:
        """Whether there is a cell that both maps have."""
        return bool(self.rows and self.columns)

    @cached_property
    def aligned(self) -> tuple[HeadMap, HeadMap]:
        """The rows and columns of both maps that belong together."""
        rows, columns = (list(map(list, zip(*pairs, strict=True))) for pairs in (self.rows, self.columns))
        left, right = (
            replace(
                one,
                queries=[one.queries[row] for row in own_rows],
                keys=[one.keys[column] for column in own_columns],
                weights=one.weights[np.ix_(own_rows, own_columns)],
            )
            for one, own_rows, own_columns in zip((self.left, self.right), rows, columns, strict=True)
        )
        return left, right

    @cached_property
    def change(self) -> Float[np.ndarray, "rows columns"]:
        """The right map minus the left one, in the cells that belong together."""
        left, right = self.aligned
        return difference(left.weights, right.weights).numpy()

    @property
    def places(self) -> tuple[Places | None, Places | None, Places | None]:
        """Which of the shared rows and columns each row and column of the left map, the right one and their difference
        is, -1 for one of its own; None where all have the same rows and columns."""
        maps = ((one, side) for side, one in enumerate((self.left, self.right)))
        left, right = (
            (_places(self.rows, side, len(one.queries)), _places(self.columns, side, len(one.keys)))
            for one, side in maps
        )
        shared = (tuple(range(len(self.rows))), tuple(range(len(self.columns))))
        return (None, None, None) if left == right == shared else (left, right, shared)


def _places(pairs: Alignment, side: int, count: int) -> tuple[int, ...]:
    places = {pair[side]: place for place, pair in enumerate(pairs)}
    return tuple(places.get(i, -1) for i in range(count))


def side_by_side(state: SideBySideState) -> Iterator[Block]:
    """Yields both maps, and their difference where tokens belong together. Raises ValueError if a map cannot be
    computed."""
    sides = Sides.from_state(state)
    yield from map(Note, _not_on_the_right(state))
    yield _summary(state, sides)
    columns = token_columns(sides.left.key_tokens, sides.right.key_tokens, sides.columns)
    if sides.is_compared and any(column.kind != "same" for column in columns):
        tokens = ([*("–" if one is None else html.token(one) for one in (each.first, each.second))] for each in columns)
        texts = [(each.kind, left, right) for each, (left, right) in zip(columns, tokens, strict=True)]
        block = AlignedTexts((_("left"), _("right")), texts)
        yield block if len(texts) <= MOST_TOKENS else More(_("Which tokens belong together"), [block])
    pictures = _pictures(state, sides)
    yield Columns([(1 / len(pictures), blocks) for blocks in pictures])
    yield from map(Note, _left_out(sides))
    yield Caption(
        _(
            "**What you are seeing.** Both maps have one range of colors: equal colors are equal weights. The "
            "difference is of the cells whose query and key are in both texts, or at the same place of a part that is "
            "replaced. **What it does not say:** which of the words that differ has made the difference."
        )
    )


def _pictures(state: SideBySideState, sides: Sides) -> list[list[Block]]:
    """Returns the columns of the page: each side, and their difference if there is one."""
    end, to_left = largest_weight([sides.left.weights, sides.right.weights]), {j: i for i, j in sides.rows}
    pinned_right = None if state.pinned is None else dict(sides.rows).get(state.pinned)

    def opens_right(row: int, _column: int) -> Link | None:
        return state.row_link(to_left[row]) if row in to_left else None

    each_side = zip(
        (sides.left, sides.right), (state.cell_link, opens_right), (state.pinned, pinned_right), CHARTS, _titles(state),
        (_("Attention weights on the left"), _("Attention weights on the right")), sides.places, strict=False,
    )  # fmt: skip
    columns: list[list[Block]] = []
    for head_map, opens, pinned, name, title, label, places in each_side:
        picture = head_map.chart(largest=end, link=LINK if sides.is_compared else "")
        hint = _("Point at a cell: it is marked on both sides.") if sides.is_compared else picture.about.hint
        picture = picture.with_about(label=label, name=f"{picture.about.name} {label}", hint=hint)
        panel = map_panel(head_map, title, pinned)
        figure = Figure(_placed(picture, places), name, MAP, opens, [panel], pinned=pinned, title=title, grows="beside")
        columns.append([figure])
    return [*columns, _difference(state, sides)] if sides.is_compared else columns


def _difference(state: SideBySideState, sides: Sides) -> list[Block]:
    """Returns the right map minus the left one, of the rows and columns that belong together."""
    rows = [row for row, _other in sides.rows]
    picture = head_difference(
        *sides.aligned, charts=CHARTS, names=(_("left"), _("right")), sentences=LEFT_AND_RIGHT, link=LINK
    ).with_about(
        label=_("What is different on the right"),
        description=_("The right map minus the left one, cell by cell."),
        hint=_("More attention on the right is blue, less is brown."),
    )
    pinned = rows.index(state.pinned) if state.pinned in rows else None

    def opens(row: int, _column: int) -> Link:
        return state.row_link(rows[row])

    picture = _placed(picture, sides.places[2])
    title = _("Right − left")
    return [Figure(picture, "sides-difference", MAP, opens, pinned=pinned, title=title, grows="beside")]


def _placed(picture: Chart[HeatmapSpec], places: Places | None) -> Chart[HeatmapSpec]:
    """Returns a map with what its rows and columns share with the maps beside it."""
    return replace(picture, spec=replace(picture.spec, places=places))


def _summary(state: SideBySideState, sides: Sides) -> Summary:
    """Returns where the cells that belong together differ most."""
    if not sides.is_compared:
        return Summary(
            _("Their texts have too few tokens in common to be compared cell by cell: each map is read by itself."),
            partial(_quantities, state, sides),
        )
    query = "" if state.pinned is None else visible(sides.left.query_tokens[state.pinned])
    row, column = divmod(int(np.nanargmax(np.abs(np.nan_to_num(sides.change)))), sides.change.shape[1])
    change = float(np.nan_to_num(sides.change)[row, column])
    if abs(change) <= SAME:
        text = _("Both maps have the same weights.")
    else:
        template = LESS if change < 0 else MORE
        before, after = (float(np.nan_to_num(one.weights)[row, column]) for one in sides.aligned)
        text = _(
            template,
            query=_both(sides, row, "query_tokens"),
            key=_both(sides, column, "key_tokens"),
            change=number(abs(change)),
            left=number(before),
            right=number(after),
        )
    return Summary(text, partial(_quantities, state, sides), query)


def _both(sides: Sides, place: int, tokens: str) -> str:
    """Returns a token that both sides have, or both where they are others."""
    left, right = (visible(getattr(one, tokens)[place]) for one in sides.aligned)
    return left if left == right else f"{left} / {right}"


def _quantities(state: SideBySideState, sides: Sides) -> Quantities:
    """Returns the largest difference, and the weights of the pinned query on both sides."""
    numbers: Quantities = {}
    if sides.is_compared:
        numbers = {
            "largest difference": float(np.abs(np.nan_to_num(sides.change)).max()),
            "compared queries": float(len(sides.rows)),
            "compared keys": float(len(sides.columns)),
        }
    places = (state.pinned, None if state.pinned is None else dict(sides.rows).get(state.pinned))
    for one, row, name in zip((sides.left, sides.right), places, ("left", "right"), strict=True):
        if row is not None:
            numbers = {**numbers, **row_quantities(one.key_tokens, one.weights[row], suffix=f" on the {name}")}
    return numbers


def _left_out(sides: Sides) -> Iterator[str]:
    """Yields how many tokens the difference leaves out; of queries and keys each, where they are others."""
    if not sides.is_compared:
        return
    axes = [(_("queries"), sides.rows, 0), (_("keys"), sides.columns, 1)]
    if sides.rows == sides.columns and sides.left.query_tokens == sides.left.key_tokens:
        axes = [(_("tokens"), sides.rows, 0)]
    for name, pairs, axis in axes:
        counts = [one.weights.shape[axis] for one in (sides.left, sides.right)]
        if max(counts) > len(pairs):
            yield _(
                "The difference leaves out the {axis} that belong to none on the other side: {left} of {lefts} on the "
                "left, {right} of {rights} on the right.",
                axis=name,
                left=counts[0] - len(pairs),
                lefts=counts[0],
                right=counts[1] - len(pairs),
                rights=counts[1],
            )


def _not_on_the_right(state: SideBySideState) -> Iterator[str]:
    """Yields what the right side does not have of the layer and the head on the left."""
    left, right = state.selection, state.right_selection
    if state.right_layer is None and right.layer.name != left.layer.name:
        names = {"missing": option_name(left.layer.name), "shown": option_name(right.layer.name)}
        yield _("There is no {missing} on the right: {shown} is shown there.", **names)
    if state.right_head is None and right.head != left.head:
        yield _("There is no head {head} on the right: head {count} is shown there.", head=left.head, count=right.head)


def _titles(state: SideBySideState) -> list[str]:
    """Returns the names of the heads, with those of their models where they are others."""
    selections, names = (state.selection, state.right_selection), (_("Left"), _("Right"))
    models = [one.source.model().title for one in selections if isinstance(one.source, Model)]
    if len({*models}) > 1:
        names = (f"{names[0]}, {models[0]}", f"{names[1]}, {models[1]}")
    return [f"{name}: {one.title}" for name, one in zip(names, selections, strict=True)]


def _has_one_vocabulary(state: SideBySideState) -> bool:
    left, right = state.source, state.right_source
    return isinstance(left, Model) and isinstance(right, Model) and left.name == right.name


def _compared_tokens(head_map: HeadMap, axis: str, by_id: bool) -> Sequence[object]:
    """Returns what tells the tokens of an axis: their ids in one vocabulary, or else their texts without spaces."""
    inputs = head_map.inputs
    positions = head_map.queries if axis == "query" else head_map.keys
    if by_id and (ids := getattr(inputs, f"{axis}_ids")):
        return [ids[i] for i in positions]
    return [token.strip(" ").casefold() for token in getattr(head_map, f"{axis}_tokens")]


def shared_tokens(*axes: tuple[Sequence[object], Sequence[object]]) -> list[Alignment]:
    """Returns for each axis, with the tokens of the left and the right map, pairs of their positions that belong
    together. There are none if on no axis at least half of the shorter text is the same on both sides, as in unlike
    texts of the same length; a decoder's words may all be others where the words that it looks at are alike.

    Example:
        >>> shared_tokens((["the", "cat", "sat"], ["the", "big", "cat", "sat"]))
        [((0, 0), (1, 2), (2, 3))]
        >>> shared_tokens((["a", "b"], ["c", "d"]))
        [()]
    """
    pairs, are_alike = [], False
    for left, right in axes:
        numbers = {token: i for i, token in enumerate(dict.fromkeys([*left, *right]))}
        pairs.append(alignment([numbers[token] for token in left], [numbers[token] for token in right]))
        equal = sum(left[i] == right[j] for i, j in pairs[-1])
        are_alike |= 2 * equal >= min(len(left), len(right))
    return pairs if are_alike else [() for _axis in axes]
