"""What a model's image processor does with an image, by its file of settings, which is not trusted."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.bounded_json import CONFIG_BYTES, read_object
from attnviz.base.formatting import grouped
from attnviz.base.language import value_error
from attnviz.inputs import WHOLE, Box

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 32_000_000  # of an image, also between two steps
LONGEST_SIDE = 4_096  # pixels of what a model sees
# Those of transformers that resize, crop, rescale and normalize, and do nothing else.
PROCESSORS = frozenset(
    f"{name}ImageProcessor"
    for name in (
        "Beit",
        "Bit",
        "Blip",
        "ChineseCLIP",
        "CLIP",
        "DeiT",
        "MobileNetV1",
        "Pvt",
        "Segformer",
        "Siglip",
        "ViT",
    )
)
OTHER_STEPS = ("do_pad", "use_square_size")  # which these processors can take, too
FILTERS = range(6)  # of Pillow
BICUBIC = 3
HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class ImageProcessor:
    """The steps from an image to the input of a model: resize, crop the center, rescale the colors, normalize them.

    `size` is a height and a width, or the length of the shorter edge. A step that is None is left out. With `square`,
    the largest square in the middle of the image is resized.
    """

    size: tuple[int, int] | int | None
    crop: tuple[int, int] | None = None  # height and width
    resample: int = BICUBIC
    factor: float = 1 / 255  # of colors, which are 0 to 255
    mean: tuple[float, ...] = HALF
    spread: tuple[float, ...] = HALF
    square: bool = False

    @property
    def example_size(self) -> tuple[int, int] | None:
        """The height and width of what a model sees of a square image; None for those of the image."""
        return self.crop or ((self.size, self.size) if isinstance(self.size, int) else self.size)

    def resized(self, image: "Image") -> Float[np.ndarray, "3 height width"]:
        """Returns the colors of an image, 0 to 255, after the first two steps. Raises ValueError if it would become too
        large."""
        box, (width, height) = self._resizing(*image.size)
        if width * height > MOST_PIXELS or max(self.crop or (width, height)) > LONGEST_SIDE:
            raise value_error(
                "The image processor of the model makes {width} × {height} pixels of this image; the model is given "
                "at most {LONGEST_SIDE} along a side. Crop the image.",
                width=grouped(width),
                height=grouped(height),
                LONGEST_SIDE=grouped(LONGEST_SIDE),
            )
        if self.size is not None:
            image = image.resize((width, height), self.resample, box=box)
        if self.crop is not None:
            left, top = (width - self.crop[1]) // 2, (height - self.crop[0]) // 2
            image = image.crop((left, top, left + self.crop[1], top + self.crop[0]))  # black beyond the image
        return np.asarray(image, np.float32).transpose(2, 0, 1)

    def place(self, width: int, height: int, part: Box = WHOLE) -> Box:
        """Returns where on an image of this size a part of what the model sees lies, which is given in fractions: its
        left, top, right and bottom in pixels of the image; beyond the image where black is added."""
        (left, top, right, bottom), size = self._resizing(width, height)
        across, down = (right - left) / size[0], (bottom - top) / size[1]
        input_height, input_width = self.crop or (size[1], size[0])
        x = left + (size[0] - input_width) // 2 * across
        y = top + (size[1] - input_height) // 2 * down
        across, down = across * input_width, down * input_height
        return x + part[0] * across, y + part[1] * down, x + part[2] * across, y + part[3] * down

    def _resizing(self, width: int, height: int) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
        """Returns the box of an image of this size that is resized, and the width and height that it gets."""
        left, top, right, bottom = 0, 0, width, height
        side = min(width, height)
        if self.square and self.size is not None:
            left, top = (width - side) // 2, (height - side) // 2
            right, bottom = left + side, top + side
        if isinstance(self.size, int):
            width, height = int(self.size * width / side), int(self.size * height / side)
        elif self.size is not None:
            height, width = self.size
        return (left, top, right, bottom), (width, height)

    def normalized(self, colors: Float[Tensor, "channels height width"]) -> Float[Tensor, "channels height width"]:
        """Returns colors, 0 to 255, after the last two steps."""
        mean, spread = self._mean_and_spread(len(colors))
        return (colors * self.factor - mean) / spread

    def colors(self, pixels: Float[Tensor, "channels height width"]) -> Float[Tensor, "channels height width"]:
        """Returns the colors, 0 to 255, of the input of a model."""
        mean, spread = self._mean_and_spread(len(pixels))
        return (pixels * spread + mean) / self.factor

    def _mean_and_spread(self, channels: int) -> tuple[Tensor, Tensor]:
        mean, spread = (torch.tensor(numbers[:channels])[:, None, None] for numbers in (self.mean, self.spread))
        return mean, spread


def read_settings(folder: Path) -> dict[str, Any]:
    """Returns the settings of the image processor in a model's folder; none if it has no file of them. Raises
    ValueError if a file is damaged."""
    nested = _read(folder / "processor_config.json").get("image_processor")
    return nested if isinstance(nested, dict) else _read(folder / "preprocessor_config.json")


def image_processor(settings: dict[str, Any], model_type: str) -> ImageProcessor:
    """Returns the image processor that transformers makes of settings for a type of model.

    Raises ValueError, with the name of the processor or the setting, for one that does anything else, and for settings
    that are not valid.
    """
    name, defaults = _processor_class(settings, model_type)
    if name not in PROCESSORS:
        raise ValueError(name)

    def setting(key: str) -> Any:
        return settings[key] if key in settings else getattr(defaults, key, None)  # null is a step left out

    def is_done(step: str) -> bool:
        value = setting(f"do_{step}")
        return bool(_checked(f"do_{step}", value, value is None or isinstance(value, bool)))

    for step in OTHER_STEPS:
        _checked(step, None, not settings.get(step))
    size, resample = None, BICUBIC
    if is_done("resize"):
        size, resample = _size(setting("size"), bool(setting("default_to_square"))), setting("resample")
    crop = _height_and_width("crop_size", setting("crop_size")) if is_done("center_crop") else None
    factor = setting("rescale_factor") if is_done("rescale") else 1.0
    mean, spread = _normalization(setting) if is_done("normalize") else ((0.0,) * 3, (1.0,) * 3)
    return ImageProcessor(
        size,
        crop,
        _checked("resample", resample, isinstance(resample, int) and resample in FILTERS),
        _checked("rescale_factor", factor, _is_number(factor) and factor > 0),
        mean,
        spread,
    )


def square_processor(settings: dict[str, Any], size: tuple[int, int]) -> ImageProcessor:
    """Returns a processor that resizes the largest square of an image, with the mean and the standard deviation of
    colors in these settings, if they are valid."""
    try:
        return ImageProcessor(size, None, BICUBIC, 1 / 255, *_normalization(settings.get), square=True)
    except ValueError:
        return ImageProcessor(size, square=True)


def _processor_class(settings: dict[str, Any], model_type: str) -> tuple[str, Any]:
    """Returns the name of the image processor of transformers, and its class that needs Pillow alone."""
    from transformers.models.auto.image_processing_auto import (
        IMAGE_PROCESSOR_MAPPING_NAMES,
        get_image_processor_class_from_name,
    )

    named = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    if isinstance(named, str):
        name = named.replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast")
    else:
        name = IMAGE_PROCESSOR_MAPPING_NAMES.get(model_type, {}).get("torchvision", "")
    return name, get_image_processor_class_from_name(f"{name}Pil") if name in PROCESSORS else None


def _read(file: Path) -> dict[str, Any]:
    return read_object(file, CONFIG_BYTES) if file.is_file() else {}


def _checked(name: str, value: Any, is_valid: bool) -> Any:
    if not is_valid:
        raise ValueError(name)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9 and math.isfinite(value)


def _size(value: Any, square: bool) -> tuple[int, int] | int:
    """Returns a height and a width, or the length of the shorter edge; a single number is both sides if `square`."""
    if isinstance(value, dict) and value.keys() == {"shortest_edge"}:
        value, square = value["shortest_edge"], False
    sides = _height_and_width("size", value)
    return sides[0] if isinstance(value, int) and not square else sides


def _height_and_width(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, dict):
        value = [value.get(side) for side in ("height", "width")] if value.keys() == {"height", "width"} else None
    sides = value if isinstance(value, list) else [value, value]
    is_valid = len(sides) == 2 and all(type(side) is int and 0 < side <= LONGEST_SIDE for side in sides)
    height, width = _checked(name, sides, is_valid)
    return height, width


def _normalization(setting: Callable[[str], Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return _per_channel("image_mean", setting("image_mean")), _per_channel("image_std", setting("image_std"), 1e-6)


def _per_channel(name: str, value: Any, least: float = 0.0) -> tuple[float, ...]:
    numbers = value if isinstance(value, list | tuple) else [value] * 3
    _checked(name, value, len(numbers) == 3 and all(_is_number(one) and abs(one) >= least for one in numbers))
    return tuple(map(float, numbers))
