"""A number of each head and each MLP of a model: as a grid, as a table of the largest, for lessons and for files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import number
from attnviz.base.language import N_, _, current_language, language, option_name
from attnviz.base.link import Link
from attnviz.figures import Chart, head_grid
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.figures.shares import signed
from attnviz.layer import LayerId, head_name, head_option_name, layer_names, layer_numbers
from attnviz.lessons.checks import Quantities
from attnviz.page.blocks import Anchor, Figure, Table
from attnviz.page.page_view import Panel
from attnviz.page.state import State

GRID_ROW, AROUND_GRID, MOST_HEIGHT = 21, 120, 900  # pixels
OF_MLP = ", MLP"  # after a layer, in an option
INPUT = N_("input")  # the row above those of the layers

Place: TypeAlias = tuple[int, int]  # a layer and a head of it, or the number of heads for the MLP of the layer
Opens: TypeAlias = Callable[[Place], Link | None]


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """The numbers of all heads of some layers, under a title; NaN where there is none, or where it is not known yet: it
    is one of the `counts` of heads of each layer. A number may be the mean of several, whose least and largest are the
    `ends`.

    Numbers that may be negative have a `sign`: what the lowest and the highest color mean; `reverse` exchanges the
    colors. `texts` says a number in a sentence. `mlps` are a last column, and `inputs`, the constant and the
    embeddings, a row above the layers, number −1. Instead of heads the columns may be others, with their names and the
    `names` of their cells.
    """

    title: str
    layers: Sequence[LayerId]
    values: Float[np.ndarray, "layers heads"]
    ends: tuple[Float[np.ndarray, "layers heads"], Float[np.ndarray, "layers heads"]] | None = None
    largest: float | None = None  # of the color scale; by default the largest number
    sign: tuple[str, str] | None = None
    reverse: bool = False
    counts: Sequence[int] = ()
    texts: Callable[[Place], str] | None = None
    mlps: Float[np.ndarray, " layers"] | None = None
    inputs: tuple[float, float] | None = None
    columns: Sequence[str] = ()
    names: Callable[[Place], str] | None = None

    @cached_property
    def layer_names(self) -> tuple[str, ...]:
        """The names of the layers."""
        return layer_names(self.layers)

    @cached_property
    def layer_numbers(self) -> tuple[str, ...]:
        """The numbers of the layers, as axes and tables have them."""
        return tuple(map(option_name, layer_numbers(self.layers)))

    @cached_property
    def cells(self) -> Float[np.ndarray, "rows columns"]:
        """The numbers with those of the MLPs and the inputs."""
        cells = self.values if self.mlps is None else np.concatenate([self.values, self.mlps[:, None]], axis=1)
        if self.inputs is None:
            return cells
        first = np.full(cells.shape[1], np.nan)
        first[[0, -1]] = self.inputs
        return np.concatenate([first[None], cells])

    @property
    def first_layer(self) -> int:
        """The row of layer 0 among the cells."""
        return len(self.cells) - len(self.layers)

    def value(self, place: Place) -> float:
        """Returns the number of a place."""
        return float(self.cells[place[0] + self.first_layer, place[1]])

    def is_head(self, place: Place) -> bool:
        """Returns whether a place is a head, whose number may not be known yet."""
        layer, column = place
        if self.columns or layer < 0 or not self._is_column(column):
            return False
        return column < self.counts[layer] if self.counts else bool(np.isfinite(self.values[place]))

    def name(self, place: Place) -> str:
        """Returns the name of a head or an MLP in a sentence."""
        layer, column = place
        if self.names is not None:
            return self.names(place)
        if layer < 0:
            return _("embeddings") if column else _("constant")
        return head_name(self.layer_names[layer], column) if self._is_column(column) else mlp_name(self.layers[layer])

    def short_name(self, place: Place) -> str:
        """Returns the name of a head or an MLP in a table, 23.3 or MLP 28, where a number tells its layer."""
        layer, column = place
        number = self.layers[layer].number
        if self.names is not None or layer_numbers(self.layers)[layer] != number:
            return self.name(place)
        return f"{number}.{column}" if self._is_column(column) else f"MLP {number}"

    def _is_column(self, column: int) -> bool:
        return column < self.values.shape[1]

    def text(self, place: Place) -> str:
        """Returns the number of a place, as sentences and tables have it."""
        if self.texts is not None:
            return self.texts(place)
        return number(self.value(place)) if self.sign is None else signed(self.value(place))

    @property
    def sentences(self) -> list[str]:
        """The sentence of each cell, row by row; empty where there is nothing."""
        return [
            "" if np.isnan(value) else f"{self.name(place)}: {self.text(place)}"
            for (row, column), value in np.ndenumerate(self.cells)
            for place in [(row - self.first_layer, column)]
        ]

    def chart(self, chosen: Place | None = None) -> Chart[MosaicSpec]:
        """Returns the numbers as colors, a cell for each, in which the chosen one has a frame."""
        columns = self.columns or [*map(str, range(self.values.shape[1])), *[_("MLP")] * (self.mlps is not None)]
        return head_grid(
            self.cells, self.sentences, largest=self.largest, signed=self.sign is not None, reverse=self.reverse,
            ends=self.sign or ("", ""), layer_names=[*[_(INPUT)] * self.first_layer, *self.layer_numbers],
            head_names=columns, heads_name=N_("tokens") if self.columns else N_("heads"),
            chosen=[] if chosen is None else [(chosen[0] + self.first_layer, chosen[1])],
        ).with_about(label=self.title)  # fmt: skip

    def grid(
        self,
        name: str,
        hint: str,
        opens: Opens | None = None,
        chosen: Place | None = None,
        panels: Sequence[Panel] = (),
        cells: object = None,
    ) -> Figure:
        """Returns the chart as a block; a click on a place opens what it says. `panels` are by default the numbers, and
        `cells` are those of `Figure`."""
        picture, tiles = self.chart(chosen).with_about(hint=hint), LayerTiles(*self.cells.shape)

        def click(row: int, column: int) -> Link | None:
            tile = picture.spec.head_at(row, column)
            if tile is None or opens is None:
                return None
            layer, place = tiles.place(tile)
            return opens((layer - self.first_layer, place))

        height = min(MOST_HEIGHT, AROUND_GRID + GRID_ROW * picture.spec.rows)
        return Figure(picture, name, height, opens and click, panels or [self.panel()], cells)

    def opens_head(self, state: State) -> Opens:
        """Returns which link a place opens: the state with the head as its field `head`."""
        return lambda place: state.link_with(head=place) if self.is_head(place) else None

    def strongest(self, count: int, least: float = -np.inf) -> list[Place]:
        """Returns the heads with the largest numbers, of at least this size, the largest first."""
        order = np.argsort(-np.nan_to_num(self.values, nan=-np.inf), axis=None, kind="stable")[:count]
        places = [divmod(int(place), self.values.shape[1]) for place in order]
        return [place for place in places if self.values[place] >= least]  # NaN is not

    def farthest(self, count: int) -> list[Place]:
        """Returns the places with the largest absolute numbers, the largest first."""
        order = np.argsort(-np.abs(np.nan_to_num(self.cells)), axis=None, kind="stable")[:count]
        places = [divmod(int(place), self.cells.shape[1]) for place in order]
        return [(row - self.first_layer, column) for row, column in places if np.isfinite(self.cells[row, column])]

    def table(self, headings: tuple[str, str], state: State, places: Sequence[Place]) -> Table:
        """Returns these places as a table, in which heads are links that give them to the field `head`."""
        rows, opens = [], self.opens_head(state)
        for place in places:
            link, name = opens(place), self.short_name(place)
            cells: list[object] = [name if link is None else Anchor(name, link), self.text(place)]
            if self.ends is not None:
                cells.append(" – ".join(number(float(end[place])) for end in self.ends))
            rows.append(cells)
        titles = [*headings, *([_("least and largest")] if self.ends is not None else [])]
        chosen = state.values["head"]
        return Table(titles, rows, places.index(chosen) if chosen in places else None)

    def quantities(self, name: str) -> Quantities:
        """Returns the numbers of heads that lessons check, as `name` with the layer and the head."""
        return {
            f"{name} {layer}.{head}": float(value)
            for (layer, head), value in np.ndenumerate(self.values)
            if np.isfinite(value)
        }

    def panel(self) -> Panel:
        """Returns the numbers of heads as files have them."""
        columns = self.columns or [str(head) for head in range(self.values.shape[1])]
        signs = {"is_signed": self.sign is not None, "reverse": self.reverse}
        return Panel(self.title, self.values, list(layer_numbers(self.layers)), list(columns), **signs)


def mlp_name(layer: LayerId) -> str:
    """Returns the name of the MLP of a layer in a sentence; cross-attention has none of its own."""
    return writer_option_name(mlp_option(layer))


def mlp_option(layer: LayerId) -> str:
    """Returns the MLP of a layer as an option of menus and links."""
    return f"{replace(layer, cross=False)}{OF_MLP}"


def writer_option_name(option: str, code: str | None = None) -> str:
    """Returns the name of an option that is an MLP, a head or another writer on the screen, in a language, by default
    the current one.

    Example:
        >>> writer_option_name("layer 3, MLP", "de"), writer_option_name("layer 3, head 1", "de")
        ('Schicht 3, MLP', '3.1 · Schicht 3, Kopf 1')
    """
    if not option.endswith(OF_MLP):
        return head_option_name(option, code)
    with language(code or current_language()):
        return _("{layer}, MLP", layer=option_name(option.removesuffix(OF_MLP)))
