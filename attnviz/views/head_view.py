"""The selected head among the heads of its mosaic, as Explore draws it."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_
from attnviz.figures.sentences import CellSentences
from attnviz.state.selection import Selection
from attnviz.state.why_links import ScoreLinks, selection_links
from attnviz.views.selected_maps import HeadMap, selected_map, selected_thumbnails

HIDDEN = N_("{query} may not look at {key}, or it is still to be predicted.")
HIDDEN_ROW = N_("What {query} looks at is still to be predicted, or there is nothing.")


@dataclass(frozen=True, eq=False)
class HeadView:
    """A selection with the map of its head, and small maps of all heads in its mosaic."""

    selection: Selection
    head_map: HeadMap
    thumbnails: Float[np.ndarray, "heads height width"]  # layer by layer

    @property
    def is_whole(self) -> bool:
        """Whether a cell of the map is one query and one key."""
        return self.head_map.downsampled is None

    @cached_property
    def score_links(self) -> ScoreLinks | None:
        """Links to why the head looks somewhere, where Why can be asked."""
        return selection_links(self.selection)

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


def head_view(selection: Selection) -> HeadView:
    """Returns the maps of a selection. Raises ValueError if they take too much work, or nothing is left to show."""
    return HeadView(selection, selected_map(selection), selected_thumbnails(selection))


def hide_thumbnail_rows(
    maps: Float[np.ndarray, "heads height width"], queries: int, row: int
) -> Float[np.ndarray, "heads height width"]:
    """Returns thumbnails without the cells of one query, by the cells of a downsampled map."""
    height = maps.shape[1]
    hidden = maps.copy()
    hidden[:, [i for i in range(height) if i * queries // height <= row < (i + 1) * queries // height]] = np.nan
    return hidden
