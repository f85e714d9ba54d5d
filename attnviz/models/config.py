"""Checks of config.json, and models built from it without weights."""

import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attnviz.base.bounded_json import nested_objects
from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import _, value_error
from attnviz.models.readable_errors import as_value_error

# Upper limits of numbers in config.json by name: the first pattern that fits counts. The largest models known stay
# below half of each; beyond it, building the model alone would take all memory or the whole day.
LIMITS: tuple[tuple[str, int], ...] = (
    (r"(theta|base)$", 1 << 53),  # of rotary positions
    (r"vocab", 1 << 22),
    (r"size|dim|width|length|embd|channel", 1 << 24),
    (r"layer|depth|block|stage", 1 << 10),
    (r"expert", 1 << 15),
    (r"head", 1 << 12),
    (r"label|class", 1 << 16),
    (r"", 1 << 25),
)
# A config can say which code is to compute attention, even code to be fetched, and which files or models are to be
# read beside it.
UNSAFE_KEYS = re.compile(
    r"_.*|auto_map|(attn|experts)_implementation|transformers_weights|(torch_)?dtype|use_kernels?"
    r"|backbone|use_(pretrained|timm)_backbone"
)
# The modules and weights that may be made: a fixed number, and a number for each tensor in the files. No architecture,
# with the default sizes of its config, makes more than 4 for each.
MAX_MODULES = 1_000, 20
ENDLESS = ("time_step_limit",)  # a bound that is infinite where there is none
DECODER_HEAD = re.compile(r"(ForCausalLM|LMHeadModel)$")
ENCODER_DECODER_HEAD = re.compile(r"(ForConditionalGeneration|MTModel|WithLMHeadModel|EncoderDecoderModel)$")

CLASSIFIERS: dict[Any, str] = {
    transformers.AutoModelForSequenceClassification: "labels",
    transformers.AutoModelForImageClassification: "labels",
    transformers.AutoModelForTokenClassification: "token labels",
}
OUTPUTS = {
    transformers.AutoModelForCausalLM: "next token",
    transformers.AutoModelForSeq2SeqLM: "next token",
    transformers.AutoModelForImageTextToText: "next token",
    **CLASSIFIERS,
}


