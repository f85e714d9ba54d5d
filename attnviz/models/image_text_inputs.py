"""An image and a text as inputs of a model, by its own processor, whose results are checked before the model reads
them."""

import base64
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import value_error
from attnviz.base.text import check_text
from attnviz.models.image_inputs import example_size, opened_image
from attnviz.models.image_processor import MOST_PIXELS
from attnviz.models.input_image import InputImage, tiled_image, unblocked
from attnviz.models.text_inputs import TextInputs, Tokens
from attnviz.models.tokenizer_process import Encoding, TokenizerProcess
from attnviz.tracing.forward_arguments import forward_parameters

MOST_PATCHES = 1 << 15  # all of which look at each other, or at those of their tile
MOST_NUMBERS = 1 << 24  # of what a model is given of an image: 17 tiles of SmolVLM, or 3,500 tokens of Qwen2.5-VL
DRAWING = 224  # pixels of a side of a drawing for a model that sees images of any size
# What is known to take no more memory than its own size, once it is checked; anything else is refused.
KNOWN = {
    *("pixel_values", "pixel_attention_mask", "image_grid_thw", "image_sizes", "batch_num_images"),
    *("token_type_ids", "mm_token_type_ids"),
}


@dataclass(frozen=True, eq=False)
class ImageTextInputs:
    """Makes the inputs of a model from an image and a text, with the processor of its folder."""

    text_inputs: TextInputs
    tokenizer: TokenizerProcess
    note: str = ""

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.text_inputs.name

    @property
    def config(self) -> Any:
        """The config of the model."""
        return self.text_inputs.model.config

    @property
    def example_size(self) -> tuple[int, int]:
        """The height and width of a drawing for the model."""
        return example_size(self.config) or (DRAWING, DRAWING)

    def encode(
        self, text: str, image: bytes, *, has_special: bool = False
    ) -> tuple[dict[str, Tensor], Tokens, tuple[int, int, int]]:
        """Returns the batch of a text and the content of an image file, the tokens, and where in the text what stands
        for the image starts and ends, and ends once it has all placeholders. An image that the text has no place for
        comes first. None are added to a text that has its special tokens written in it.

        Raises ValueError for what is too large, and for what the processor refuses.
        """
        text, token, around = check_text(text), *(self.tokenizer.images[name] for name in ("image_token", "image_text"))
        if text.count(token) > 1:
            raise value_error(
                "{name} reads one image here. Leave one {token} in the text.", name=self.name, token=quoted(token)
            )
        if token not in text:
            text = around + text
        made = self._made(text, image, add_special_tokens=not has_special)
        encoded = Encoding(made["encoding"])
        count, limit = len(encoded["input_ids"]), self.text_inputs.limit
        if count > limit:
            raise value_error(
                "The image and the text have {count} tokens together, and at most {limit} are read. Take a smaller "
                "image, or shorten the text.",
                count=grouped(count),
                limit=grouped(limit),
            )
        batch, tokens = self.text_inputs.inputs(encoded, [made["text"]], has_special=has_special)
        ids, (start, _end, end) = batch["input_ids"][0].tolist(), made["replaced"]
        before, _token, after = around.partition(token)  # what stands around an image
        start -= len(before) if made["text"][:start].endswith(before) else 0
        end += len(after) if made["text"][end:].startswith(after) else 0
        placeholders = {getattr(self.config, name, None) for name in ("image_token_id", "image_token_index")}
        patches = {i for i, id in enumerate(ids) if id in placeholders}
        inside = {i for i, (first, last) in enumerate(tokens.spans) if start <= first < last <= end}
        special = tuple(i for i in tokens.special if i not in patches)
        tokens = replace(tokens, special=special, of_image=tuple(sorted(patches | inside)))
        return batch | self._arrays(made), tokens, tuple(made["replaced"])

    def input_image(self, image: bytes) -> InputImage:
        """Returns the content of an image file as the model sees it. Raises ValueError as `encode`."""
        made = self._made(self.tokenizer.images["image_text"], image)
        arrays = self._arrays(made)
        pixels, shape = arrays["pixel_values"].float(), arrays.get("image_grid_thw")
        if shape is not None:
            vision, (_frames, rows, columns) = self.config.vision_config, shape[0].tolist()
            pixels = unblocked(pixels, rows, columns, vision.spatial_merge_size, vision.temporal_patch_size)
        tiles = self._colors(pixels.reshape(-1, *pixels.shape[-3:]))
        return tiled_image(tiles, *(made["tiles"] or ()))

    def _colors(self, pixels: Float[Tensor, "tiles 3 height width"]) -> Float[Tensor, "tiles 3 height width"]:
        mean, spread, factor = (torch.tensor(one)[:, None, None] for one in self.tokenizer.images["colors"].values())
        return (pixels * spread + mean) / (255 * factor)

    def _made(self, text: str, image: bytes, **options: Any) -> Any:
        picture = opened_image(image)
        colors = base64.b64encode(picture.tobytes()).decode()
        return self.tokenizer.encode_image(text=text, image=colors, size=[*picture.size], **options)

    def _arrays(self, made: Any) -> dict[str, Tensor]:
        """Returns the arrays that the model takes. Raises ValueError for what would take it more memory than they
        have."""
        names = forward_parameters(self.text_inputs.model)
        arrays = {
            name: _array(*packed) for name, packed in made["arrays"].items() if name in names and name != "labels"
        }
        pixels, shape, sizes = (arrays.get(name) for name in ("pixel_values", "image_grid_thw", "image_sizes"))
        if unknown := next(iter(arrays.keys() - KNOWN), "" if pixels is not None else "pixel_values"):
            raise self._unsupported(unknown)
        assert pixels is not None
        if pixels.numel() > MOST_NUMBERS:
            raise value_error(
                "The image processor of {name} makes {count} numbers of this image; at most {most} are read. Take a "
                "smaller image.",
                name=self.name,
                count=grouped(pixels.numel()),
                most=grouped(MOST_NUMBERS),
            )
        if not pixels.isfinite().all():
            raise self._unsupported("pixel_values")
        side = getattr(getattr(self.config, "vision_config", self.config), "patch_size", 1)
        area = math.prod(side) if isinstance(side, list | tuple) else side**2
        if (len(pixels) if shape is not None else pixels.numel() / 3 / max(1, area)) > MOST_PATCHES:
            raise value_error(
                "{name} cuts this image into more than {most} patches. Take a smaller image.",
                name=self.name,
                most=grouped(MOST_PATCHES),
            )
        if shape is not None and (shape.shape != (1, 3) or shape.min() < 1 or shape.prod() != len(pixels)):
            raise self._unsupported("image_grid_thw")
        if sizes is not None and (sizes.shape != (1, 2) or sizes.min() < 1 or sizes.prod() > MOST_PIXELS):
            raise self._unsupported("image_sizes")
        return arrays | {"pixel_values": pixels.to(self.text_inputs.model.dtype)}

    def _unsupported(self, part: str) -> ValueError:
        return value_error(
            "The image processor of {name} does something that is not supported here ({part}). Take another model.",
            name=self.name,
            part=part,
        )


def _array(kind: str, shape: list[int], content: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(bytearray(base64.b64decode(content)), kind).reshape(shape))
