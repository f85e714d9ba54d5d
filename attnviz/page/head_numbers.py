"""A number of each head of a model: as a grid, as a table of the largest, for lessons and for files."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attnviz.cached_property import cached_property
from attnviz.effects.ablation import Head
from attnviz.figures import Chart, head_grid
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.figures.shares import signed
from attnviz.formatting import number
from attnviz.language import _, option_name
from attnviz.layer import LayerId, head_name, layer_names, layer_numbers
from attnviz.lessons.checks import Quantities
from attnviz.link import Link
from attnviz.page.blocks import Anchor, Figure, Table
from attnviz.page.page_view import Panel
from attnviz.state.fields import Field
from attnviz.state.state import State

GRID_ROW, AROUND_GRID, MOST_HEIGHT = 21, 120, 900  # pixels


def grid_height(spec: MosaicSpec) -> int:
    """Returns the height of a grid with a row or a column for each layer, in pixels."""
    return min(MOST_HEIGHT, AROUND_GRID + GRID_ROW * spec.rows)


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """The numbers of all heads of some layers, under a title; NaN where there is none. A number may be the mean of
    several, whose least and largest are the `ends`. Numbers that may be negative have a `sign`: what the lowest and the
    highest color mean."""

    title: str
    layers: Sequence[LayerId]
    values: Float[np.ndarray, "layers heads"]
    ends: tuple[Float[np.ndarray, "layers heads"], Float[np.ndarray, "layers heads"]] | None = None
    largest: float | None = None  # of the color scale; by default the largest number
    sign: tuple[str, str] | None = None

    @cached_property
    def layer_names(self) -> tuple[str, ...]:
        """The names of the layers."""
        return layer_names(self.layers)

    @cached_property
    def layer_numbers(self) -> tuple[str, ...]:
        """The numbers of the layers, as axes and tables have them."""
        return layer_numbers(self.layers)

    def name(self, head: Head) -> str:
        """Returns the name of a head in a sentence."""
        return head_name(self.layer_names[head[0]], head[1])

    def short_name(self, head: Head) -> str:
        """Returns the name of a head in a table: 23.3."""
        return f"{option_name(self.layer_numbers[head[0]])}.{head[1]}"

    def text(self, head: Head) -> str:
        """Returns the number of a head, as sentences and tables have it."""
        value = float(self.values[head])
        return number(value) if self.sign is None else signed(value)

    def chart(self, chosen: Head | None = None) -> Chart[MosaicSpec]:
        """Returns the numbers as colors, a cell for each head, in which the chosen one has a frame."""
        sentences = [
            "" if np.isnan(value) else f"{self.name(place)}: {self.text(place)}"
            for place, value in np.ndenumerate(self.values)
        ]
        return head_grid(
            self.values, sentences, largest=self.largest, signed=self.sign is not None, ends=self.sign or ("", ""),
            chosen=[] if chosen is None else [chosen], layer_names=[*map(option_name, self.layer_numbers)],
        ).with_about(label=self.title)  # fmt: skip

    def grid(self, name: str, field: Field[Head | None], state: State, hint: str, chosen: Head | None = None) -> Figure:
        """Returns the chart as a block; a click on a cell gives its head to a field. The chosen head is that of the
        state, or else this one."""
        picture = self.chart(state.values[field.name] or chosen).with_about(hint=hint)
        tiles = LayerTiles(*self.values.shape)

        def opens(row: int, column: int) -> Link | None:
            tile = picture.spec.head_at(row, column)
            if tile is None or np.isnan(self.values[place := tiles.place(tile)]):
                return None
            return state.link_with(**{field.name: place})

        return Figure(picture, name, grid_height(picture.spec), opens, panels=[self.panel()])

    def strongest(self, count: int, least: float = -np.inf) -> list[Head]:
        """Returns the heads with the largest numbers, of at least this size, the largest first."""
        order = np.argsort(-np.nan_to_num(self.values, nan=-np.inf), axis=None, kind="stable")[:count]
        places = [divmod(int(place), self.values.shape[1]) for place in order]
        return [place for place in places if self.values[place] >= least]  # NaN is not

    def table(self, heading: str, field: Field[Head | None], state: State, heads: Sequence[Head]) -> Table:
        """Returns these heads as a table, with links that give them to a field."""
        rows = []
        for head in heads:
            link = state.link_with(**{field.name: head})
            cells: list[object] = [Anchor(self.short_name(head), link), self.text(head)]
            if self.ends is not None:
                cells.append(" – ".join(number(float(end[head])) for end in self.ends))
            rows.append(cells)
        headings = [_("Head"), heading, *([_("least and largest")] if self.ends is not None else [])]
        chosen = state.values[field.name]
        return Table(headings, rows, heads.index(chosen) if chosen in heads else None)

    def quantities(self, name: str) -> Quantities:
        """Returns the numbers that lessons check, as `name` with the layer and the head."""
        return {
            f"{name} {layer}.{head}": float(value)
            for (layer, head), value in np.ndenumerate(self.values)
            if np.isfinite(value)
        }

    def panel(self) -> Panel:
        """Returns the numbers as files have them."""
        heads = [str(head) for head in range(self.values.shape[1])]
        return Panel(self.title, self.values, list(self.layer_numbers), heads, is_signed=self.sign is not None)
