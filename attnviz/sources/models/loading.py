"""A folder of weights as a model: nothing in it is trusted, no code of its own is run, and its size is known before.

`inspected` reads what is small (config.json, the headers of the weights) within bounds and refuses, in words, what
cannot or should not be loaded; `Folder.load` then reads the weights. Both are slow enough to be done once: `shelf`.
"""

import json
import math
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attnviz.sources.arrays import quoted
from attnviz.sources.models.model import REFUSALS, Model, reason

MB = 1_000_000
CONFIG_BYTES = 1 << 20
INDEX_BYTES = 32 << 20  # the names of all weights and which file holds each
HEADER_BYTES = 32 << 20
TOKENIZER_BYTES = 128 << 20
MOST_FILES = 10_000

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
OTHERS = (".gguf", ".h5", ".msgpack", ".onnx", ".npz", ".ot")
# Endings of what transformers may read whole.
READ = (".json", ".txt", ".model", ".jinja", ".spm", ".vocab", ".bpe", ".codes")
VOCABULARY = ("tokenizer", "vocab", "tekken")  # how a file's name begins that a tokenizer is made of
TEMPLATES = "additional_chat_templates/*.jinja"  # which tokenizers open too
# What the settings of a tokenizer may not say, since transformers opens what stands there, wherever it is; where the
# special tokens once came from is only noted.
NAMES_FILES = re.compile(r"vocab|merges|tokenizer_object|init_inputs|(?!special_tokens_map_).*_files?")
SHARD = re.compile(r"[\w.-]+\.safetensors")
MOST_AXES = 8
TYPES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}
TYPES |= {"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}

LAYERS, EXPERTS = r"layer|depth|block|stage", r"expert"
COUNTS = re.compile(r"depth|^(num|n)_.*(layer|block|stage)s$")  # of a list: numbers of layers, and not which layers
MODULES = 1 << 17  # layers, or experts in all of them

# What a number in config.json may be at most, by its name: the first that fits counts. The largest models known stay
# below half of each; beyond it, building the model alone would take all memory or the whole day.
MOST: tuple[tuple[str, int], ...] = (
    (r"(theta|base)$", 1 << 53),  # of rotary positions
    (r"vocab", 1 << 22),
    (r"size|dim|width|length|embd|channel", 1 << 24),
    (LAYERS, 1 << 10),
    (EXPERTS, 1 << 15),
    (r"head", 1 << 12),
    (r"label|class", 1 << 16),
    (r"", 1 << 25),
)
# A config can say which code is to compute attention, even code to be fetched, and which files or models are to be
# read beside it.
SAYS_TOO_MUCH = re.compile(
    r"_.*|auto_map|(attn|experts)_implementation|transformers_weights|(torch_)?dtype|use_kernels?"
    r"|backbone|use_(pretrained|timm)_backbone"
)
DEEPEST = 16  # of parts within parts of a config
ENDLESS = ("time_step_limit",)  # a bound that is infinite where there is none
# Comes after all attention, or is nothing but zeros; many models are published without it.
OUTSIDE = re.compile(r"(^|\.)(pooler\..*|final_logits_bias)$")

NEXT_TOKEN = re.compile(r"(ForCausalLM|LMHeadModel)$")
TRANSLATES = re.compile(r"(ForConditionalGeneration|MTModel|WithLMHeadModel|EncoderDecoderModel)$")
POOLED = {"Transformer", "Pooling"}  # what a sentence vector is made by, with Normalize or without
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}


