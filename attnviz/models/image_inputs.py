"""Images as inputs of vision models."""

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import _, value_error
from attnviz.models.drawings import drawing
from attnviz.models.image_processor import (
    LONGEST_SIDE,
    MOST_PIXELS,
    ImageProcessor,
    image_processor,
    read_settings,
    square_processor,
)
from attnviz.models.input_image import InputImage, whole_image

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP")
DAMAGED = (OSError, SyntaxError, EOFError, ValueError, TypeError, struct.error)  # what Pillow may raise


@dataclass(frozen=True)
class ImageInputs:
    """The image input of a model."""

    processor: ImageProcessor
    example_size: tuple[int, int]  # height and width of the example drawing
    channels: int = 3
    unknown: str = ""  # the processor or setting that prevents processing as the model does

    def pixels(self, image: bytes | None = None) -> Float[Tensor, "1 channels height width"]:
        """Returns the content of an image file, or the example drawing, as the model's input."""
        if image is None:
            colors = drawing(*self.example_size) * 255
        else:
            colors = torch.from_numpy(self.processor.resized(opened_image(image)))
        if self.channels == 1:
            colors = colors.mean(0, keepdim=True)
        return self.processor.normalized(colors)[None]

    def input_image(self, image: bytes | None = None) -> InputImage:
        """Returns the content of an image file, or the example drawing, as the model sees it."""
        return self.shown(self.pixels(image))

    def shown(self, pixels: Float[Tensor, "1 channels height width"]) -> InputImage:
        """Returns the model's input as an image."""
        return whole_image(self.processor.colors(pixels[0]) / 255)

    @property
    def note(self) -> str:
        """A sentence for a model whose own image processor is not followed; empty if it is."""
        if not self.unknown:
            return ""
        height, width = self.example_size
        return _(
            "This model’s image processor does something that is not supported here ({unknown}): the largest square of "
            "an image is resized to {width} × {height} pixels instead, so the weights may differ from those that its "
            "users get.",
            unknown=quoted(self.unknown),
            width=width,
            height=height,
        )


def image_inputs(config: Any, folder: Path | None = None) -> ImageInputs | None:
    """Returns the image input of a model, by the settings of its image processor; without, a square of the size in its
    config. None if the size is not known."""
    model_type = str(getattr(config, "model_type", ""))
    height, width = example_size(config) or (0, 0)
    channels, _width = _pair(getattr(getattr(config, "vision_config", None) or config, "num_channels", 0))
    settings = read_settings(folder) if folder else {}
    unknown, processor = "", None
    if settings:
        try:
            processor = image_processor(settings, model_type)
        except ValueError as problem:
            unknown = str(problem)
    processor = processor or square_processor(settings, (height, width))
    size = processor.example_size or (height, width)
    return ImageInputs(processor, size, channels or 3, unknown) if 0 < min(size) <= max(size) <= LONGEST_SIDE else None


def example_size(config: Any) -> tuple[int, int] | None:
    """Returns the height and width of the images that a model sees, by its config; None if it does not say."""
    size = _pair(getattr(getattr(config, "vision_config", None) or config, "image_size", 0))
    return size if 0 < min(size) <= max(size) <= LONGEST_SIDE else None


def opened_image(image: bytes) -> "Image":
    """Returns the content of an image file, upright, in RGB. Raises ValueError if it is none, or too large."""
    from PIL import Image, ImageOps

    try:
        opened = Image.open(io.BytesIO(image), formats=FORMATS)
        width, height = opened.size
        small = width * height <= MOST_PIXELS
        if small:
            upright = ImageOps.exif_transpose(opened)
            if upright.mode.startswith("I"):  # 16 bits, of which Pillow would keep the lowest values alone
                upright = Image.fromarray((np.asarray(upright) / 257).round().clip(0, 255).astype(np.uint8))
            if "A" in upright.getbands() or "transparency" in upright.info:  # on white, as image processors put it
                upright = upright.convert("RGBA")
                upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
            upright = upright.convert("RGB")
    except Image.DecompressionBombError as error:
        raise value_error(
            "This image has more than {LARGEST} pixels, which is the most that is read. Make it smaller.",
            LARGEST=grouped(MOST_PIXELS),
        ) from error
    except DAMAGED as error:
        raise value_error("This is not an image that can be read. Use a PNG, JPEG or WebP file.") from error
    if not small:
        raise value_error(
            "This image has {width} × {height} pixels; at most {LARGEST} are read. Make it smaller.",
            width=grouped(width),
            height=grouped(height),
            LARGEST=grouped(MOST_PIXELS),
        )
    return upright


def _pair(numbers: Any) -> tuple[int, int]:
    """Returns two positive integers of a config, or the one that is both; zeros if they are anything else."""
    first, *_, last = numbers if isinstance(numbers, list | tuple) and numbers else (numbers, numbers)
    return (first, last) if all(type(number) is int and number > 0 for number in (first, last)) else (0, 0)
