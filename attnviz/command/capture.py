"""attnviz capture: the attention of a text in a model, written into a trace while the model runs."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.extras import check_installed

if TYPE_CHECKING:
    from attnviz.models.loading import ModelFolder
    from attnviz.trace import Trace

MOST_TOKENS = 1 << 20  # as many positions as masks are made for
TYPES = ("float32", "bfloat16", "float16")


def main(arguments: Sequence[str]) -> None:
    """Captures with the arguments of the command line, and says what was written; ends the process if it cannot."""
    options = _options(arguments)
    try:
        check_installed("models", "A capture")
        trace = capture_text(options)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        sys.exit(f"attnviz capture: {error}")
    except KeyboardInterrupt:
        sys.exit("attnviz capture: stopped. The layers that were written can be opened.")
    for sentence in trace.missing:
        print(sentence, file=sys.stderr)
    if not trace:
        sys.exit("attnviz capture: No layer was written.")
    print(f"{len(trace)} layers of {trace[0].inputs.queries:,} tokens are in {options.output}.")


def capture_text(options: Namespace) -> "Trace":
    """Returns the trace that was written. Raises ValueError if the model or the text cannot be read."""
    try:
        text = Path(options.text).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{options.text} is not text in UTF-8. Save it as UTF-8.") from error
    model = _model_folder(options).load()
    return model.save_trace(options.output, text, options.layers, options.chunk)


def _model_folder(options: Namespace) -> "ModelFolder":
    import torch

    from attnviz.models import model_cache
    from attnviz.models.hub import is_minilm, model_id
    from attnviz.models.loading import inspect_folder
    from attnviz.models.minilm import minilm_folder

    if options.device_map and find_spec("accelerate") is None:
        raise ValueError("--device-map needs accelerate, which is not installed. Install it: pip install accelerate")
    name = model_id(options.model)
    is_path, hub = model_cache.is_path(name), model_cache.HUB
    folder = name if is_path else minilm_folder(hub) if is_minilm(name) else hub.folder(name)
    if folder is None:
        raise ValueError(f"{name} is not on this computer yet. Download it first: hf download {name}")
    model_folder = inspect_folder(folder, "" if is_path else name)
    dtype = getattr(torch, options.dtype) if options.dtype else model_folder.dtype
    return replace(model_folder, dtype=dtype, device_map=options.device_map, most_tokens=MOST_TOKENS)


def _options(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(
        "attnviz capture",
        description="Writes the queries, keys and values of all attention into a folder while a model reads a text.",
    )
    parser.add_argument("model", metavar="MODEL", help="an id on the Hugging Face hub, or the path of a folder")
    parser.add_argument("--text", metavar="FILE", required=True, help="the text, in UTF-8")
    parser.add_argument("-o", "--output", metavar="TRACE", required=True, help="the new folder of the trace")
    parser.add_argument("--layers", type=_indices, help="the layers that are kept, such as 0,5,11 (by default all)")
    parser.add_argument(
        "--chunk", metavar="TOKENS", type=_token_count,
        help="a decoder reads so many tokens at a time, such as 4096, which takes less memory (by default all)",
    )  # fmt: skip
    parser.add_argument("--dtype", choices=TYPES, help="in which the model computes (by default as it is stored)")
    parser.add_argument("--device-map", metavar="MAP", help="which devices hold the model, such as auto (accelerate)")
    return parser.parse_args(arguments)


def _indices(text: str) -> list[int]:
    if not all(part.isdecimal() for part in text.split(",")):
        raise ArgumentTypeError(f"layers are whole numbers with commas between them, such as 0,5,11; it is {text!r}")
    return [int(part) for part in text.split(",")]


def _token_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"a chunk is a whole number of tokens, such as 4096; it is {text!r}")
    return int(text)