def setting(name: str, default: int, what: str) -> int:
    """A whole number from the environment, 1 or more; ValueError says what it counts."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number of {what}, 1 or more; it is {quoted(text)}.")
    return int(text)


def most_bytes() -> int:
    """How much memory models may take together: ATTNVIZ_MODEL_MB, 4,096 unless set."""
    return setting("ATTNVIZ_MODEL_MB", 4_096, "megabytes") * MB


def check_size(name: str, parameters: int, size: int) -> None:
    """Refuses a model that would not fit into memory, with the numbers."""
    if size > most_bytes():
        raise ValueError(
            f"{quoted(name)} has {parameters:,} parameters, which take {size / MB:,.0f} MB of memory; "
            f"at most {most_bytes() / MB:,.0f} MB may be taken here. "
            "Choose a smaller model, or start attnviz with a larger ATTNVIZ_MODEL_MB."
        )


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder that holds a model which can be loaded: its size, and how it is to be built."""

    path: Path
    name: str
    parameters: int
    size: int  # bytes in memory, as float32
    config: Any = field(repr=False)
    implementation: str  # of attention, in plain forwards: "sdpa", or "eager" where the model has no other
    classes: tuple[Any, ...] = field(repr=False)  # to be tried in this order: with a head, without one
    outputs: str  # what the first of them gives: "next token" · "sentence vector" · ""
    pooling: str
    strict: bool  # weights that find no place are refused too
    notes: tuple[str, ...] = ()

    def load(self) -> Model:
        """The model, ready to read. Raises ValueError, in words, when weights are missing or damaged."""
        *heads, base = self.classes
        for auto in heads:
            model, lacking = self._weights(auto)
            if not lacking:
                return self._read_by(model, self.outputs)
            del model  # before there are two
        model, lacking = self._weights(base)
        if lacking:
            named = ", ".join(quoted(key) for key in sorted(lacking)[:3])
            whole = len(model.state_dict())
            raise ValueError(
                f"{len(lacking)} of the {whole} weights of {quoted(self.name)} are missing from its files or have "
                f"another shape, such as {named}. Random numbers in their place would give a wrong picture. "
                "Save or download the model again, whole."
            )
        return self._read_by(model, "" if heads else self.outputs)

    def _weights(self, auto: Any) -> tuple[Any, list[str]]:
        with in_words(f"The weights of {quoted(self.name)} cannot be read"):
            model, info = auto.from_pretrained(
                self.path,
                config=self.config,
                dtype=torch.float32,
                attn_implementation=self.implementation,
                use_safetensors=True,
                weights_only=True,
                ignore_mismatched_sizes=True,  # they are counted instead, below
                output_loading_info=True,
                **SAFELY,
            )
        lacking = {key for key in info["missing_keys"] if not OUTSIDE.search(key)}
        lacking |= {key for key, *_ in info["mismatched_keys"]}
        if self.strict:  # what belongs to a part of the model, and has no place there
            parts = {name for name, _ in (*model.named_children(), *model.base_model.named_children())}
            lacking |= {key for key in info["unexpected_keys"] if parts & set(key.split(".")[:2])}
        model.config.use_cache = False
        return model.eval(), sorted(lacking)

    def _read_by(self, model: Any, outputs: str) -> Model:
        tokenizer = None
        if any(entry.name.startswith(VOCABULARY) or entry.suffix == ".model" for entry in self.path.iterdir()):
            try:
                tokenizer = transformers.AutoTokenizer.from_pretrained(self.path, config=self.config, **SAFELY)
            except Exception:  # noqa: BLE001 - the tokenizers library raises nothing narrower
                tokenizer = None  # the model says so when it is given a text
        return Model(
            model, tokenizer, self.name, outputs=outputs, pooling=self.pooling, notes=self.notes, folder=self.path
        )


SAFELY = {"local_files_only": True, "trust_remote_code": False}


def inspected(folder: str | Path, name: str = "") -> Folder:
    """What a folder holds, without having read its weights.

    Raises ValueError, in words for who named the folder, when it is no model, or one that is not read here: weights
    only as pickles, code of its own, adapters, quantized weights, numbers beyond all measure, or more memory than
    ATTNVIZ_MODEL_MB.
    """
    path = _folder(folder)
    name = name or path.name
    said = bounded_json(path / "config.json", CONFIG_BYTES)
    _refuse_kinds(path, name, said)
    _check_tokenizer(path)
    _check_numbers(said)
    written, stored = _stored(path, name)
    check_size(name, written, stored)
    config, implementation, classes, meta = _built(name, said)
    if meta.main_input_name not in ("input_ids", "pixel_values"):
        raise ValueError(
            f"{quoted(name)} reads neither text nor a picture: what it takes is called "
            f"{quoted(meta.main_input_name)}. In a notebook, attnviz.capture takes a batch of any kind."
        )
    parameters = max(written, sum(parameter.numel() for parameter in meta.parameters()))
    size = max(stored, sum(tensor.nbytes for tensor in (*meta.parameters(), *meta.buffers())))
    check_size(name, parameters, size)
    pooling = _pooling(path)
    notes: tuple[str, ...] = ()
    if "auto_map" in said:
        notes = (
            f"{name} comes with code of its own, which was not run: {type(meta).__name__} of transformers "
            "stands in for it.",
        )
    outputs = "next token" if classes[0] is not transformers.AutoModel else "sentence vector" if pooling else ""
    strict = "auto_map" in said
    return Folder(path, name, parameters, size, config, implementation, classes, outputs, pooling, strict, notes)


