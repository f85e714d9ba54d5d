"""Who may look at whom: the catalogue, grouped by what masks are for."""

from attnviz.masks import decoding, direction, segments, sparse, vision, window
from attnviz.masks.decoding import Sinks, SinksAndWindow, Tree
from attnviz.masks.direction import Causal, Full, PrefixLM
from attnviz.masks.grid import Grid
from attnviz.masks.language import MaskError, parse
from attnviz.masks.mask import And, Bound, Compare, Mask, Not, Or, Shifted
from attnviz.masks.segments import BlockCausal, Chunked, Documents, Padding, SharedPrefix
from attnviz.masks.sparse import BigBird, Fixed, Logarithmic, Strided
from attnviz.masks.vision import Axial, CrossToImage, ImageAndText, Neighborhood2D, ShiftedWindow2D
from attnviz.masks.window import Band, DilatedWindow, Longformer, SlidingWindow

# The order of the menu and of the gallery.
GROUPS: dict[str, tuple[type[Mask], ...]] = {
    "Direction": direction.MASKS,
    "Window": window.MASKS,
    "Sparse": sparse.MASKS,
    "Segments": segments.MASKS,
    "Vision": vision.MASKS,
    "Decoding": decoding.MASKS,
}
MASKS = tuple(mask for group in GROUPS.values() for mask in group)

__all__ = [
    "GROUPS",
    "MASKS",
    "And",
    "Axial",
    "Band",
    "BigBird",
    "BlockCausal",
    "Bound",
    "Causal",
    "Chunked",
    "Compare",
    "CrossToImage",
    "DilatedWindow",
    "Documents",
    "Fixed",
    "Full",
    "Grid",
    "ImageAndText",
    "Logarithmic",
    "Longformer",
    "Mask",
    "MaskError",
    "Neighborhood2D",
    "Not",
    "Or",
    "Padding",
    "PrefixLM",
    "SharedPrefix",
    "Shifted",
    "ShiftedWindow2D",
    "Sinks",
    "SinksAndWindow",
    "SlidingWindow",
    "Strided",
    "Tree",
    "parse",
]
