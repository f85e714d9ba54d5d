"""attnviz picture: what a link shows, as a file, without a browser."""

import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> None:
    """Writes what the link shows; ends the process with a sentence if that is not possible."""
    options = _parser().parse_args(arguments)
    from attnviz import view

    try:
        if not options.output.parent.is_dir():
            raise ValueError(f"There is no folder {options.output.parent} for the file.")
        with warnings.catch_warnings(record=True) as refused:
            warnings.simplefilter("always", UserWarning)
            shown = view(options.link)
        for sentence in refused:
            print(f"attnviz picture: {sentence.message}", file=sys.stderr)
        shown.save(options.output)
    except (ValueError, ImportError, NotImplementedError, OSError) as problem:
        sys.exit(f"attnviz picture: {problem}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "attnviz picture",
        allow_abbrev=False,
        description="Writes what a link to Explore, Lookup, Steps, Scores or Masks shows to a file.",
    )
    parser.add_argument("link", metavar="LINK", help='such as "/masks?mask-a=causal&mask-b=sliding_window(4)"')
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        type=Path,
        help="the file to write: .svg, .pdf, .html, .npz or .csv",
    )
    return parser
