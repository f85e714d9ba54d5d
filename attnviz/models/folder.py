"""Checks of the files in a model folder, which is not trusted: they are read with limits, and no code in them is
run."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from attnviz.base.bounded_json import CONFIG_BYTES, nested_objects, read_json, read_object
from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import _, value_error
from attnviz.models.readable_errors import as_value_error

INDEX = "model.safetensors.index.json"
INDEX_BYTES = 32 << 20  # the names of all weights and which file holds each
TOKENIZER_BYTES = 128 << 20
HEADER_BYTES = 32 << 20  # of a safetensors file, which safetensors would parse up to 100 MB
MOST_FILES = 10_000

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
OTHERS = (".gguf", ".h5", ".msgpack", ".onnx", ".npz", ".ot")
# Endings of what transformers may read whole.
READ = (".json", ".txt", ".model", ".jinja", ".spm", ".vocab", ".bpe", ".codes")
VOCABULARY = ("tokenizer", "vocab", "tekken")  # how the names of a tokenizer's files begin
TEMPLATES = "additional_chat_templates/*.jinja"  # which tokenizers open too
# Settings of a tokenizer that name files are refused, since transformers opens these wherever they are. The origin of
# the special tokens is a mere note, and tokenizer_file, which many have, is replaced by the folder's own.
NAMES_FILES = re.compile(r"vocab|merges|tokenizer_object|init_inputs|(?!special_tokens_map_|tokenizer_file$).*_files?")
SPECIAL = re.compile(r".*_tokens?")
SHARD = re.compile(r"[\w.-]+\.safetensors")
TYPES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}
TYPES |= {"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}

POOLING_MODULES = {"Transformer", "Pooling"}  # make a sentence vector, with Normalize or without
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}


def open_folder(folder: str | Path) -> Path:
    """Returns the path of a folder that has a config.json. Raises ValueError if it is not a model, or if links in it
    lead elsewhere."""
    try:
        path = Path(folder).expanduser().resolve(strict=True)
        entries = sorted(path.iterdir()) if path.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise value_error(
            "There is no folder or file {folder} that can be opened. Give the path of a folder or of a GGUF file, from "
            "its root.",
            folder=quoted(folder),
        ) from error
    if not path.is_dir():
        raise value_error(
            "{folder} is a file, and not a GGUF file. Give the folder that holds it, with its config.json.",
            folder=quoted(folder),
        )
    if len(entries) > MOST_FILES:
        raise value_error(
            "This folder has {count} files, which is more than any model has.", count=grouped(len(entries))
        )
    if (path / "adapter_config.json").exists():
        raise value_error(
            "{name} is an adapter, which only changes another model. Merge the two "
            "(merge_and_unload in peft), save the result, and give that folder.",
            name=quoted(path.name),
        )
    if not (path / "config.json").is_file():
        if (path / "model_index.json").exists():
            raise value_error("This folder holds several models, each in a folder of its own. Give one of those.")
        raise value_error(
            "{name} is not a model: it has no config.json. Give a folder that save_pretrained has written.",
            name=quoted(path.name),
        )
    for entry in (*entries, *path.glob(TEMPLATES)):
        if entry.suffix not in (*PICKLES, *OTHERS) or entry.name.startswith("tokenizer"):  # others nobody opens
            check_file(path, entry)
    return path


def check_file(folder: Path, entry: Path) -> None:
    """Raises ValueError for a link that leads out of the folder, and for what is not a regular file, such as a pipe."""
    homes = [folder]
    if folder.parent.name == "snapshots":  # the hub's cache: files are links to what several revisions share
        homes.append(folder.parent.parent / "blobs")
    real = Path(os.path.realpath(entry))
    if not any(real.is_relative_to(os.path.realpath(home)) for home in homes):
        raise value_error(
            "{name} is a link that leads out of the folder, so it is not read. Put the file itself there.",
            name=quoted(entry.name),
        )
    if not entry.is_dir() and not entry.is_file():
        raise value_error("{name} is not a file that can be read. Save the model again.", name=quoted(entry.name))
    whole = entry.suffix in READ or entry.name.startswith("tokenizer")
    if entry.is_file() and whole and entry.stat().st_size > TOKENIZER_BYTES:
        raise value_error(
            "{name} has {size} bytes; at most {TOKENIZER_BYTES} are read.",
            name=quoted(entry.name),
            size=grouped(entry.stat().st_size),
            TOKENIZER_BYTES=grouped(TOKENIZER_BYTES),
        )


def check_tokenizer(path: Path) -> None:
    """Raises ValueError if the settings of a tokenizer name files, which could be any on this computer."""
    for key, value in _settings(path / "tokenizer_config.json"):
        texts = value if isinstance(value, list) else [value]
        if NAMES_FILES.fullmatch(key) and any(isinstance(text, str) and text for text in texts):
            raise value_error(
                "tokenizer_config.json names a file in {key}, which could be any of this computer, "
                "so this model is not read. Remove that entry: what a tokenizer needs is found "
                "beside it without this entry.",
                key=quoted(key),
            )
    # Whatever stands in this one replaces even what the loading itself has set, such as where the tokenizer is.
    for key, _value in _settings(path / "special_tokens_map.json"):
        if not SPECIAL.fullmatch(key):
            raise value_error(
                "special_tokens_map.json says what {key} is, but may only name special tokens, so "
                "this model is not read. Remove that entry.",
                key=quoted(key),
            )


def _settings(file: Path) -> Iterator[tuple[str, Any]]:
    yield from (read_object(file, TOKENIZER_BYTES) if file.is_file() else {}).items()


@dataclass(frozen=True)
class WeightSizes:
    """The sizes of the weights in the files of a model."""

    parameters: dict[str, int]  # how many there are of each type, such as "BF16"
    tensors: int = 0

    @property
    def common_type(self) -> str:
        """The type of most of the real numbers."""
        real = {kind: count for kind, count in self.parameters.items() if "F" in kind}
        return max(real, key=lambda kind: real[kind], default="F32")

    def memory(self, width: int) -> int:
        """Returns their bytes in memory, where real numbers take `width` bytes each."""
        return sum(count * (width if "F" in kind else TYPES.get(kind, 8)) for kind, count in self.parameters.items())


def weight_sizes(path: Path, name: str) -> WeightSizes:
    """Returns the sizes of the weights, from the headers of the files."""
    tensors, parameters = 0, Counter[str]()
    for count, kind in (tensor for file in weight_files(path, name) for tensor in _tensors(file)):
        tensors += 1
        parameters[kind] += count
    return WeightSizes(dict(parameters), tensors)


def weight_files(path: Path, name: str) -> list[Path]:
    """Returns the files of the weights. Raises ValueError if one is missing, or their index is damaged."""
    whole, index = path / "model.safetensors", path / INDEX
    if whole.exists():
        return [whole]
    if not index.exists():
        raise _no_safetensors(path, name)
    weight_map = read_object(index, INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise value_error(
            "{name} does not say which file holds which weights. Save the model again.", name=quoted(index.name)
        )
    shards = sorted(set(map(str, weight_map.values())))
    for shard in shards:
        if not SHARD.fullmatch(shard):
            raise value_error(
                "{name} names {shard}, which is not a file of this folder.",
                name=quoted(index.name),
                shard=quoted(shard),
            )
        if not (path / shard).is_file():
            raise value_error(
                "{shard}, which holds some of the weights, is missing. Download it too.", shard=quoted(shard)
            )
    return [path / shard for shard in shards]


def _no_safetensors(path: Path, name: str) -> ValueError:
    files = sorted(entry.name for entry in path.iterdir() if entry.suffix in (*PICKLES, *OTHERS, ".safetensors"))
    pickles = [file for file in files if Path(file).suffix in PICKLES]
    if pickles:
        return value_error(
            "{name} has its weights only in {pickle}, a pickle, which can run code when it is "
            "opened. Where you trust it, load it once with transformers and save it again: "
            "save_pretrained writes model.safetensors.",
            name=quoted(name),
            pickle=quoted(pickles[0]),
        )
    none = _("{name} has no weights in model.safetensors.", name=quoted(name))
    other = [_("It has {file}, which is not read here.", file=quoted(files[0]))] if files else []
    advice = _("Save the model with transformers: save_pretrained writes that file.")
    return ValueError(" ".join([none, *other, advice]))


def _tensors(file: Path) -> Iterator[tuple[int, str]]:
    """Yields the number of parameters and the type of each tensor, from the header, which safetensors checks against
    the size of the file."""
    damaged = _("{name} was damaged or cut off; download it again", name=quoted(file.name))
    with as_value_error(damaged):
        with file.open("rb") as beginning:
            if int.from_bytes(beginning.read(8), "little") > HEADER_BYTES:
                raise SafetensorError("header too large")
        with safe_open(file, "pt") as opened:
            parts = [opened.get_slice(name) for name in opened.keys()]  # noqa: SIM118
            tensors = [(math.prod(part.get_shape()), part.get_dtype()) for part in parts]
    for count, kind in tensors:
        if kind not in TYPES:
            raise value_error(
                "{name} holds numbers of the type {kind}, which are not read here.",
                name=quoted(file.name),
                kind=quoted(kind),
            )
        yield count, kind


def pooling(path: Path) -> str:
    """Returns the pooling of a sentence-transformers model, "mean" or "first"; empty if the folder is not one."""
    file = path / "1_Pooling" / "config.json"
    if not (path / "modules.json").is_file() or not file.is_file():
        return ""
    modules = read_json(path / "modules.json", CONFIG_BYTES)
    kinds = {str(module.get("type")).rpartition(".")[2] for module in nested_objects(modules)}
    if not POOLING_MODULES <= kinds <= {*POOLING_MODULES, "Normalize"}:
        return ""
    check_file(path, file)
    config = read_object(file, CONFIG_BYTES)
    chosen = [pooling for key, pooling in POOLINGS.items() if config.get(key) is True]
    return chosen[0] if len(chosen) == 1 else ""
