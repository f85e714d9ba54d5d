"""A viewer of heads that stands for itself: its state, and its HTML."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

from markupsafe import Markup

from attnviz.base.formatting import dimensions
from attnviz.notebook import html_page
from attnviz.notebook.pictures import Pictures

OUTPUT_BYTES = 8 << 20  # of the maps that a cell's output holds
FILE_BYTES = 64 << 20  # of the maps that a file holds
_numbers = count()
_library_cell: tuple[object, int] | None = None  # the cell whose output has the library, and its execution


class HtmlOutput:
    """An output of a notebook as HTML that needs no kernel."""

    def to_html(self, path: str | Path | None = None, *, title: str = "Attention") -> str:
        """Returns the viewer as a page that needs neither Python nor a network, and writes it to `path` if it is given.

        Numbers are rounded to half precision, three digits. Of more than 64 MB of compressed charts those that are
        nearest to what is shown are in the page; a longer text has maps of 160 × 160 cells.
        """
        return to_html([self], path, title=title)

    def file_html(self) -> Markup:
        """Returns the HTML for a page, without the library."""
        return self._html(FILE_BYTES)

    def _html(self, limit: int, wait: int = 0) -> Markup:
        """Returns the HTML with at most `limit` bytes of charts, which leaves a widget some milliseconds."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._output()

    def _output(self, wait: int = 0) -> Markup:
        """Returns the HTML of a cell's output; the first of a notebook has the library for all others."""
        return self._html(OUTPUT_BYTES, wait) + (html_page.library() if _needs_library() else Markup())


class Viewer(HtmlOutput):
    """Charts of the heads of some layers, with a layer, a head and, if it is not None, a query that are chosen.

    A notebook shows it as HTML that needs no kernel. `AttentionWidget` is the same with a kernel.
    """

    layer: int
    head: int
    query: int | None

    def __init__(self, pictures: Pictures, layer: int = 0, head: int = 0, query: int | None = None) -> None:
        self.pictures = pictures
        check_choice(pictures, layer, head, query)
        self.layer, self.head, self.query = layer, head, query

    def __repr__(self) -> str:
        layers = self.pictures.layers
        sizes = {dimensions((one.inputs.heads, one.inputs.queries, one.inputs.keys)) for one in layers}
        names = f"{len(layers)} layer{'s' * (len(layers) > 1)}"
        return f"{type(self).__name__}({names} of heads × queries × keys: {', '.join(sorted(sizes))})"

    def _html(self, limit: int, wait: int = 0) -> Markup:
        chosen = {"layer": self.layer, "head": self.head, "query": self.query}
        return html_page.fragment(self.pictures.key, html_page.head_data(self.pictures, chosen, limit), wait=wait)


def to_html(viewers: Sequence[HtmlOutput], path: str | Path | None = None, *, title: str = "Attention") -> str:
    """Returns several viewers as one page with one copy of the scripts, and writes it to `path` if it is given."""
    return html_page.write_page([viewer.file_html() for viewer in viewers], path, title)


def head_viewer(pictures: Pictures, layer: int = 0, head: int = 0, query: int | None = None) -> Viewer:
    """Returns a viewer of heads: a widget if anywidget is installed."""
    if find_spec("anywidget") is None:
        return Viewer(pictures, layer, head, query)
    from attnviz.notebook.widget import AttentionWidget

    return AttentionWidget(pictures, layer, head, query)


def unique_key() -> str:
    """Returns a key that no other viewer of this process has."""
    return f"attnviz-{token_hex(4)}-{next(_numbers)}"


def check_choice(pictures: Pictures, layer: int, head: int, query: int | None) -> None:
    """Raises ValueError if there is no such layer, head or query."""
    layers = pictures.layers
    if not 0 <= layer < len(layers):
        raise ValueError(f"There is no layer {layer}: the layers are 0 to {len(layers) - 1}.")
    inputs = layers[layer].inputs
    if not 0 <= head < inputs.heads:
        raise ValueError(f"There is no head {head} in layer {layer}: its heads are 0 to {inputs.heads - 1}.")
    if query is not None and not 0 <= query < inputs.queries:
        raise ValueError(f"There is no query {query} in layer {layer}: its queries are 0 to {inputs.queries - 1}.")


def _needs_library() -> bool:
    """Returns whether the output of the running cell needs the library: it is the first, or it replaces the first."""
    global _library_cell
    cell = _running_cell()
    if cell is None or "google.colab" in sys.modules:  # where each output is a page of its own
        return True
    is_first = _library_cell is None
    is_again = _library_cell is not None and cell != _library_cell and cell[0] == _library_cell[0] is not None
    if is_first or is_again:
        _library_cell = cell
    return is_first or is_again


def _running_cell() -> tuple[object, int] | None:
    """Returns the id of the running cell, or None where it is not known, and the number of its execution; None outside
    a notebook."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return None
    parent = getattr(shell, "parent_header", None) or {}
    return parent.get("metadata", {}).get("cellId"), shell.execution_count
