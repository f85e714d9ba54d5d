"""Blocks: what a page shows, as values in the order in which it is read. A place draws them: the app, a notebook, a
file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from attnviz.base.link import Link
from attnviz.figures import Chart
from attnviz.lessons.checks import Quantities
from attnviz.page.fields import ChoiceField, Field
from attnviz.page.page_view import PageView, Panel
from attnviz.page.result_cache import result_cache
from attnviz.page.state import State

T = TypeVar("T")
Cells = tuple[int, int, int, int]  # a part of a map: its first and last row, and its first and last column


@dataclass(frozen=True)
class Anchor:
    """A text that opens a state: a link of this page, or of another `page`."""

    text: object  # a string, Markup, or several of them
    link: Link
    page: str = ""
    style: str = ""  # classes
    is_current: bool = False  # whether it opens what is shown


@dataclass(frozen=True)
class ScoreLinks:
    """Links to why a head looks from a query at a key, and to what it does in many texts."""

    head: Link  # without the query and the key
    parameters: tuple[str, str]  # of the query and of the key
    queries: Sequence[str]  # the names of all, by position
    keys: Sequence[str]
    in_general: Anchor | None = None

    def link(self, query: int, key: int) -> Link:
        """Returns the link of a query and a key, by their positions."""
        names = self.queries[query], self.keys[key]
        return (*self.head, *zip(self.parameters, names, strict=True))


class Block:
    """A part of a page. Texts are strings, Markup, anchors, and tuples of these."""


@dataclass(frozen=True, eq=False)
class Summary(Block):
    """The main sentence of a figure, which is read aloud when it changes, with the numbers that lessons check, and the
    name of the query that they are about; None where they are still to come."""

    content: object
    quantities: Callable[[], Quantities] | None = dict
    query: str = ""


@dataclass(frozen=True, eq=False)
class Heading(Block):
    """The title of what comes after it."""

    content: object


@dataclass(frozen=True, eq=False)
class Paragraph(Block):
    """A paragraph."""

    content: object
    style: str = ""  # classes


@dataclass(frozen=True, eq=False)
class Note(Block):
    """A line in smaller letters, below what it is about."""

    content: object


@dataclass(frozen=True, eq=False)
class AppNote(Block):
    """A note on what only the app does, such as painting patches of a picture."""

    content: object


@dataclass(frozen=True, eq=False)
class Caption(Block):
    """What a figure says and what it does not say; **bold** and *italic* as in Markdown."""

    text: str


@dataclass(frozen=True, eq=False)
class Unavailable(Block):
    """Why a part of a page cannot be shown."""

    text: str


@dataclass(frozen=True, eq=False)
class Listing(Block):
    """An ordered list."""

    items: Sequence[object]
    label: str  # for screen readers
    style: str = ""  # classes
    first: int = 1  # the number of the first item


@dataclass(frozen=True, eq=False)
class Table(Block):
    """A table in which the first cell of a row is its heading."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    marked: int | None = None  # the highlighted row


@dataclass(frozen=True, eq=False)
class Figure(Block):
    """A chart. `name` tells it from the other charts of its page."""

    picture: Chart[Any]
    name: str
    height: int  # in pixels
    opens: Callable[[int, int], Link | None] | None = None  # what a click on a row and a column opens
    panels: Sequence[Panel] = ()  # what files with maps have in its place
    cells: object = None  # what a click is on, where it stays the same while the picture is replaced
    pinned: int | None = None  # the row of a map whose weights are shown
    score_links: ScoreLinks | None = None  # of the cells of a map: why a head looks there
    zooms: Callable[[Cells | None], Link] | None = None  # what a zoom opens; None is the whole map
    title: str = ""  # in the line of its sentence
    grows: bool | Literal["beside"] = False  # whether it is higher where the window has room
    paints: Callable[[np.ndarray, bool], Link] | None = None  # what painting cells (cells, 2) opens; it may refuse
    drags: Callable[[float, float], Link] | None = None  # what dropping its point at x and y opens


@dataclass(frozen=True, eq=False)
class Columns(Block):
    """Blocks side by side, with the share of the width that each column has; below each other on a phone."""

    columns: Sequence[tuple[float, Sequence[Block]]]


