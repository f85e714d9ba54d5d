"""Which query may attend to which key: masks, their catalogue, and the language that writes them."""

from attnviz.masks.catalogue import GROUPS, MASKS
from attnviz.masks.decoding import Sinks, SinksAndWindow, Tree
from attnviz.masks.direction import Causal, Full, PrefixLM
from attnviz.masks.grid import Grid
from attnviz.masks.mask import And, Bound, Compare, Mask, Not, Or, Shifted
from attnviz.masks.parser import MaskError, parse
from attnviz.masks.segments import BlockCausal, Chunked, Documents, Padding, SharedPrefix
from attnviz.masks.sparse import BigBird, Fixed, Logarithmic, Strided, VerticalSlash
from attnviz.masks.vision import Axial, CrossToImage, ImageAndText, Neighborhood2D, ShiftedWindow2D
from attnviz.masks.window import Band, DilatedWindow, Longformer, SlidingWindow

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
    "VerticalSlash",
    "parse",
]
