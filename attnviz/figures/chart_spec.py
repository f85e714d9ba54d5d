"""Chart specifications: what the chart needs to know of a figure to show sentences, report clicks and link charts.

A specification `grows` if its picture shows more where it is higher.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from attnviz.figures.sentences import CELL_SENTENCES, CHANGE_SENTENCES, CellSentences, ChangeSentences


@dataclass(frozen=True)
class PlainSpec:
    """The specification of a figure without interaction. Its size is for tests: rows and columns of numbers."""

    mode: ClassVar[str] = "plain"
    grows: ClassVar[bool] = False
    rows: int | None = None
    columns: int | None = None


@dataclass(frozen=True)
class PointsSpec:
    """Points or bars of the first trace, each with a sentence that is shown under the pointer.

    With `bars`, the bar nearest in x is selected, at any height. The picture is at most `aspect` times as high as it is
    wide.
    """

    mode: ClassVar[str] = "points"
    sentences: tuple[str, ...]
    bars: bool = False
    aspect: float | None = None

    @property
    def grows(self) -> bool:
        return not self.bars


@dataclass(frozen=True)
class MosaicSpec:
    """Heads in reading order, in `rows` × `columns` tiles.

    A tile has `tile_height` × `tile_width` cells. The map of the head, `height` × `width` cells, is at its lower left.
    A tile without a name is empty. The picture is at most `aspect` times as high as it is wide. Where a tile has a
    `least` size, in pixels, its sides are not smaller, it is at most 1.6 times as wide as high, and never higher than
    wide. With a `least_width` it is not narrower. A picture that is larger than its place scrolls.

    Example:
        >>> spec = MosaicSpec(("head 0", "head 1"), rows=1, columns=2, height=4, width=4, tile_height=5, tile_width=5)
        >>> spec.corner(1), spec.size
        ((1, 5), (5, 9))
        >>> spec.head_at(row=3, column=7)
        1
    """

    mode: ClassVar[str] = "mosaic"
    grows: ClassVar[bool] = True
    names: tuple[str, ...]
    rows: int
    columns: int
    height: int = 1
    width: int = 1
    tile_height: int = 1
    tile_width: int = 1
    aspect: float | None = None
    least: int = 0
    least_width: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns of the whole picture, in cells. The last tile needs no gap at its right."""
        return self.rows * self.tile_height, self.columns * self.tile_width - (self.tile_width - self.width)

    def corner(self, head: int) -> tuple[int, int]:
        """The first row and the first column of a head's map."""
        row, column = divmod(head, self.columns)
        return (row + 1) * self.tile_height - self.height, column * self.tile_width

    def head_at(self, row: int, column: int) -> int | None:
        """The head whose tile has this cell; None beyond the last head."""
        head = row // self.tile_height * self.columns + column // self.tile_width
        return head if 0 <= head < len(self.names) else None


@dataclass(frozen=True)
class DifferenceSpec:
    """The specification of a difference map; its sentences name the weights of two other charts with the same link."""

    charts: tuple[str, str]  # the keys of the charts with the maps before and after
    sentences: ChangeSentences = CHANGE_SENTENCES


@dataclass(frozen=True, eq=False)
class DownsampledSpec:
    """The numbers of each cell of a downsampled map, and the query and key of its largest weight, −1 where none is
    allowed.

    `tokens` has the text of the queries and keys that a cell names, by the numbers in `query_tokens` and `key_tokens`.
    A cell of several weights says `several` of them, too. `viewport` tells whether it is a part of a larger map, to
    which the chart can go back.
    """

    tokens: tuple[str, ...]
    query_tokens: Int[np.ndarray, "rows columns"]
    key_tokens: Int[np.ndarray, "rows columns"]
    query_positions: Int[np.ndarray, "rows columns"]
    key_positions: Int[np.ndarray, "rows columns"]
    mass: Float[np.ndarray, "rows columns"]
    maximum: Float[np.ndarray, "rows columns"]
    mean: Float[np.ndarray, "rows columns"]
    allowed: Int[np.ndarray, "rows columns"]  # the number of pairs
    several: str  # the sentence, with {pairs}, {mass} and {mean}
    viewport: bool = False


@dataclass(frozen=True)
class CellLinks:
    """Links to a page about a cell, beside the sentence of a cell of the pinned row. A cell that is clicked stays the
    one that is shown.

    The address of a cell is `address` with two parameters more, the names of its query and its key.
    """

    text: str
    address: str
    parameters: tuple[str, str]
    queries: tuple[str, ...]  # by row
    keys: tuple[str, ...]  # by column