@dataclass(frozen=True, eq=False)
class Row(Block):
    """Short blocks in one line."""

    blocks: Sequence[Block]
    name: str


@dataclass(frozen=True, eq=False)
class More(Block):
    """Blocks that are folded under a title."""

    title: str
    blocks: Sequence[Block]
    is_open: bool = False
    name: str = ""  # unique on its page; presentations leave out those whose name begins with "controls-"


@dataclass(frozen=True, eq=False)
class Control(Block):
    """The widget of a field at this place, with the value of a state, where a place has widgets."""

    field: Field[Any]
    state: State
    stays: bool = False  # in presentations, which have few controls


@dataclass(frozen=True, eq=False)
class Kept(Block):
    """Fields that have nothing to do with what is shown; a link keeps their values."""

    fields: Sequence[Field[Any]]
    state: State


@dataclass(frozen=True, eq=False)
class OptionMenu(Block):
    """The options of a field, of which a state has one: a menu, or links."""

    field: ChoiceField[Any]
    state: State

    def links(self) -> Paragraph:
        """Returns the options as links to the states that have them."""
        field, state = self.field, self.state
        anchors = (
            Anchor(field.option_name(name), state.link_with(**{field.name: value}), is_current=value == own)
            for own in [state.values[field.name]]
            for name, value in field.options(state).items()
        )
        return Paragraph(tuple(anchors), "attnviz-choices")


@dataclass(frozen=True, eq=False)
class MenuLinks(Block):
    """Anchors in place of a control of the app that other places do not have."""

    label: str
    anchors: Callable[[], Iterable[Anchor]]


@dataclass(frozen=True, eq=False)
class Tabs(OptionMenu):
    """The options of a field as tabs, and the blocks of the one that is open."""

    blocks: Sequence[Block]


@dataclass(frozen=True, eq=False)
class AlignedTexts(Block):
    """The tokens of two texts, one below the other where they belong together; the first column has the names of the
    texts. A column is "same", "other" or "alone", with a token of each text."""

    names: tuple[str, str]
    columns: Sequence[tuple[str, object, object]]


@dataclass(frozen=True, eq=False)
class ColoredText(Block):
    """Words in the colors of their values, each with a text below it."""

    words: Sequence[str]
    values: Float[np.ndarray, " words"]
    texts: Sequence[str]
    panels: Sequence[Panel] = ()  # what files with maps have in its place


@dataclass(frozen=True, eq=False)
class PlayedText(Block):
    """A text that a model has written, which is played token by token. `content` returns what the browser draws
    (ui/write/types.d.ts); it is known what opens the state in which one of the `rows` of the map is pinned, or none."""

    content: Callable[[], dict[str, Any]]
    pinned: int | None  # the row that is
    rows: int
    opens: Callable[[int | None], Link]


@dataclass(frozen=True, eq=False)
class Drawing(Block):
    """A state as a script of the app draws it, such as a text that grows while a model writes it; other places have
    blocks in its place."""

    state: State
    blocks: Sequence[Block]
    panels: Sequence[Panel] = ()  # what files with maps have in its place


@dataclass(frozen=True, eq=False)
class ModelPath(Block):
    """The path through a model as one drawing. `picture` is what the browser draws (ui/path/types.d.ts); of a name in
    it, or the number of a head, it is known what a click opens."""

    picture: dict[str, Any]
    opens: Callable[[str], Link | None]
    heads: Callable[[int], Link | None]
    again: Link | None  # with another random number
    anchors: Sequence[Anchor] = ()  # to the numbers of what is open
    panels: Sequence[Panel] = ()  # what files with maps have in its place


@dataclass(frozen=True, eq=False)
class Computed(Block, Generic[T]):
    """Blocks of a result that takes time. `compute` calls its argument `progress` with the share that is done and the
    result so far, which `describe` puts into words; where the app shows that, other places wait. `subject` is what it
    is a picture of: the last result with the same one stays where another cannot be computed."""

    name: str
    compute: Callable[..., T]
    key: Callable[[], tuple[object, ...]]  # what the result depends on; it raises what `compute` raises at once
    describe: Callable[[T], str]
    shows: Callable[[T], Iterable[Block]]
    subject: object = None
    work: int | None = None  # steps of `compute`, where they are known: of few, the app waits for the whole, too

    def blocks(self) -> Iterable[Block]:
        """Returns the blocks of the whole result."""
        return self.shows(result_cache().once(self.compute, *self.key(), work=self.work or 0))


