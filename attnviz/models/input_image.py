"""An image as a model sees it: its colors, and where its tiles lie among them."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from attnviz.base.language import _
from attnviz.inputs import PatchGrid

GAP = 0.04  # between tiles that do not touch, as a share of their width


@dataclass(frozen=True, eq=False)
class InputImage:
    """The colors of an image, and the left, top, right and bottom of each of its tiles among them, in pixels; one that
    is not cut into tiles is one tile."""

    colors: UInt8[np.ndarray, "height width channels"]  # four channels where there are tiles: transparent between them
    tiles: tuple[tuple[int, int, int, int], ...]
    note: str = ""  # a sentence, where the tiles are not shown where they lie

    def place(self, grid: PatchGrid, patch: int) -> tuple[float, float, float, float] | None:
        """Returns where a patch of a grid lies, in pixels; None if it is of another image."""
        number = grid.image if grid.tile is None else grid.tile
        if number >= len(self.tiles) or (grid.tile is not None and grid.image):
            return None
        left, top, right, bottom = self.tiles[number]
        x, y, end_x, end_y = (min(1.0, max(0.0, side)) for side in grid.place(patch))  # some begin outside
        width, height = right - left, bottom - top
        return left + x * width, top + y * height, left + end_x * width, top + end_y * height


def whole_image(colors: Float[Tensor, "channels height width"]) -> InputImage:
    """Returns an image of these colors, 0 to 1."""
    pixels = _pixels(colors)
    return InputImage(pixels, ((0, 0, pixels.shape[1], pixels.shape[0]),))


def tiled_image(
    colors: Float[Tensor, "tiles channels height width"], rows: int = 0, columns: int = 0, is_first: bool | int = False
) -> InputImage:
    """Returns tiles of these colors, 0 to 1, as one image: they lie in `rows` and `columns`, and the whole image, if it
    is the first of them or else the last, beside them. Where that does not fit, all are beside each other."""
    count, _channels, height, width = colors.shape
    if count == 1:
        return whole_image(colors[0])
    gap = math.ceil(GAP * width)
    is_known = rows > 0 < columns and rows * columns in (count, count - 1)
    if is_known:
        corners = [(width * (i % columns), height * (i // columns)) for i in range(rows * columns)]
        whole = [(width * columns + gap, 0)][: count - rows * columns]
        corners = whole + corners if is_first else corners + whole
    else:
        columns = math.ceil(math.sqrt(count))
        corners = [((width + gap) * (i % columns), (height + gap) * (i // columns)) for i in range(count)]
    right, bottom = (max(corner[axis] for corner in corners) + side for axis, side in ((0, width), (1, height)))
    whole_colors = np.zeros((bottom, right, 4), np.uint8)
    for (left, top), tile in zip(corners, colors, strict=True):
        whole_colors[top : top + height, left : left + width, :3] = _pixels(tile)
        whole_colors[top : top + height, left : left + width, 3] = 255
    note = _("Where the {count} tiles of this image lie is not known, so they are beside each other.", count=count)
    tiles = tuple((left, top, left + width, top + height) for left, top in corners)
    return InputImage(whole_colors, tiles, "" if is_known else note)


def unblocked(
    patches: Float[Tensor, "patches features"], rows: int, columns: int, merged: int, frames: int
) -> Float[Tensor, "channels height width"]:
    """Returns the image of patches that are given block by block of `merged` × `merged`, as Qwen2-VL's image processor
    does, each of the same colors in several frames."""
    side = math.isqrt(patches.shape[1] // (3 * frames))
    blocks = patches.reshape(rows // merged, columns // merged, merged, merged, 3, frames, side, side)[..., 0, :, :]
    return blocks.permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * side, columns * side)


def _pixels(colors: Tensor) -> UInt8[np.ndarray, "height width 3"]:
    pixels = (255 * colors.float().clamp(0, 1)).round().byte().permute(1, 2, 0).numpy()
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
