"""Masks of images: a sequence that is a grid, or that holds images among text."""

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from attnviz.base.language import N_, value_error
from attnviz.masks.mask import Array, LengthDependent, Mask
from attnviz.masks.segments import segment_value


@dataclass(frozen=True)
class Axial(Mask):
    """On a grid of `width` columns, row by row: each query sees its own row and its own column.

    The row attention and the column attention of the Axial Transformer (Ho et al. 2019) in one, which is
    criss-cross attention (Huang et al. 2019).

    Example:
        >>> Axial(2).matrix(4, 4).long()
        tensor([[1, 1, 1, 0],
                [1, 1, 0, 1],
                [1, 0, 1, 1],
                [0, 1, 1, 1]])
    """

    CONDITION = N_("the two are in the same row or in the same column of a grid {width} wide")

    width: int = field(default=4, metadata={"min": 1, "max": 131072})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (q // self.width == k // self.width) | (q % self.width == k % self.width)


@dataclass(frozen=True)
class Neighborhood2D(LengthDependent):
    """On a grid of `width` columns, row by row: each query sees a rectangle around it, which never leaves the grid.

    Near an edge the rectangle moves inward rather than shrinking, so that all see the same number of keys
    (NATTEN, Hassani et al. 2023). The height of the grid follows from the number of keys; the last row may be
    short. Where the rectangle is larger than the grid, all of it is seen.

    Example:
        >>> Neighborhood2D(4, 1, 3).matrix(4, 4).long()
        tensor([[1, 1, 1, 0],
                [1, 1, 1, 0],
                [0, 1, 1, 1],
                [0, 1, 1, 1]])
    """

    CONDITION = N_(
        "the key is in the rectangle of {kernel_height} rows and {kernel_width} columns around it, moved inward at "
        "the edges of a grid {width} wide"
    )

    width: int = field(default=4, metadata={"min": 1, "max": 131072})
    kernel_height: int = field(default=3, metadata={"min": 1, "max": 4095, "label": "Kernel height"})
    kernel_width: int = field(default=3, metadata={"min": 1, "max": 4095, "label": "Kernel width"})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, size in (("kernel_height", self.kernel_height), ("kernel_width", self.kernel_width)):
            if size % 2 == 0:
                raise value_error(
                    "Neighborhood2D needs an odd {name}, so that it has a middle; it got {size}. Use {odd}.",
                    name=name,
                    size=size,
                    odd=size + 1,
                )

    def allowed(self, queries: int, keys: int, h: Array, q: Array, k: Array) -> Array:
        height = -(-keys // self.width)
        rows = _near(q // self.width, k // self.width, height, self.kernel_height)
        return rows & _near(q % self.width, k % self.width, self.width, self.kernel_width)


def _near(query: Array, key: Array, length: int, kernel: int) -> Array:
    half = kernel // 2
    return abs(query.clamp(min=half, max=length - 1 - half) - key) <= half


@dataclass(frozen=True)
class ShiftedWindow2D(Mask):
    """On a grid of `width` columns, row by row: each query sees the square window it is in, all windows moved by
    `shift` rows and columns.

    Swin rolls the grid around, cuts it into windows, and keeps apart what was not together before (Liu et al.
    2021). What remains is this: windows that begin at `shift`, and parts of windows along the edges.

    Example:
        >>> ShiftedWindow2D(4).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [0, 1, 1, 0],
                [0, 1, 1, 0],
                [0, 0, 0, 1]])
    """

    CONDITION = N_(
        "the two are in the same window of {window} × {window} on a grid {width} wide, with all windows moved by "
        "{shift}"
    )

    width: int = field(default=4, metadata={"min": 1, "max": 131072})
    window: int = field(default=2, metadata={"min": 1, "max": 131072})
    shift: int = field(default=1, metadata={"min": 0, "max": 4095})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shift >= self.window:
            raise value_error(
                "ShiftedWindow2D needs a shift smaller than the window of {window}; it got {shift}.",
                window=self.window,
                shift=self.shift,
            )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        before = self.window - self.shift  # as if the first window, cut by the edge, began outside the grid
        row, column = ((position // self.width + before) // self.window for position in (q, k))
        across, along = ((position % self.width + before) // self.window for position in (q, k))
        return (row == column) & (across == along)


@dataclass(frozen=True)
class ImageAndText(Mask):
    """Text and images in one sequence: text is read in one direction, each image in both.

    `spans` are the lengths of text and image in turn, text first; after them comes text again. k ≤ q, or both in
    the same image (Gemma 3).

    Example:
        >>> ImageAndText((1, 2)).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 1, 0],
                [1, 1, 1, 0],
                [1, 1, 1, 1]])
    """

    CONDITION = N_(
        "the key is not after it, or both are in the same image (text and image in turn: {spans}, then text)"
    )

    spans: tuple[int, ...] = field(
        default=(3, 4, 5), metadata={"min": 0, "max": 131072, "many": 64, "label": "Text and image, in turn"}
    )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        images = [span if i % 2 else (0, 0) for i, span in enumerate(pairwise(accumulate(self.spans, initial=0)))]
        first, end = (segment_value(ends, self.spans, q) for ends in zip(*images, (0, 0), strict=True))
        return (k <= q) | ((first <= k) & (k < end))

    def table_size(self) -> int:
        return 2 * sum(self.spans)


@dataclass(frozen=True)
class CrossToImage(Mask):
    """Text looks at images: each query sees the keys of the last image placed at or before it.

    `images_at` are the text positions of the images, and each image has `tokens` keys, one image after the
    other. Text before the first image sees nothing (Flamingo, Alayrac et al. 2022).

    Example:
        >>> CrossToImage((1, 3), 2).matrix(4, 4).long()
        tensor([[0, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 1]])
    """

    CONDITION = N_("the key is one of the {tokens} of the last image at or before it (images at {images_at})")

    images_at: tuple[int, ...] = field(
        default=(0, 6), metadata={"min": 0, "max": 131071, "many": 64, "label": "Images at"}
    )
    tokens: int = field(default=4, metadata={"min": 1, "max": 131072, "label": "Keys of an image"})

    def __post_init__(self) -> None:
        super().__post_init__()
        for before, image in pairwise(self.images_at):
            if image <= before:
                raise value_error(
                    "CrossToImage needs positions from 0 that rise from image to image; it got {image} after {before}.",
                    image=image,
                    before=before,
                )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        stretches = [after - before for before, after in pairwise((0, *self.images_at))]
        return k // self.tokens == segment_value(range(-1, len(stretches)), stretches, q)

    def table_size(self) -> int:
        return max(self.images_at, default=0)


MASKS = (Axial, Neighborhood2D, ShiftedWindow2D, ImageAndText, CrossToImage)
