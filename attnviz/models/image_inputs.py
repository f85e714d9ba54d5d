"""Pictures as inputs of vision models, and names of their patches."""

import io
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.bounded_json import CONFIG_BYTES, read_object
from attnviz.formatting import grouped
from attnviz.language import _
from attnviz.tracing.patch_names import patch_names

LARGEST = 32_000_000  # pixels of a picture that someone brings
LONGEST_SIDE = 4_096  # pixels of what a model sees
FORMATS = ("PNG", "JPEG", "WEBP")
DAMAGED = (OSError, SyntaxError, EOFError, ValueError, TypeError, struct.error)  # what Pillow may raise


@dataclass(frozen=True)
class ImageInputs:
    """The picture input of a model: a square of `size` pixels, split into patches, normalized by mean and spread."""

    size: int
    patch: int
    channels: int = 3
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    spread: tuple[float, ...] = (0.5, 0.5, 0.5)
    windows: bool = False  # the patches stand together by windows, or have other tokens behind them

    @property
    def patches(self) -> tuple[str, ...]:
        """The names of the patches, "row·column", in reading order; empty if the model orders them otherwise."""
        side = 0 if self.windows else self.size // self.patch
        return patch_names(side, side)

    def pixels(self, image: bytes | None = None) -> Float[Tensor, "1 channels size size"]:
        """Returns the central square of a picture file, or the example drawing, as the model's input."""
        colors = torch.from_numpy(_opened(image, self.size)) if image is not None else drawing(self.size)
        if self.channels == 1:
            colors = colors.mean(0, keepdim=True)
        mean, spread = (torch.tensor(numbers[: self.channels])[:, None, None] for numbers in (self.mean, self.spread))
        return ((colors - mean) / spread)[None]


def image_inputs(config: Any, folder: Path | None = None) -> ImageInputs | None:
    """Returns the picture input of a model, by its preprocessor_config.json; None if it is not known."""
    config = getattr(config, "vision_config", None) or config
    size, patch, channels = (
        _first(getattr(config, name, None)) for name in ("image_size", "patch_size", "num_channels")
    )
    if not 0 < patch <= size <= LONGEST_SIDE:
        return None
    settings = _preprocessor(folder)
    mean, spread = (_three(settings.get(name)) for name in ("image_mean", "image_std"))
    windows = any(getattr(config, name, None) for name in ("window_size", "masked_unit_size", "num_detection_tokens"))
    return ImageInputs(size, patch, channels or 3, mean, spread, windows)


def drawing(size: int) -> Float[Tensor, "3 size size"]:
    """Returns the example picture: a sun in the evening sky above a dark field."""
    y, x = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    sky = torch.stack([0.3 + 0.6 * y, 0.4 + 0.2 * y, 0.8 - 0.5 * y])
    sun = ((x - 0.65) ** 2 + (y - 0.35) ** 2).sqrt() < 0.15
    field = y > 0.75 - 0.05 * (x * 2 * math.pi).sin()
    sky = torch.where(sun, torch.tensor([1.0, 0.9, 0.5])[:, None, None], sky)
    return torch.where(field, torch.tensor([0.1, 0.25, 0.1])[:, None, None], sky)


def _opened(image: bytes, size: int) -> np.ndarray:
    from PIL import Image, ImageOps

    try:
        opened = Image.open(io.BytesIO(image), formats=FORMATS)
        width, height = opened.size
        small = width * height <= LARGEST
        if small:
            upright = ImageOps.exif_transpose(opened).convert("RGB")
    except (*DAMAGED, Image.DecompressionBombError) as error:
        raise ValueError(_("This is no picture that can be read. Give one as PNG, JPEG or WebP.")) from error
    if not small:
        raise ValueError(
            _("This picture has {width} × {height} pixels; at most {LARGEST} are read. Make it smaller.").format(
                width=grouped(width), height=grouped(height), LARGEST=grouped(LARGEST)
            )
        )
    width, height = upright.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    square = upright.resize((size, size), box=(left, top, left + side, top + side))
    return np.asarray(square, np.float32).transpose(2, 0, 1) / 255


def _preprocessor(folder: Path | None) -> dict[str, Any]:
    file = folder / "preprocessor_config.json" if folder else None
    return read_object(file, CONFIG_BYTES) if file and file.is_file() else {}


def _first(number: Any) -> int:
    number = number[0] if isinstance(number, list | tuple) and number else number
    return number if isinstance(number, int) and number > 0 else 0


def _three(numbers: Any) -> tuple[float, ...]:
    right = isinstance(numbers, list) and len(numbers) == 3 and all(isinstance(n, int | float) and n for n in numbers)
    right = right and all(map(math.isfinite, numbers))
    return tuple(map(float, numbers)) if right else (0.5, 0.5, 0.5)
