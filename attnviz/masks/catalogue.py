"""The catalogue of masks, grouped by what they are for: the order of the menu and of the gallery."""

from attnviz.masks import decoding, direction, segments, sparse, vision, window
from attnviz.masks.mask import Mask

GROUPS: dict[str, tuple[type[Mask], ...]] = {
    "Direction": direction.MASKS,
    "Window": window.MASKS,
    "Sparse": sparse.MASKS,
    "Segments": segments.MASKS,
    "Vision": vision.MASKS,
    "Decoding": decoding.MASKS,
}
MASKS = tuple(mask for group in GROUPS.values() for mask in group)
