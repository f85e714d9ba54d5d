"""A model's own processor of an image and a text, by the settings in its folder, which are not trusted; without torch,
in the process of its tokenizer."""

import base64
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from transformers.image_processing_utils import select_best_resolution
from transformers.models.auto.image_processing_auto import (
    IMAGE_PROCESSOR_MAPPING_NAMES,
    get_image_processor_class_from_name,
)
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES, processor_class_from_name
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import get_optimal_tiled_canvas

from attnviz.base.bounded_json import CONFIG_BYTES, read_object

PARTS = {"image_processor", "tokenizer", "video_processor"}  # of the processors that are used
MARK = "\ue000"  # a character that no text has
LISTS = ("input_ids", "attention_mask", "special_tokens_mask", "offset_mapping")
COLORS = {"image_mean": 0.0, "image_std": 1.0, "rescale_factor": 1.0}  # with what leaves them as they are
STEPS = {"image_mean": "do_normalize", "image_std": "do_normalize", "rescale_factor": "do_rescale"}


class ImageTextProcessor:
    """A processor of transformers, of which nothing but the image processor, its own settings and the chat template
    are read: whatever else its files name, such as other models, is left alone."""

    def __init__(self, folder: Path, model_type: str, tokenizer: Any) -> None:
        settings = _read(folder / "processor_config.json")
        images = settings.get("image_processor")
        images = images if isinstance(images, dict) else _read(folder / "preprocessor_config.json")
        if not settings and not images:
            raise ValueError("without preprocessor_config.json")
        if template := _read(folder / "chat_template.json").get("chat_template"):
            tokenizer.chat_template = tokenizer.chat_template or template
        name = str(settings.get("processor_class") or images.get("processor_class"))
        if name not in PROCESSOR_MAPPING_NAMES.values():
            name = str(PROCESSOR_MAPPING_NAMES[model_type])
        kind = processor_class_from_name(name)
        if not {"image_processor", "tokenizer"} <= {*kind.get_attributes()} <= PARTS:
            raise ValueError(name)
        own = {*inspect.signature(kind.__init__).parameters} - {"self", "chat_template", *PARTS}
        values = {key: settings[key] for key in own & settings.keys() if isinstance(settings[key], str | int | float)}
        processor = _image_processor(images, model_type)
        preprocess = processor.preprocess
        processor.preprocess = lambda *args, **options: self._note(preprocess(*args, **options))
        parts = {"image_processor": processor, "tokenizer": tokenizer}
        parts |= {"video_processor": None} if "video_processor" in kind.get_attributes() else {}
        module = sys.modules[kind.__module__]
        if getattr(module, "num2words", "") is None:  # of videos alone
            module.num2words = str  # type: ignore[attr-defined]
        self.tokenizer, self.processed = tokenizer, dict[str, Any]()  # what the image processor has made last
        self.processor = type(kind.__name__, (_Observed, kind), {})(**parts, **values)

    @property
    def description(self) -> dict[str, Any]:
        """What stands for an image in a text, by the chat template, and its token; and how colors are normalized."""
        images = self.processor.image_processor
        numbers = {
            name: np.broadcast_to(getattr(images, name) if getattr(images, step, False) else COLORS[name], 3).tolist()
            for name, step in STEPS.items()
        }
        return {"image_text": self._image_text(), "image_token": self.processor.image_token, "colors": numbers}

    def encode(self, text: str, image: str, size: list[int], **options: Any) -> dict[str, Any]:
        """Returns what the processor makes of a text and of an image, whose colors are given as RGB in base64.

        The lists of the tokenizer, the text with all placeholders, the characters of one that they replace, arrays for
        the model, and rows and columns of the tiles.
        """
        picture = Image.frombytes("RGB", (size[0], size[1]), base64.b64decode(image))
        made = self.processor(
            text=[text], images=[picture], return_tensors="np", return_offsets_mapping=self.tokenizer.is_fast,
            return_special_tokens_mask=True, **options,
        )  # fmt: skip
        rest = {name: np.asarray(value) for name, value in made.items() if name not in LISTS}
        lists = {name: np.asarray(made[name])[0].tolist() for name in LISTS if name in made}
        segments = [None if mark else 0 for mark in lists["special_tokens_mask"]]
        return {
            "encoding": lists | {"sequence_ids": segments},
            "text": self.processor.expanded,
            "replaced": self.processor.replaced,
            "arrays": {name: _packed(array) for name, array in rest.items() if array.dtype.kind in "fiub"},
            "tiles": self._tiles(made, picture),
        }

    def _note(self, made: Any) -> Any:
        self.processed = {**made}  # a processor leaves out a part of it
        return made

    def _image_text(self) -> str:
        """Returns what the chat template writes for an image before a text, or else its token."""
        token = self.processor.image_token
        if not self.tokenizer.chat_template:
            return token
        try:
            without, with_image = (
                self.tokenizer.apply_chat_template([{"role": "user", "content": content}], tokenize=False)
                for content in (_content(MARK, False), _content(MARK, True))
            )
        except Exception:  # noqa: BLE001 - whatever a template raises
            return token
        (before, _, after), (own, _, rest) = without.partition(MARK), with_image.partition(MARK)
        start = next((i for i, (one, other) in enumerate(zip(before, own, strict=False)) if one != other), len(before))
        added = own[start:] if after == rest else ""
        return added if token in added else token

    def _tiles(self, made: Any, picture: Image.Image) -> list[int] | None:
        """Returns the rows and columns of the tiles that the image is cut into, and whether the whole image is before
        them, or else after them; None where that is not known, or where it is not cut."""
        images, processed = self.processor.image_processor, self.processed
        if "rows" in processed:
            rows, columns = (int(np.ravel(processed[name])[0]) for name in ("rows", "cols"))
            return [rows, columns, 0] if rows else None
        side = made["pixel_values"].shape[-2:]
        if getattr(images, "image_grid_pinpoints", None) and "image_sizes" in made:
            best = select_best_resolution(picture.size[::-1], images.image_grid_pinpoints)
            return [best[0] // side[0], best[1] // side[1], 1]
        if getattr(images, "max_patches", None) and "num_patches" in processed:
            limits = images.min_patches, images.max_patches
            columns, rows = get_optimal_tiled_canvas(picture.size[::-1], side, *limits)
            return [rows, columns, 0] if rows * columns > 1 else None
        return None


class _Observed:
    """Notes the text with all placeholders, which a processor does not return."""

    expanded, replaced = "", (0, 0, 0)

    def check_argument_for_proper_class(self, _name: str, argument: Any) -> Any:
        return type(argument)  # there is no processor of videos

    def get_text_with_replacements(self, *texts: Any, **replacements: Any) -> Any:
        made, places = super().get_text_with_replacements(*texts, **replacements)  # type: ignore[misc]
        self.expanded = made[0]
        if places and places[0]:
            self.replaced = (*places[0][0]["span"], places[0][0]["new_span"][1])
        return made, places


def _content(text: str, has_image: bool) -> list[dict[str, str]]:
    return [*([{"type": "image"}] if has_image else []), {"type": "text", "text": text}]


def _image_processor(settings: dict[str, Any], model_type: str) -> Any:
    """Returns the image processor that settings name, or else that of the type of model, of the kind that needs Pillow
    alone."""
    named = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    name = named.replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast").removesuffix("Pil") + "Pil"
    known = {kinds.get("pil") for kinds in IMAGE_PROCESSOR_MAPPING_NAMES.values()} - {None}
    if name not in known:
        name = IMAGE_PROCESSOR_MAPPING_NAMES[model_type]["pil"]
    return get_image_processor_class_from_name(name).from_dict(settings)


def _read(file: Path) -> dict[str, Any]:
    return read_object(file, CONFIG_BYTES) if file.is_file() else {}


def _packed(array: np.ndarray) -> list[Any]:
    """Returns an array as JSON: its type, its shape, and its bytes in base64."""
    array = array.astype({"f": "float32", "b": "bool"}.get(array.dtype.kind, "int64"))
    return [str(array.dtype), [*array.shape], base64.b64encode(array.tobytes()).decode()]