def check_config(name: str, config: dict[str, Any]) -> None:
    """Raises ValueError for unknown model types, quantized weights, and numbers beyond those of any model."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise value_error(
            "The config.json of {name} has no model_type, so it is not known what kind of model it is.",
            name=quoted(name),
        )
    if kind not in CONFIG_MAPPING:
        unknown = _(
            "{name} is a model of the type {kind}, which transformers {version} does not know.",
            name=quoted(name),
            kind=quoted(kind),
            version=transformers.__version__,
        )
        own = [_("It comes with code of its own, which is never run here.")] if "auto_map" in config else []
        raise ValueError(" ".join([unknown, *own, _("Choose a model that transformers itself can build.")]))
    for part in nested_objects(config):
        if part.get("quantization_config") or part.get("compression_config"):
            raise value_error(
                "The weights of {name} are quantized, and only plain ones are read here. Choose "
                "the model they were made from.",
                name=quoted(name),
            )
        for key, value in part.items():
            _check_number(key, value)


def _check_number(key: str, value: Any) -> None:
    """Raises ValueError for a number, or a list of them, beyond those of any model, before anything is built from
    it."""
    name, most = next((name, most) for name, most in LIMITS if re.search(name, key.lower()))
    counts = int if name in ("", LIMITS[0][0]) else int | float  # a count may be written as 1e12
    values = value if isinstance(value, list) else [value]
    for number in values:
        if isinstance(number, float) and not math.isfinite(number) and key not in ENDLESS:
            raise value_error(
                "config.json says that {key} is {number}, which no model can have.",
                key=quoted(key),
                number=number,
            )
        if isinstance(number, counts) and abs(number) > most:
            got = f"{number:,}" if abs(number) < 10**30 else _("larger than {value:.0e}", value=10**30)
            raise value_error(
                "config.json says that {key} is {got}; no model has more than {most}.",
                key=quoted(key),
                got=got,
                most=grouped(most),
            )
    if len(values) > most:
        raise value_error(
            "config.json has {count} numbers for {key}; no model has more than {most}.",
            count=grouped(len(values)),
            key=quoted(key),
            most=grouped(most),
        )


class TooManyModules(Exception):
    """A model has far more modules and weights than its files have tensors."""


def too_large(name: str) -> ValueError:
    """Returns the error for a config that describes far more weights than the files have."""
    return value_error(
        "The config.json of {name} describes far more parts than its files have weights for. Look "
        "there for a number that is too large, or download the model again.",
        name=quoted(name),
    )


@contextmanager
def limited_modules(name: str, tensors: int) -> Iterator[None]:
    """Raises ValueError if far more modules and weights are made than there are tensors in the files."""
    left, thread = MAX_MODULES[0] + MAX_MODULES[1] * tensors, threading.get_ident()

    def count(*_: Any) -> None:
        nonlocal left
        left -= threading.get_ident() == thread
        if left < 0:
            raise TooManyModules

    try:
        with register_module_module_registration_hook(count), register_module_parameter_registration_hook(count):
            yield
    except TooManyModules:
        raise too_large(name) from None


def build(
    name: str, config_json: dict[str, Any], tensors: int, dtype: torch.dtype = torch.float32
) -> tuple[Any, str, tuple[Any, ...], Any]:
    """Returns the config, the attention implementation, the classes to try, and the model of the first of them on
    the meta device. Raises ValueError for what cannot be built."""
    kind, plain, base = CONFIG_MAPPING[config_json["model_type"]], safe_config(config_json), transformers.AutoModel
    base._model_mapping.get(kind, None)  # imports its code
    with (
        limited_modules(name, tensors),
        as_value_error(_("transformers cannot build {name} from its config.json", name=quoted(name))),
    ):
        config = kind.from_dict(plain)
        classes = (*_head_class(config_json, config), *((base,) if kind in base._model_mapping else ())) or (base,)

        def make(implementation: str) -> Any:
            with torch.device("meta"):
                return classes[0].from_config(
                    kind.from_dict(plain),
                    trust_remote_code=False,
                    attn_implementation=implementation,
                    dtype=dtype,
                )

        try:
            return config, "sdpa", classes, make("sdpa")
        except ValueError:  # not every model has it
            return config, "eager", classes, make("eager")


def safe_config(value: Any) -> Any:
    """Returns a config, or a part of it, without the keys that are unsafe."""
    if isinstance(value, dict):
        return {key: safe_config(part) for key, part in value.items() if not UNSAFE_KEYS.fullmatch(key)}
    return [safe_config(part) for part in value] if isinstance(value, list) else value


def _head_class(config_json: dict[str, Any], config: Any) -> tuple[Any, ...]:
    """Returns the class with the head that gives the next token or labels, if the model was saved with one."""
    names = [name for name in config_json.get("architectures") or () if isinstance(name, str)]
    auto: Any = transformers.AutoModelForCausalLM
    pattern = DECODER_HEAD
    if getattr(config, "is_encoder_decoder", False):
        auto, pattern = transformers.AutoModelForSeq2SeqLM, ENCODER_DECODER_HEAD
    elif classifiers := [auto for auto in CLASSIFIERS if _class_names(auto, config) & {*names}]:
        return (classifiers[0],)
    elif _class_names(image_text := transformers.AutoModelForImageTextToText, config) & {*names}:
        return (image_text,)
    saved = any(map(pattern.search, names))
    return (auto,) if saved and type(config) in auto._model_mapping else ()


def _class_names(auto: Any, config: Any) -> set[str]:
    """Returns the names of the classes of transformers that an automatic class has for a config."""
    classes = auto._model_mapping.get(type(config), ())
    return {one.__name__ for one in (classes if isinstance(classes, tuple) else (classes,))}
