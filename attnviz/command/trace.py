"""attnviz trace: what is in a trace, and what is wrong with it."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.layer import Layer
    from attnviz.trace import Problem

LONGEST_MASK = 40  # characters of it in a line


def main(arguments: Sequence[str]) -> None:
    """Prints the layers or the problems of a trace; ends the process with status 1 if it cannot be shown."""
    options = _parser().parse_args(arguments)
    try:
        {"check": check_folder, "show": show_folder}[options.task](options.folder)
    except ValueError as problem:
        sys.exit(f"attnviz trace: {problem}")
    except KeyboardInterrupt:
        sys.exit("attnviz trace: stopped.")


def check_folder(folder: Path) -> None:
    """Prints a line for each layer as it is read, then every problem. Exits with status 1 if the app refuses it."""
    from attnviz.trace import check

    problems = check(folder, _print_layer)
    warnings = sum(problem.is_warning for problem in problems)
    for problem in problems:
        print(f"{'warning' if problem.is_warning else 'problem'}: {problem}")
    refusals = len(problems) - warnings
    end = "The app refuses it." if refusals else "The app can show it."
    print(f"Problems: {refusals}, warnings: {warnings}. {end}")
    if refusals:
        sys.exit(1)


def show_folder(folder: Path) -> None:
    """Prints the model, the layers and what is missing. Raises ValueError if it is not a trace that can be opened."""
    from attnviz.trace import Trace

    trace = Trace.load(folder)
    if trace.model:
        print(trace.model)
    for layer in trace:
        print(_layer_line(layer))
    for sentence in trace.missing:
        print(sentence)


def _print_layer(layer: "Layer", problems: "list[Problem]") -> None:
    refused, warned = any(not problem.is_warning for problem in problems), bool(problems)
    print(f"{_layer_line(layer)}: {'refused' if refused else 'doubtful' if warned else 'right'}", flush=True)


def _layer_line(layer: "Layer") -> str:
    from attnviz.base.formatting import quoted
    from attnviz.mechanism import Mechanism

    inputs, mechanism = layer.inputs, layer.mechanism
    shown = f"mask {quoted(str(mechanism.mask), LONGEST_MASK)}" if isinstance(mechanism, Mechanism) else "weights alone"
    sizes = f"{inputs.heads} heads, {inputs.queries:,} queries × {inputs.keys:,} keys"
    return f"{layer.name}: {layer.kind}, {sizes}, {shown}, {layer.fidelity or 'not compared'}"


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "attnviz trace", description="Checks a trace in a folder as the app reads it, or prints what is in it."
    )
    tasks = parser.add_subparsers(dest="task", metavar="TASK", required=True)
    for name, text in (
        ("check", "every problem, with its place; the status is 1 if the app refuses the trace"),
        ("show", "its layers, and what is missing"),
    ):
        task = tasks.add_parser(name, help=text, description=f"Prints {text}.")
        task.add_argument("folder", metavar="FOLDER", type=Path, help="the folder, with its trace.json")
    return parser
