"""Folders of tiny random models that read images and texts, each with its own processor and a tokenizer."""

import json
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import nn
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

from tests.support.architectures import WORDS
from tests.support.image_models import FAMILIES, IMAGE, START
from tests.support.tiny_models import byte_level, fast

CHAT = """\
{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% else %}\
{% for part in m.content %}{% if part.type == 'image' %}%s{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %};
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"""
SPECIAL = {"eos_token": "<|endoftext|>"}
SQUARE = {"size": {"height": 32, "width": 32}}
TILED = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}


@dataclass(frozen=True)
class ImageTextModel:
    """A family of `image_models`, what its image processor and its processor are told, and the names of its tokens."""

    name: str
    processor: str
    images: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # of special tokens, by their attributes of the tokenizer
    words: tuple[str, ...] = ()  # other special tokens
    image: str = "<image>"  # the token of a patch
    start: str = ""  # the token before an image
    written: str = "<image>\n"  # what the chat template writes for an image
    changes: dict[str, Any] = field(default_factory=dict)  # of the model's sizes


QWEN_WORDS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
QWEN = {
    "images": {"patch_size": 8, "temporal_patch_size": 2, "merge_size": 2, "min_pixels": 1024, "max_pixels": 4096},
    "words": QWEN_WORDS,
    "image": "<|image_pad|>",
    "start": "<|vision_start|>",
    "written": "<|vision_start|><|image_pad|><|vision_end|>",
}
SMOL_WORDS = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
SMOL_WORDS += tuple(f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2))
LLAVA = {"settings": {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}}
CLIP = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
MODELS = {
    "llava": ImageTextModel("LLaVA", "LlavaProcessor", CLIP, words=("<image>",), **LLAVA),
    "qwen2-vl": ImageTextModel("Qwen2-VL", "Qwen2VLProcessor", **QWEN),
    "qwen2.5-vl": ImageTextModel("Qwen2.5-VL", "Qwen2_5_VLProcessor", **QWEN),
    "qwen3-vl": ImageTextModel("Qwen3-VL", "Qwen3VLProcessor", **QWEN),
    "smolvlm": ImageTextModel(
        "SmolVLM", "SmolVLMProcessor", TILED, {"image_seq_len": 4}, words=SMOL_WORDS, written="<image>"
    ),
    "idefics3": ImageTextModel(
        "Idefics3", "Idefics3Processor", TILED, {"image_seq_len": 4}, words=SMOL_WORDS, written="<image>"
    ),
    "gemma3": ImageTextModel(
        "Gemma 3",
        "Gemma3Processor",
        {"size": {"height": 64, "width": 64}},
        {"image_seq_length": 16},
        {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"},
        image="<image_soft_token>",
        written="<start_of_image>",
    ),
    "paligemma": ImageTextModel(
        "PaliGemma", "PaliGemmaProcessor", SQUARE | {"image_seq_length": 16}, words=("<image>",)
    ),
    "internvl": ImageTextModel(
        "InternVL",
        "InternVLProcessor",
        SQUARE | {"min_patches": 1, "max_patches": 4},
        {"image_seq_length": 4},
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        image="<IMG_CONTEXT>",
        written="<IMG_CONTEXT>\n",
    ),
    "llava-next": ImageTextModel(
        "LLaVA-NeXT",
        "LlavaNextProcessor",
        CLIP | {"image_grid_pinpoints": [[32, 64], [64, 32]]},
        words=("<image>",),
        **LLAVA,
    ),
}  # fmt: skip


def save_model(name: str, folder: Path) -> Path:
    """Writes a model, its tokenizer and its processor's settings into a folder."""
    made = MODELS[name]
    family = next(one for one in FAMILIES if one.name == made.name)
    tokenizer = fast(byte_level().backend_tokenizer, bos_token="<s>", **SPECIAL, extra_special_tokens=dict(made.names))
    tokenizer.add_special_tokens({"additional_special_tokens": [*made.words]}, replace_extra_special_tokens=False)
    tokenizer.chat_template = CHAT.replace("%s", made.written)
    ids = {IMAGE: tokenizer.convert_tokens_to_ids(made.image), WORDS: len(tokenizer)}
    if made.start:
        ids |= {START: tokenizer.convert_tokens_to_ids(made.start)}
    sizes = _replaced(family.sizes | made.changes, ids)
    torch.manual_seed(0)
    config = getattr(hf, family.config)(**sizes)
    model = hf.AutoModelForImageTextToText.from_config(config, attn_implementation="eager")
    for weight in model.parameters():
        if weight.ndim > 1:  # random weights of transformers are so small that all attention is even
            nn.init.normal_(weight, std=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kind = IMAGE_PROCESSOR_MAPPING_NAMES[config.model_type]["torchvision"]
    images = made.images | {"image_processor_type": kind}
    settings = {"processor_class": made.processor, "image_processor": images} | made.settings
    (folder / "processor_config.json").write_text(json.dumps(settings))
    return folder


def own_processor(name: str, folder: Path) -> Any:
    """Returns the processor of a model, as transformers makes it of the parts that need no torchvision."""
    made, config = MODELS[name], hf.AutoConfig.from_pretrained(folder)
    kind = getattr(hf, made.processor)
    images = getattr(hf, IMAGE_PROCESSOR_MAPPING_NAMES[config.model_type]["pil"])(**made.images)
    module = import_module(kind.__module__)
    module.num2words = getattr(module, "num2words", None) or str  # of videos alone
    parts = {"image_processor": images, "tokenizer": hf.AutoTokenizer.from_pretrained(folder)}
    if "video_processor" in kind.get_attributes():
        kind = type(kind.__name__, (kind,), {"check_argument_for_proper_class": lambda *_: None})
        parts["video_processor"] = None
    return kind(**parts, **made.settings)


def _replaced(value: Any, numbers: dict[int, int]) -> Any:
    """Returns sizes with other ids of tokens and another size of the vocabulary."""
    if not isinstance(value, dict):
        return numbers.get(value, value) if isinstance(value, int) else value
    return {
        key: _replaced(part, numbers) if isinstance(part, dict) or "token" in key or "vocab" in key else part
        for key, part in value.items()
    }