def bounded_json(path: Path, most: int) -> dict[str, Any]:
    """An object from a JSON file of at most so many bytes."""
    content = _json(path, most)
    if not isinstance(content, dict):
        raise ValueError(f"{quoted(path.name)} holds no object with names, as that of a model does. Save it again.")
    return content


def _json(path: Path, most: int) -> Any:
    try:
        size = path.stat().st_size
        content = json.loads(path.read_text(encoding="utf-8")) if size <= most else None
    except (ValueError, RecursionError, OSError) as error:
        raise ValueError(f"{quoted(path.name)} is no JSON: it was damaged or cut off. Save it again.") from error
    if size > most:
        raise ValueError(f"{quoted(path.name)} has {size:,} bytes; that of a model has {most:,} at most.")
    return content


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Says what transformers says about a folder it cannot read so that a person knows what it was about."""
    try:
        yield
    except (*REFUSALS, OSError, ValueError, SyntaxError, StrictDataclassError, safetensors.SafetensorError) as error:
        raise ValueError(f"{what}. The reason given is: {reason(error)}") from error


def _folder(folder: str | Path) -> Path:
    try:
        path = Path(folder).expanduser().resolve(strict=True)
        entries = sorted(path.iterdir()) if path.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"There is no folder {quoted(folder)} that can be opened. Give the path of one, from its root."
        ) from error
    if not path.is_dir():
        raise ValueError(f"{quoted(folder)} is a file. Give the folder that holds it, with its config.json.")
    if len(entries) > MOST_FILES:
        raise ValueError(f"This folder has {len(entries):,} files, which is more than any model has.")
    if not (path / "config.json").is_file():
        if (path / "adapter_config.json").exists():
            raise _adapter(path.name)
        if (path / "model_index.json").exists():
            raise ValueError("This folder holds several models, each in a folder of its own. Give one of those.")
        raise ValueError(
            f"{quoted(path.name)} is no model: it has no config.json. Give a folder that save_pretrained has written."
        )
    for entry in (*entries, *path.glob(TEMPLATES)):
        if entry.suffix not in (*PICKLES, *OTHERS) or entry.name.startswith("tokenizer"):  # others nobody opens
            _check_file(path, entry)
    return path


def _check_file(folder: Path, entry: Path) -> None:
    """Refuses a file that is somewhere else, or none: a pipe would never end."""
    homes = [folder]
    if folder.parent.name == "snapshots":  # the hub's cache: files are links to what several revisions share
        homes.append(folder.parent.parent / "blobs")
    real = Path(os.path.realpath(entry))
    if not any(real.is_relative_to(os.path.realpath(home)) for home in homes):
        raise ValueError(
            f"{quoted(entry.name)} is a link that leads out of the folder, so it is not read. "
            "Put the file itself there."
        )
    if not entry.is_dir() and not entry.is_file():
        raise ValueError(f"{quoted(entry.name)} is not a file that can be read. Save the model again.")
    whole = entry.suffix in READ or entry.name.startswith("tokenizer")
    if entry.is_file() and whole and entry.stat().st_size > TOKENIZER_BYTES:
        raise ValueError(
            f"{quoted(entry.name)} has {entry.stat().st_size:,} bytes; at most {TOKENIZER_BYTES:,} are read."
        )


def _adapter(name: str) -> ValueError:
    return ValueError(
        f"{quoted(name)} is an adapter, which only changes another model. Merge the two "
        "(merge_and_unload in peft), save the result, and give that folder."
    )


def _refuse_kinds(path: Path, name: str, said: dict[str, Any]) -> None:
    kind = said.get("model_type")
    if (path / "adapter_config.json").exists():
        raise _adapter(name)
    if not isinstance(kind, str):
        raise ValueError(f"The config.json of {quoted(name)} has no model_type, so nobody can tell what it is.")
    if kind not in CONFIG_MAPPING:
        own = "It brings code of its own, which is never run here. " if "auto_map" in said else ""
        raise ValueError(
            f"{quoted(name)} is a model of the type {quoted(kind)}, which transformers {transformers.__version__} "
            f"does not know. {own}Choose a model that transformers itself can build."
        )
    for part in _objects(said):
        if part.get("quantization_config") or part.get("compression_config"):
            raise ValueError(
                f"The weights of {quoted(name)} are quantized, and only plain ones are read here. "
                "Choose the model they were made from."
            )


def _check_tokenizer(path: Path) -> None:
    """Refuses settings of a tokenizer that name files, which could be any that this computer can open."""
    for file in (path / "tokenizer_config.json", path / "special_tokens_map.json"):
        for key, value in (bounded_json(file, TOKENIZER_BYTES) if file.is_file() else {}).items():
            texts = value if isinstance(value, list) else [value]
            if (file.name, key) == ("tokenizer_config.json", "tokenizer_file"):
                continue  # many were published with one, and transformers puts the folder's own in its place
            if NAMES_FILES.fullmatch(key) and any(isinstance(text, str) and text for text in texts):
                raise ValueError(
                    f"{quoted(file.name)} names a file in {quoted(key)}, which could be any of this computer, so "
                    "this model is not read. Remove that entry: what a tokenizer needs stands beside it by itself."
                )


def _objects(said: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """A config and the configs of its parts."""
    if depth > DEEPEST:
        raise ValueError(f"config.json has parts within parts, more than {DEEPEST} deep. No model has such a one.")
    if isinstance(said, dict):
        yield said
    if isinstance(said, dict | list):
        parts = said.items() if isinstance(said, dict) else enumerate(said)
        for key, value in parts:
            if key not in ("id2label", "label2id"):  # whose names may be any
                yield from _objects(value, depth + 1)


def _check_numbers(said: dict[str, Any]) -> None:
    """Refuses numbers that no model has, before anything is built from them."""
    largest: dict[str, int] = {}
    for part in _objects(said):
        for key, value in part.items():
            name, most = next((name, most) for name, most in MOST if re.search(name, key.lower()))
            counts = int if name in ("", MOST[0][0]) else int | float  # a count may be written as 1e12
            values = value if isinstance(value, list) else [value]
            numbers = [n for n in values if isinstance(n, counts)]
            endless = [n for n in values if isinstance(n, float) and not math.isfinite(n)]
            if endless and key not in ENDLESS:
                raise ValueError(f"config.json says that {quoted(key)} is {endless[0]}, which is no number of a model.")
            for number in numbers:
                if abs(number) > most:
                    got = f"{number:,}" if abs(number) < 10**30 else f"larger than {10**30:.0e}"
                    raise ValueError(f"config.json says that {quoted(key)} is {got}; no model has more than {most:,}.")
            # A list counts the layers of each stage, or names some layers by their numbers.
            named = isinstance(value, list) and not COUNTS.search(key.lower())
            largest[name] = max(largest.get(name, 1), len(numbers) if named else int(sum(map(abs, numbers))))
    # Each layer may have as many experts, and all of them are modules, which take time even without any numbers.
    if (modules := largest.get(LAYERS, 1) * largest.get(EXPERTS, 1)) > MODULES:
        raise ValueError(
            f"config.json describes {modules:,} experts in all layers together; no model has more than {MODULES:,}."
            if EXPERTS in largest
            else f"config.json describes {modules:,} layers; no model has more than {MODULES:,}."
        )


def _stored(path: Path, name: str) -> tuple[int, int]:
    """How many numbers the weights have, and the bytes they take as float32, by the headers of their files alone."""
    whole, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if whole.exists():
        files = {whole}
    elif index.exists():
        places = bounded_json(index, INDEX_BYTES).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise ValueError(f"{quoted(index.name)} does not say which file holds which weights. Save the model again.")
        files = set()
        for place in set(map(str, places.values())):
            if not SHARD.fullmatch(place):
                raise ValueError(f"{quoted(index.name)} names {quoted(place)}, which is no file of this folder.")
            if not (path / place).is_file():
                raise ValueError(f"{quoted(place)}, which holds some of the weights, is missing. Download it too.")
            files.add(path / place)
    else:
        raise _no_safetensors(path, name)
    numbers = size = 0
    for file in files:
        for count, width in _header(file):
            numbers, size = numbers + count, size + count * width
    return numbers, size


def _no_safetensors(path: Path, name: str) -> ValueError:
    found = sorted(entry.name for entry in path.iterdir() if entry.suffix in (*PICKLES, *OTHERS, ".safetensors"))
    pickles = [file for file in found if Path(file).suffix in PICKLES]
    if pickles:
        return ValueError(
            f"{quoted(name)} has its weights only in {quoted(pickles[0])}, a pickle, which can run code when it is "
            "opened. Where you trust it, load it once with transformers and save it again: save_pretrained writes "
            "model.safetensors."
        )
    other = f"It has {quoted(found[0])}, which is not read here. " if found else ""
    return ValueError(
        f"{quoted(name)} has no weights in model.safetensors. {other}"
        "Save the model with transformers: save_pretrained writes that file."
    )


def _header(file: Path) -> Iterator[tuple[int, int]]:
    """How many numbers each tensor has and how many bytes each takes in memory, checked against the file's size."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        first = opened.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        if not 0 < length <= min(HEADER_BYTES, size - 8):
            raise ValueError(
                f"{quoted(file.name)} says that its header has {length:,} bytes, but the file has {size:,} "
                f"(and {HEADER_BYTES:,} at most are read). It was damaged or cut off; download it again."
            )
        text = opened.read(length)
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        entries = [(e["dtype"], [int(n) for n in e["shape"]], *map(int, e["data_offsets"])) for e in header.values()]
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"The header of {quoted(file.name)} cannot be read. Download it again.") from error
    room = size - 8 - length
    for kind, shape, start, end in entries:
        if kind not in TYPES:
            raise ValueError(f"{quoted(file.name)} holds numbers of the type {quoted(kind)}, which are not read here.")
        # Before they are multiplied: a product of many large numbers takes hours.
        if len(shape) > MOST_AXES or not all(0 <= n <= size for n in shape):
            raise ValueError(
                f"{quoted(file.name)} says that it holds numbers of {len(shape):,} axes, which do not fit into its "
                f"{size:,} bytes, or are more than {MOST_AXES}. It was damaged or cut off; download it again."
            )
        count = math.prod(shape)
        if not 0 <= start <= end <= room or end - start != count * TYPES[kind]:
            raise ValueError(
                f"{quoted(file.name)} says that it holds {count:,} numbers in the bytes {start:,} to {end:,}, but "
                f"{room:,} bytes of numbers are there. It was damaged or cut off; download it again."
            )
        yield count, 4 if "F" in kind else TYPES[kind]
    if sum(end - start for _, _, start, end in entries) != room:
        raise ValueError(f"The header of {quoted(file.name)} does not describe the {room:,} bytes that follow it.")