@dataclass(frozen=True, eq=False)
class ClassQuestion(Block):
    """A question that a teacher can ask a class: which of the options has the largest value."""

    ask: str
    options: Sequence[str]
    values: Float[np.ndarray, " options"]


@dataclass(frozen=True, eq=False)
class HeadQuestion(Block):
    """A question that a teacher can ask a class: which head has the largest value of a metric of this name."""

    name: str
    values: Callable[[], Float[np.ndarray, "layers heads"]]  # raises ValueError if it cannot be asked


@dataclass(frozen=True, eq=False)
class CellsQuestion(Block):
    """A question that a teacher can ask a class: which cells of a map are these?"""

    ask: str
    queries: Sequence[str]
    keys: Sequence[str]
    cells: Bool[np.ndarray, "queries keys"]


@dataclass(frozen=True, eq=False)
class Prediction(Block):
    """Blocks that show the weights of a query, which the reader may predict before: those above the form of the
    prediction and those below it, as functions of whether the weights are known. Other places than the app show
    them."""

    query: str
    keys: Sequence[str]
    weights: Float[np.ndarray, " keys"]
    above: Callable[[bool], Iterable[Block]]
    below: Callable[[bool], Iterable[Block]]

    def blocks(self) -> Iterator[Block]:
        """Yields the blocks where the weights are known."""
        yield from self.above(True)
        yield from self.below(True)


@dataclass(frozen=True, eq=False)
class InWords(Block):
    """What the controls of a page say, where a place has no controls."""

    content: object


@dataclass(frozen=True, eq=False)
class Script(Block):
    """A program in Python."""

    text: str


@dataclass(frozen=True, eq=False)
class Download(Block):
    """Files that are made when they are asked for: a label, a name, and what is in it."""

    files: Sequence[tuple[str, str, Callable[[], str | bytes]]]


@dataclass(frozen=True, eq=False)
class OtherStates(Block):
    """Blocks that lead to other states: they are not in files, which have few of them, nor in a lesson, which has steps
    of its own."""

    blocks: Sequence[Block]


def available(blocks: Iterable[Block]) -> list[Block]:
    """Returns blocks, or why they cannot be shown: what is around them stays."""
    try:
        return [*blocks]
    except ValueError as problem:
        return [Unavailable(str(problem))]


def every_block(blocks: Iterable[Block], of_results: bool = True) -> Iterator[Block]:
    """Yields blocks and those that they hold, in the order of reading; those of results that take time if wanted.
    Raises ValueError if one of them cannot be shown."""
    for block in blocks:
        yield block
        if isinstance(block, Unavailable):
            raise ValueError(block.text)
        if isinstance(block, Columns):
            for _share, column in block.columns:
                yield from every_block(column, of_results)
        elif isinstance(block, Row | OtherStates | More | Tabs | Drawing):
            yield from every_block(block.blocks, of_results)
        elif (isinstance(block, Computed) and of_results) or isinstance(block, Prediction):
            yield from every_block(block.blocks(), of_results)


def page_quantities(blocks: Iterable[Block]) -> Quantities:
    """Returns the numbers of a page that lessons check."""
    numbers: Quantities = {}
    for block in every_block(blocks):
        if isinstance(block, Summary) and block.quantities is not None:
            numbers = {**numbers, **block.quantities()}
    return numbers


def page_view(blocks: Iterable[Block]) -> PageView:
    """Returns the maps and the quantities of a page."""
    blocks = [*every_block(blocks)]
    pictures = [block for block in blocks if isinstance(block, Figure | ColoredText | Drawing | ModelPath)]
    panels = [panel for picture in pictures for panel in picture.panels]
    is_predicted = any(isinstance(block, Prediction) for block in blocks)
    return PageView(tuple(panels), page_quantities(blocks), is_predicted)
