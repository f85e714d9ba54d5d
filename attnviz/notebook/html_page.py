"""Viewers as HTML that needs neither Python nor a network: compressed charts, and one copy of the scripts for all."""

import gzip
import json
import sys
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attnviz.chart import pack
from attnviz.notebook import bundle

_library_cell: tuple[object, int] | None = None  # the cell whose output has the library, and its execution
_PAGE = """<!doctype html>
<html lang="en" data-attnviz-page="true">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  html {{ color-scheme: light dark; }}
  body {{ margin: 0 auto; max-width: 1280px; padding: 8px; }}
</style>
{body}
"""


def fragment(key: str, data: dict[str, Any], *, text: str, wait: int = 0) -> Markup:
    """Returns the HTML of one viewer, without the library; `text` is there where no script runs.

    A notebook with a kernel shows the widget instead, for which `wait` milliseconds are left.
    """
    element = Markup('<div data-attnviz="{}" data-wait="{}">{}</div>\n').format(key, wait, text)
    start = Markup("<script>\n{}</script>\n").format(Markup(bundle.text("notebook/boot.js")))  # noqa: S704 our own file
    return element + _json_script("data", key, data | {"template": bundle.text("chart/chart.html")}) + start


class Bundles:
    """Named values, of which `length` are compressed at a time, as they have much in common; real numbers with `half`
    in half precision, three digits."""

    def __init__(self, length: int, half: bool = False) -> None:
        self.length, self.half, self.names, self.size = length, half, set[str](), 0  # bytes
        self._bundles, self._open = list[dict[str, Any]](), dict[str, Any]()

    def add(self, name: str, value: Any) -> None:
        """Adds a value whose name is not there."""
        if name not in self.names:
            self.names.add(name)
            self._open[name] = value
        if len(self._open) == self.length:
            self.close()

    def close(self) -> None:
        """Compresses the values that were added last."""
        if self._open:
            content = b64encode(gzip.compress(pack(self._open, half=self.half), 9, mtime=0)).decode()
            self._bundles.append({"names": [*self._open], "content": content})
            self.size += len(content)
            self._open = {}

    def closed(self) -> list[dict[str, Any]]:
        """Returns all bundles."""
        self.close()
        return self._bundles


def library() -> Markup:
    """Returns the HTML that all viewers of a page share: plotly.js, the modules and the styles."""
    script = bundle.module_script("notebook/page.js") + "export default entry.start;\n"
    content = {"script": script, "styles": bundle.styles(), "plotly": b64encode(bundle.plotly_script()).decode()}
    return _json_script("library", "true", content)


def write_page(fragments: Iterable[Markup], path: str | Path | None, title: str) -> str:
    """Returns a whole page of viewers, and writes it to `path` if it is given."""
    page = _PAGE.format(title=Markup.escape(title), body=Markup("\n").join([library(), *fragments]))
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page


def needs_library() -> bool:
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


def _json_script(name: str, value: str, content: dict[str, Any]) -> Markup:
    text = Markup(json.dumps(content).replace("<", "\\u003c"))  # noqa: S704 no tag can begin in it
    return Markup('<script type="application/json" data-attnviz-{}="{}">{}</script>\n').format(name, value, text)