def _built(name: str, said: dict[str, Any]) -> tuple[Any, str, tuple[Any, ...], Any]:
    """The config as transformers has it, the implementation of attention, the classes to be tried, and the model as
    the first of them builds it, without any numbers."""
    kind, plain = CONFIG_MAPPING[said["model_type"]], _plain(said)
    with in_words(f"transformers {transformers.__version__} cannot build {quoted(name)} from its config.json"):
        config = kind.from_dict(plain)
        base = transformers.AutoModel
        classes = (*_head(said, config), *((base,) if type(config) in base._model_mapping else ())) or (base,)

        def build(implementation: str) -> Any:
            with torch.device("meta"):
                return classes[0].from_config(
                    kind.from_dict(plain),
                    trust_remote_code=False,
                    attn_implementation=implementation,
                    dtype=torch.float32,
                )

        try:
            return config, "sdpa", classes, build("sdpa")
        except ValueError:  # not every model has it
            return config, "eager", classes, build("eager")


def _plain(said: Any) -> Any:
    """A config without what it must not say, in none of its parts."""
    if isinstance(said, dict):
        return {key: _plain(value) for key, value in said.items() if not SAYS_TOO_MUCH.fullmatch(key)}
    return [_plain(value) for value in said] if isinstance(said, list) else said


def _head(said: dict[str, Any], config: Any) -> tuple[Any, ...]:
    """The class with the head that gives the next token, if the model was saved with one."""
    names = [name for name in said.get("architectures") or () if isinstance(name, str)]
    decodes = getattr(config, "is_encoder_decoder", False)
    auto = transformers.AutoModelForSeq2SeqLM if decodes else transformers.AutoModelForCausalLM
    saved = any(map((TRANSLATES if decodes else NEXT_TOKEN).search, names))
    return (auto,) if saved and type(config) in auto._model_mapping else ()


def _pooling(path: Path) -> str:
    """How a sentence-transformers model makes one vector of all tokens, where this folder is one."""
    file = path / "1_Pooling" / "config.json"
    if not (path / "modules.json").is_file() or not file.is_file():
        return ""
    modules = _json(path / "modules.json", CONFIG_BYTES)
    kinds = {str(part.get("type")).rpartition(".")[2] for part in _objects(modules)}
    if not POOLED <= kinds <= {*POOLED, "Normalize"}:
        return ""
    _check_file(path, file)
    said = bounded_json(file, CONFIG_BYTES)
    chosen = [pooling for key, pooling in POOLINGS.items() if said.get(key) is True]
    return chosen[0] if len(chosen) == 1 else ""
