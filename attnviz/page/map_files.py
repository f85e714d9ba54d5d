"""Maps as files: the kinds of files of weights, and figures as HTML and PDF."""

import csv
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.base.formatting import quoted, spreadsheet_cell
from attnviz.base.language import N_, value_error
from attnviz.figures import themed
from attnviz.figures.sentences import escaped

SYMBOLS = "−√"  # in the font of symbols, which every PDF has beside that of Western letters


@dataclass(frozen=True)
class WeightsFile:
    """A kind of file of weights.

    Attributes:
        label: The name in menus.
        write: Returns the content for weights (queries, keys), NaN where masked, and their tokens.
        holds_several: Whether it may also be weights (maps, queries, keys).
    """

    label: str
    write: Callable[[Float[np.ndarray, "*maps queries keys"], Sequence[str], Sequence[str]], bytes]
    holds_several: bool = False


def as_csv(weights: Float[np.ndarray, "queries keys"], query_tokens: Sequence[str], key_tokens: Sequence[str]) -> bytes:
    """Returns the weights as CSV, with keys as the header and queries as the first column; masked cells are empty."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["", *map(spreadsheet_cell, key_tokens)])
    for token, row in zip(query_tokens, weights, strict=True):
        table.writerow([spreadsheet_cell(token), *("" if np.isnan(weight) else repr(float(weight)) for weight in row)])
    return text.getvalue().encode("utf-8-sig")


def as_npz(
    weights: Float[np.ndarray, "*heads queries keys"], query_tokens: Sequence[str], key_tokens: Sequence[str]
) -> bytes:
    """Returns the weights as .npz, with 0 where masked, and the tokens; the file can be uploaded."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        weights=np.nan_to_num(weights),
        tokens=np.array(query_tokens, dtype=str),
        key_tokens=np.array(key_tokens, dtype=str),
    )
    return file.getvalue()


WEIGHTS_FILES = {  # by the ending; all are offered by pages, `PageViewer.save` and `attnviz picture`
    ".csv": WeightsFile(N_("Weights as CSV"), as_csv),
    ".npz": WeightsFile(N_("Weights as .npz"), as_npz, holds_several=True),
}


def as_pdf(svg: str) -> bytes:
    """Returns an SVG element as a PDF page with its text as text, drawn by svglib. Raises ValueError if svglib is not
    installed, or if its standard fonts do not have a letter."""
    try:
        from reportlab.graphics import renderPDF
        from svglib.svglib import svg2rlg
    except ImportError as error:
        raise value_error("PDF files need svglib. Install it with: pip install svglib") from error
    missing = next((letter for letter in svg if letter not in SYMBOLS and not _is_western(letter)), None)
    if missing:
        raise value_error(
            "The standard fonts of PDF files have no {letter}. Save the figure as .svg.", letter=quoted(missing)
        )
    content: bytes = renderPDF.drawToString(svg2rlg(io.StringIO(svg)))
    return content


def _is_western(letter: str) -> bool:
    return bool(letter.encode("cp1252", "ignore"))


def figures_page(figures: Sequence[tuple[str, go.Figure]], note: str = "") -> str:
    """Returns titled figures, and a note below them, as one HTML page that works offline."""
    parts = [
        themed(figure)
        .update_layout(title={"text": escaped(title)}, margin_t=70)
        .to_html(include_plotlyjs=number == 0, full_html=False, config={"displaylogo": False})
        for number, (title, figure) in enumerate(figures)
    ]
    below = f"<p>{escaped(note)}</p>" if note else ""
    return f'<!doctype html>\n<html><head><meta charset="utf-8"></head><body>{"".join(parts)}{below}</body></html>\n'


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, which is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
