"""The cells of images: pixels, patches, and several of these that a model merges into one; a spectrogram has one row of
cells, its times."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnviz.inputs import WHOLE, Box

FACTOR = 1 << 32  # an origin is this times the number of its cells or parameter, plus that of its cell or token from 1
# Models whose image processors give the patches of an image block by block, as the model merges them.
IN_BLOCKS = frozenset({"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v"})
ROW_BY_ROW = frozenset({"siglip2"})  # and row by row
SPECTROGRAMS = frozenset({"whisper"})  # whose input is (clips, frequencies, times)
CHANNELS = (1, 3, 4)


class ImageCells(NamedTuple):
    """A rectangle of equal cells in an image as the model sees it, or in one of its tiles or frames."""

    rows: int
    columns: int
    image: int = 0
    tile: int | None = None
    box: Box = WHOLE

    def cut(
        self, top: float, left: float, rows: int, columns: int, height: float = 1, width: float = 1
    ) -> "ImageCells":
        """Returns rows and columns of cells of another size, which like their place is measured in these cells."""
        x, y, right, bottom = self.box
        across, down = (right - x) / self.columns, (bottom - y) / self.rows
        x, y = x + left * across, y + top * down
        box = (x, y, x + columns * width * across, y + rows * height * down)
        return self._replace(rows=rows, columns=columns, box=box)


def input_images(arguments: Mapping[str, Any], config: Any) -> Iterator[tuple[Tensor, list[ImageCells], Tensor]]:
    """Yields what a model is given of images: a tensor, the cells in it, and their numbers, which can be expanded to
    its shape: FACTOR times the place among these cells, plus the number of the cell from 1; 0 for no cell."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
    vision = getattr(config, "vision_config", None) or config
    kind = str(getattr(config, "model_type", "")).removesuffix("_model").removesuffix("_vision")
    merged = int(getattr(vision, "spatial_merge_size", 1))
    count = 0
    for name, pixels in tensors.items():
        cells: list[ImageCells] = []
        shapes = _lists(tensors.get(SHAPES.get(name, "") if kind in IN_BLOCKS else "spatial_shapes"))
        # What does not fit is left to the model, which says what is wrong.
        if kind in IN_BLOCKS and shapes and not any(side % merged for _, *sides in shapes for side in sides):
            cells, numbers = _in_blocks(shapes, merged, int(getattr(vision, "temporal_patch_size", 1)), count)
        elif kind in ROW_BY_ROW and shapes and name == "pixel_values":
            cells = [ImageCells(rows, columns, count + image) for image, (rows, columns) in enumerate(shapes)]
            numbers = torch.stack([_padded(i, one.rows * one.columns, pixels.shape[1]) for i, one in enumerate(cells)])
        elif kind in SPECTROGRAMS and name == "input_features":
            cells, numbers = pixel_cells(pixels.shape[:1], torch.Size([1, pixels.shape[-1]]), count)
            numbers = numbers[:, 0]
        elif pixels.ndim > 3 and pixels.shape[-3] in CHANNELS and pixels.is_floating_point() and "mask" not in name:
            cells, numbers = pixel_cells(pixels.shape[:-3], pixels.shape[-2:], count)
        if cells and len(numbers) == len(pixels):
            yield pixels, cells, numbers.to(pixels.device)
            count = cells[-1].image + 1


# The argument with frames, rows and columns of each image, by that with the patches.
SHAPES = {
    "pixel_values": "image_grid_thw",
    "pixel_values_videos": "video_grid_thw",
    "hidden_states": "grid_thw",
}


def _lists(shapes: Tensor | None) -> list[list[int]]:
    """Returns the rows of a tensor of positive numbers, none if it is not one."""
    return shapes.tolist() if shapes is not None and shapes.ndim == 2 and bool((shapes > 0).all()) else []


def pixel_cells(leading: torch.Size, size: torch.Size, first: int = 0) -> tuple[list[ImageCells], Tensor]:
    """Returns the pixels of images as cells, and their numbers (…, 1, height, width); the last of several leading axes
    is that of tiles or frames."""
    tiles = leading[-1] if len(leading) > 1 else 0
    places = [divmod(i, tiles) if tiles else (i, None) for i in range(leading.numel())]
    cells = [ImageCells(size[0], size[1], first + image, tile) for image, tile in places]
    numbers = FACTOR * torch.arange(len(cells))[:, None] + torch.arange(1, size.numel() + 1)
    return cells, numbers.reshape(*leading, 1, *size)


def _in_blocks(shapes: list[list[int]], size: int, step: int, first: int) -> tuple[list[ImageCells], Tensor]:
    """Returns the patches of images of these frames, rows and columns, of which each is of `step` frames, and their
    numbers (patches, 1), block by block of `size` × `size`."""
    cells: list[ImageCells] = []
    numbers = []
    for image, (frames, rows, columns) in enumerate(shapes):
        blocks = torch.arange(1, rows * columns + 1).view(rows // size, size, columns // size, size)
        for frame in range(frames):
            numbers.append(FACTOR * len(cells) + blocks.transpose(1, 2).flatten())
            cells.append(ImageCells(rows, columns, first + image, frame * step if frames > 1 else None))
    return cells, torch.cat(numbers)[:, None]


def _padded(image: int, count: int, length: int) -> Tensor:
    """Returns the numbers of an image's cells, (length, 1), row by row, and zeros up to a length."""
    numbers = torch.arange(1, length + 1)[:, None]
    return torch.where(numbers <= count, numbers + FACTOR * image, 0)