@dataclass(frozen=True)
class HeatmapSpec:
    """A map with queries as rows and keys as columns; the first trace has its weights.

    The tokens stand in sentences, the labels on the axes, where they may have markup of plotly. `cell_sentences` take
    the place of the general ones, by row and column. A chart keeps its zoom while `zoom_key` stays the same; charts of
    one `link` and of equal size share the cell under the pointer and the zoom. Where they have `places`, a number for
    each row and each column, −1 for one of its own, they share the cell of the same numbers, and no zoom. A `fan` draws
    the weights of a query as lines and bars.
    """

    mode: ClassVar[str] = "heatmap"
    grows: ClassVar[bool] = True
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    query_labels: tuple[str, ...]
    key_labels: tuple[str, ...]
    sentences: CellSentences = CELL_SENTENCES
    cell_sentences: Mapping[tuple[int, int], str] = field(default_factory=dict)
    whole_numbers: bool = False
    zoom_key: str = ""
    link: str = ""
    fan: bool = True
    difference: DifferenceSpec | None = None
    downsampled: DownsampledSpec | None = None
    cell_links: CellLinks | None = None
    places: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@dataclass(frozen=True)
class Drag:
    """A point that can be moved by the pointer and the arrow keys.

    It stays within `limits`, and is rounded to `step`, in the units of the axes. The `shapes` and `annotations` of the
    figure, by their number, are hidden while an arrow in `color` follows the pointer. With a `matrix`, a line leads
    from the point to a second arrow, which is the point times the matrix.
    """

    start: tuple[float, float]
    limits: tuple[float, float]
    step: float
    color: str
    shapes: tuple[int, ...]
    annotations: tuple[int, ...]
    sentence: str  # with {x} and {y}
    matrix: Float[np.ndarray, "2 2"] | None = None


@dataclass(frozen=True)
class PlaneSpec:
    """A square plane with a point that can be dragged."""

    mode: ClassVar[str] = "plane"
    grows: ClassVar[bool] = True
    rows: int
    drag: Drag
    aspect: float = 1.0


@dataclass(frozen=True)
class PicturePatch:
    """A patch: its left, top, right and bottom in the units of the axes, its name in a sentence, and its row and column
    in the map, −1 where it is none of its queries or keys."""

    box: tuple[float, float, float, float]
    name: str
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class PictureRow:
    """The weights of one query at all patches, NaN where there is none, and the sentence of one of them, with {query},
    {key} and {weight}. A patch with the `largest` weight is not darkened, by default that of the row; those that are
    `marked`, by their numbers, have a frame."""

    query: str
    weights: Float[np.ndarray, " patches"]
    sentence: str
    largest: float | None = None
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class PictureSpec:
    """A picture over which a map of the same `link` lays the weights of the query that it shows, or those of a `row` of
    its own, where a cell of the map is not one query and one key.

    The picture is at most `aspect` times as high as it is wide. The sentence of a row may have {query} and {share}, and
    that of a picture that shows who looks at a patch {key}. Patches of a `region`, by their numbers, are crossed out;
    where cells are painted, a rectangle is added to the region, or taken out of it where its first patch is in it.
    """

    mode: ClassVar[str] = "picture"
    grows: ClassVar[bool] = True
    link: str
    aspect: float
    patches: tuple[PicturePatch, ...]
    row_sentence: str
    turned_sentence: str
    row: PictureRow | None = None
    region: tuple[int, ...] = ()


ChartSpec = PictureSpec | PlainSpec | PointsSpec | MosaicSpec | HeatmapSpec | PlaneSpec
Spec = TypeVar("Spec", bound=ChartSpec, covariant=True)


@dataclass(frozen=True, kw_only=True)
class About:
    """A chart in words: `label` and `description` for screen readers, the `name` of its files when it is saved, and a
    `hint` on what can be done with it."""

    label: str
    description: str
    name: str = ""  # the label where it is empty
    hint: str = ""


@dataclass(frozen=True, eq=False)
class Chart(Generic[Spec]):
    """A plotly figure with its specification, and in words. A notebook shows the figure."""

    figure: go.Figure
    spec: Spec
    about: About

    def with_about(self, **words: str) -> "Chart[Spec]":
        """Returns the same chart with other words, by the fields of `About`."""
        return replace(self, about=replace(self.about, **words))

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        return self.figure._repr_mimebundle_(*args, **kwargs)
