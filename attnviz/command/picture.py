"""attnviz picture: what a link shows, as a file, without a browser."""

import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from attnviz.command.output_file import check_output_file


def main(arguments: Sequence[str]) -> None:
    """Writes what the link shows; ends the process with a sentence if that is not possible."""
    options = _parser().parse_args(arguments)
    try:
        from attnviz import view
        from attnviz.page.page_view import ENDINGS

        check_output_file(options.output, ENDINGS)
        if options.output.suffix == ".pdf" and find_spec("svglib") is None:
            raise ValueError("PDF files need svglib. Install it with: pip install svglib")
        with warnings.catch_warnings(record=True) as refused:
            warnings.simplefilter("always", UserWarning)
            view(options.link).save(options.output)
        for sentence in dict.fromkeys(str(warning.message) for warning in refused):
            print(f"attnviz picture: {sentence}", file=sys.stderr)
    except (ValueError, ImportError, NotImplementedError, OSError) as problem:
        sys.exit(f"attnviz picture: {problem}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "attnviz picture",
        allow_abbrev=False,
        description="Writes what a link to a page of the app shows to a file.",
    )
    parser.add_argument("link", metavar="LINK", help='such as "/masks?mask-a=causal&mask-b=sliding_window(4)"')
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        type=Path,
        help="the file to write; its ending says its kind: a figure, as .svg, or weights, as .npz",
    )
    return parser
