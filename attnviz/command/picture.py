"""attnviz picture: what a link shows, as a file, without a browser."""

import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from attnviz.command.output_file import check_output_file

ENDINGS = (".svg", ".pdf", ".html", ".npz", ".csv")  # as PageView.save has them


def main(arguments: Sequence[str]) -> None:
    """Writes what the link shows; ends the process with a sentence if that is not possible."""
    options = _parser().parse_args(arguments)
    try:
        check_output_file(options.output, ENDINGS)
        if options.output.suffix == ".pdf" and find_spec("svglib") is None:
            raise ValueError("PDF files need svglib. Install it with: pip install svglib")
        with warnings.catch_warnings(record=True) as refused:
            warnings.simplefilter("always", UserWarning)
            _write(options.link, options.output)
        for sentence in refused:
            print(f"attnviz picture: {sentence.message}", file=sys.stderr)
    except (ValueError, ImportError, NotImplementedError, OSError) as problem:
        sys.exit(f"attnviz picture: {problem}")


def _write(link: str, path: Path) -> None:
    """Writes what a link shows: an .html file is the viewer of the link, if it has one."""
    from attnviz import view, viewer
    from attnviz.notebook.link_viewers import NoViewerError
    from attnviz.page.map_files import write_whole

    if path.suffix == ".html":
        with suppress(NoViewerError):
            return write_whole(path, viewer(link).to_html().encode())
    return view(link).save(path)


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
        help="the file to write: .svg, .pdf, .html (interactive), .npz or .csv",
    )
    return parser
