"""What a page shows: panels of weights, and the numbers that lessons check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from attnviz.analysis.difference import difference
from attnviz.base.cached_property import cached_property
from attnviz.base.language import value_error
from attnviz.figures.svg import BAR_HEIGHT, svg_map, svg_panels, svg_row
from attnviz.lessons.checks import Quantities
from attnviz.page.color_range import ColorRange, largest_weight
from attnviz.page.map_files import WEIGHTS_FILES, as_pdf

ENDINGS = (".html", ".svg", ".pdf", *WEIGHTS_FILES)  # of the files that a page is saved as
MOST_TOKENS = 160  # along a side of a map as SVG


@dataclass(frozen=True, eq=False)
class Panel:
    """A map, or one row of weights as bars."""

    title: str
    weights: Float[np.ndarray, "queries keys"]  # NaN where not allowed; of a long map in fewer cells
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    row: int | None = None  # of the pinned query
    is_signed: bool = False  # a difference of two maps, or shares of a sum, with a scale of its own
    reverse: bool = False  # whether negative numbers have the color of positive ones

    @property
    def is_row(self) -> bool:
        """Whether the weights are those of one query alone."""
        return len(self.weights) == 1

    def to_svg(self, largest: float, *, most: int = MOST_TOKENS, size: int = BAR_HEIGHT) -> Markup:
        """Returns the panel as an SVG element with colors, or bars of at most `size` pixels, up to `largest`. Raises
        ValueError if a side of a map has more than `most` tokens, or a row too many."""
        if self.is_row:
            return svg_row(self.weights[0], self.key_tokens, largest=largest, size=size)
        return svg_map(
            self.weights, self.query_tokens, self.key_tokens, largest=largest, row=self.row, most=most,
            reverse=self.reverse,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PageView:
    """The panels of a page in the order in which they are drawn, and its quantities."""

    panels: tuple[Panel, ...]
    quantities: Quantities
    predicted: bool = False  # whether the reader predicts the pinned row before it is shown
    colors: ColorRange = ColorRange.SHOWN  # up to 1, or up to the largest weight of the panels
    note: str = ""  # below the panels: the model, where its weights are less precise than the original's

    @cached_property
    def largest(self) -> float:
        """The upper end of the color scale, which all maps share."""
        return self.colors.end([panel.weights for panel in self.maps])

    @property
    def maps(self) -> tuple[Panel, ...]:
        """The panels of weights, without differences and shares."""
        return tuple(panel for panel in self.panels if not panel.is_signed)

    def end(self, panel: Panel) -> float:
        """Returns the upper end of the color scale of a panel."""
        return largest_weight([panel.weights]) if panel.is_signed else self.largest

    def to_svg(self) -> str:
        """Returns the panels as one SVG element. Raises ValueError if one is too large for that."""
        return str(svg_panels([(panel.title, panel.to_svg(self.end(panel))) for panel in self.panels], self.note))

    @property
    def writers(self) -> dict[str, Callable[[], str | bytes]]:
        """What makes the files of the panels, by their endings; each raises ValueError if they cannot be written so."""
        weights = {ending: partial(self._weights_file, ending) for ending in WEIGHTS_FILES}
        return {".svg": self.to_svg, ".pdf": lambda: as_pdf(self.to_svg()), **weights}

    def _weights_file(self, ending: str) -> bytes:
        kind, (first, *others) = WEIGHTS_FILES[ending], self.maps or self.panels
        if not kind.holds_several:
            if len(self.maps) > 1:
                raise value_error(
                    "A {ending} file has one map, and this view has {count}. Save them as .npz.",
                    ending=ending,
                    count=len(self.maps),
                )
            return kind.write(first.weights, first.query_tokens, first.key_tokens)
        if any(panel.weights.shape != first.weights.shape for panel in others):
            raise value_error("These panels have different sizes. Save them as .svg or .html.")
        weights = np.stack([panel.weights for panel in (first, *others)])
        return kind.write(weights, first.query_tokens, first.key_tokens)


def difference_panel(before: Panel, after: Panel, title: str) -> Panel:
    """Returns the second panel minus the first, of equal size."""
    change = difference(before.weights, after.weights).numpy()
    return replace(before, title=title, weights=change, is_signed=True)
