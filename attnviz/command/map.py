"""attnviz map: the map of one head of a trace, downsampled, on this machine or a cluster."""

import io
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.base.formatting import enumeration, quoted
from attnviz.command.engine_option import add_engine_option, named_engine
from attnviz.command.output_file import check_output_file

if TYPE_CHECKING:
    from attnviz.analysis.downsampling import Downsampled
    from attnviz.layer import Layer
    from attnviz.trace import Trace

MOST_CELLS = 8192  # along each side
EVERY = 1.0  # seconds between two lines of progress


def main(arguments: Sequence[str]) -> None:
    """Computes what the arguments ask for and writes it; ends the process with a sentence if that is not possible."""
    options = _parser().parse_args(arguments)
    from attnviz import Trace, downsample
    from attnviz.analysis.ray_engine import ClusterError

    try:
        check_output_file(options.output)
        layer = find_layer(Trace.load(options.trace), options.layer)
        heads = layer.inputs.heads
        if not 0 <= options.head < heads:
            raise ValueError(f"The layer {layer.name} has the heads 0 to {heads - 1}; --head is {options.head}.")
        downsampled = downsample(
            layer.inputs,
            layer.mechanism,
            options.head,
            cells=(options.cells, options.cells),
            engine=named_engine(options.engine),
            progress=progress_report(f"{layer.name}, head {options.head}"),
        )
        write(downsampled, options.output)
    except (ValueError, ImportError, NotImplementedError, OSError, ClusterError) as problem:
        sys.exit(f"attnviz map: {problem}")
    except KeyboardInterrupt:
        sys.exit("attnviz map: stopped. No file was written.")


def find_layer(trace: "Trace", name: str) -> "Layer":
    """Returns the layer with a position in the trace, counted from 0, or with a name. Raises ValueError if none has."""
    names = [layer.name for layer in trace]
    if name in names:
        return trace[names.index(name)]
    if name.isdecimal() and int(name) < len(names):
        return trace[int(name)]
    some = names if len(names) < 7 else [*names[:3], "…", names[-1]]
    raise ValueError(
        f"The trace has no layer {quoted(name)}. It has {enumeration(some)}; --layer is one of them, "
        f"or a number from 0 to {len(names) - 1}."
    )


def progress_report(title: str) -> "Callable[[float, Downsampled], None]":
    """Returns a function that writes the share that is done to stderr: one line that changes, or a line each second."""
    start = time.monotonic()
    last = -EVERY
    is_terminal = sys.stderr.isatty()

    def report(share: float, _: "Downsampled") -> None:
        nonlocal last
        spent = time.monotonic() - start
        if spent < last + EVERY and share < 1:
            return
        last = spent
        left = f", about {spent * (1 - share) / share:.0f} s left" if share < 1 else f" in {spent:.1f} s"
        text = f"{title}: {share:4.0%}{left}"
        print(f"\r{text:<79}" if is_terminal else text, end="" if is_terminal and share < 1 else "\n", file=sys.stderr)

    return report


def write(downsampled: "Downsampled", path: Path) -> None:
    """Writes the arrays, under their names, to an .npz file, which is there whole or not at all."""
    import numpy as np

    from attnviz.page.map_files import write_whole

    arrays = {name: np.asarray(value) for name, value in vars(downsampled).items()}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # one of them is taken for its switch
    write_whole(path, file.getvalue())


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "attnviz map", allow_abbrev=False, description="Writes the map of a head, in fewer cells, to an .npz file."
    )
    parser.add_argument("trace", metavar="TRACE", type=Path, help="the folder of a trace, from attnviz capture")
    parser.add_argument("--layer", required=True, help="a layer's number, counted from 0, or its name")
    parser.add_argument("--head", required=True, type=int, help="a head's number, counted from 0")
    parser.add_argument("--cells", type=_cells, default=256, help="rows and columns of cells (256 by default)")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", type=Path, help="the .npz file to write")
    add_engine_option(parser)
    return parser


def _cells(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CELLS:
        raise ArgumentTypeError(f"a whole number from 1 to {MOST_CELLS:,} is needed; it is {quoted(text)}")
    return int(text)
