"""The check of a trace in a folder: everything that is wrong with it, and what is doubtful."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from attnviz.base.formatting import number
from attnviz.layer import Layer
from attnviz.trace.mapped_inputs import Mapped, row_blocks
from attnviz.trace.problems import Problem, TracePlace
from attnviz.trace.reader import FILE, TraceContents, read_trace, resolved_folder

TOLERANCE = 1e-3  # by which the sum of a row may differ from 1, and more in 16 bits
MOST_FILES = 100_000  # of a folder that are listed


def check(folder: str | Path, report: Callable[[Layer, list[Problem]], None] | None = None) -> list[Problem]:
    """Returns the problems of a trace in a folder, at most 100, and as many warnings; none if it is all right.

    The folder is read as `Trace.load` reads it, and then all numbers. A problem that is not a warning is one for which
    the trace, or a layer of it, cannot be shown. Nothing is raised.

    Args:
        folder: The folder, with its trace.json.
        report: Called for each layer that can be opened, with the problems of its numbers, once they are read.

    Example:
        >>> [problem] = check("nowhere")
        >>> print(problem)
        There is no folder “nowhere” that can be opened. Give that of a trace.
    """
    contents = read_trace(Path(folder))
    place = TracePlace(problems=contents.problems)
    for layer in contents.layers:
        before = len(place.problems)
        _check_numbers(layer, place)
        if report is not None:
            report(layer, place.problems[before:])
    _check_files(Path(folder), contents, place)
    return place.problems


def _check_numbers(layer: Layer, place: TracePlace) -> None:
    inputs = layer.inputs
    assert isinstance(inputs, Mapped)
    for name in inputs.tensors:
        here = place.inside(name, inputs.file)
        tensor = here.attempt(getattr, inputs, name)  # which reads all its numbers
        if name == "weights" and tensor is not None:
            _check_rows(tensor, here)


def _check_rows(weights: Tensor, place: TracePlace) -> None:
    """Warns of rows that do not add up to 1, and of weights below 0. A row that is masked as a whole has no sum."""
    allowed = TOLERANCE + (torch.finfo(weights.dtype).eps if weights.is_floating_point() else 0)
    wrong, first = 0, ""
    for head, start, block in row_blocks(weights):
        block = block.float().nan_to_num(0)
        sums = block.sum(-1)
        is_wrong = ((sums - 1).abs() > allowed) & block.any(-1) | (block < 0).any(-1)
        if not first and bool(is_wrong.any()):
            row = int(is_wrong.nonzero()[0, 0])
            least = number(float(block[row].min()))
            first = (
                f"that of query {start + row:,} in head {head} adds up to {number(float(sums[row]))}, from {least} up"
            )
        wrong += int(is_wrong.sum())
    if wrong:
        place.warn(
            f"{wrong:,} of {weights[..., 0].numel():,} rows are not weights from 0 that add up to 1: {first}. Rows of "
            "a softmax are; write them after the softmax, with the axes (heads, queries, keys)."
        )


def _check_files(folder: Path, contents: TraceContents, place: TracePlace) -> None:
    """Warns of a trace without layers, and of files of layers that trace.json does not name."""
    if contents.refusals:
        return
    if not contents.layers:
        place.warn("This trace has no layers.")
    named = {layer.inputs.file for layer in contents.layers if isinstance(layer.inputs, Mapped)}
    try:
        files = {path.name for path in islice(resolved_folder(folder).iterdir(), MOST_FILES)}
    except OSError:
        place.warn("The folder cannot be listed, so it may hold files that trace.json does not name.")
        files = set()
    for name in sorted(name for name in files - named if FILE.fullmatch(name)):
        place.inside("", name).warn("trace.json does not name this file, so it is not read. Add a layer, or remove it.")
