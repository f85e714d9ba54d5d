"""attnviz capture: the attention of texts in a model, written into traces while the model runs."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.base.extras import check_installed
from attnviz.base.formatting import quoted
from attnviz.command.engine_option import add_engine_option, named_engine
from attnviz.command.output_file import check_output_folder
from attnviz.command.text_capture import CaptureOptions, TextResult, TextTask, capture_text

if TYPE_CHECKING:
    from attnviz.analysis.engines import Engine

TYPES = ("float32", "bfloat16", "float16")


def main(arguments: Sequence[str]) -> None:
    """Captures with the arguments of the command line, and says what was written; ends the process if it cannot."""
    options = _options(arguments)
    problems = []
    try:
        check_installed("models", "A capture")
        for result in captures(options):
            for sentence in result.missing:
                print(sentence, file=sys.stderr)
            if result.problem:
                problems.append(result.problem if len(options.text) == 1 else f"{result.output}: {result.problem}")
            else:
                print(f"{result.layers} layers of {result.tokens:,} tokens are in {result.output}.", flush=True)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        problems.append(str(error))
    except KeyboardInterrupt:
        sys.exit("attnviz capture: stopped. The layers that were written can be opened.")
    if problems:
        sys.exit("\n".join(f"attnviz capture: {problem}" for problem in problems))


def captures(options: Namespace) -> Iterator[TextResult]:
    """Yields what is written of each text, in their order. Raises ValueError if a text cannot be read, or a folder is
    not new, before anything is written."""
    output = Path(options.output).expanduser().absolute()
    outputs = [output] if len(options.text) == 1 else [output / Path(file).stem for file in options.text]
    if twice := [folder.name for folder, count in Counter(outputs).items() if count > 1]:
        raise ValueError(f"Two texts are called {quoted(twice[0])}, as their traces would be. Rename one of them.")
    for folder in outputs:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{quoted(folder.name)} has files already. Give a new folder for the trace.")
        check_output_folder(folder)
    tasks = [TextTask(_read(file), str(folder)) for file, folder in zip(options.text, outputs, strict=True)]
    engine, gpus = _engine(options)
    shared = CaptureOptions(
        _absolute(options.model), options.layers, options.dtype or "", options.device_map or "", options.chunk, gpus
    )
    yield from engine.map(capture_text, shared, tasks)


def _engine(options: Namespace) -> "tuple[Engine, int]":
    """Returns the engine, and how many GPUs each of its tasks has."""
    from attnviz.analysis.ray_engine import Ray, cluster_gpus

    engine = named_engine(options.engine, threads=1)  # a model reads one text at a time
    if not isinstance(engine, Ray):
        return engine, 0
    gpus = min(1, cluster_gpus(engine.address)) if options.gpus is None else options.gpus
    return Ray(engine.address, gpus), gpus


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text in UTF-8. Save it as UTF-8.") from error


def _absolute(model: str) -> str:
    """Returns the path of a model as it is for processes that begin elsewhere; an id as it is."""
    path = Path(model).expanduser()
    return str(path.absolute()) if path.exists() and model.startswith((".", "~")) else model


def _options(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(
        "attnviz capture",
        description="Writes the queries, keys and values of all attention into a folder while a model reads a text.",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="an id on the Hugging Face hub, or the path of a folder or of a GGUF file"
    )
    parser.add_argument(
        "--text",
        metavar="FILE",
        required=True,
        action="append",
        help="the text, in UTF-8; may be given several times",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="TRACE",
        required=True,
        help="the new folder of the trace; of several texts, one with a trace for each, named as its file is",
    )
    parser.add_argument("--layers", type=_indices, help="the layers that are kept, such as 0,5,11 (by default all)")
    parser.add_argument(
        "--chunk",
        metavar="TOKENS",
        type=_count,
        help="a decoder reads this number of tokens at a time, such as 4096, in less memory (by default all)",
    )
    parser.add_argument("--dtype", choices=TYPES, help="in which the model computes (by default as it is stored)")
    parser.add_argument("--device-map", metavar="MAP", help="which devices hold the model, such as auto (accelerate)")
    add_engine_option(parser)
    parser.add_argument(
        "--gpus",
        metavar="NUMBER",
        type=_count,
        help="GPUs of the cluster for each text, with --engine ray (by default 1, where there are some)",
    )
    return parser.parse_args(arguments)


def _indices(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() for part in text.split(",")):
        raise ArgumentTypeError(f"layers are whole numbers with commas between them, such as 0,5,11; it is {text!r}")
    return tuple(int(part) for part in text.split(","))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"it is a whole number from 1, such as 4096; it is {text!r}")
    return int(text)
