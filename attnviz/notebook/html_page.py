"""Viewers as HTML that needs neither Python nor a network: compressed charts, and one copy of the scripts for all."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attnviz.chart import pack
from attnviz.notebook import bundle
from attnviz.notebook.pictures import Pictures

UNTRUSTED = "Attention of each head. Trust this notebook, or run its cells again, to see the picture."
CELLS = 160  # of a map of a long text, along each side
STREAM_CELLS = 1 << 16  # of the maps that are compressed together: small ones, which have much in common
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


def fragment(key: str, data: dict[str, Any], *, text: str = UNTRUSTED, wait: int = 0) -> Markup:
    """Returns the HTML of one viewer, without the library; `text` is there where no script runs.

    A notebook with a kernel shows the widget instead, for which `wait` milliseconds are left.
    """
    element = Markup('<div data-attnviz="{}" data-wait="{}">{}</div>\n').format(key, wait, text)
    start = Markup("<script>\n{}</script>\n").format(Markup(bundle.text("notebook/boot.js")))  # noqa: S704 our own file
    return element + _json_script("data", key, data | {"template": bundle.text("chart/chart.html")}) + start


def head_data(pictures: Pictures, chosen: dict[str, int | None], limit: int) -> dict[str, Any]:
    """Returns the charts of heads.

    Maps are rounded to half precision, three digits. Those of the chosen layer come first, and only as many as fit in
    `limit` bytes.
    """
    streams: list[dict[str, Any]] = []
    size = 0
    for heads in _streams(pictures, chosen["layer"] or 0, chosen["head"] or 0):
        charts = {f"{i} {j}": [one | {"views": False} for one in pictures.maps(i, j, cells=CELLS)] for i, j in heads}
        text = encoded(charts)
        size += len(text)
        if size > limit and streams:
            break
        streams.append({"heads": [*charts], "charts": text})
    return {
        "layers": pictures.overview,
        "mosaics": [encoded(pictures.mosaic(group)) for group in range(len(pictures.groups))],
        "streams": streams,
        "chosen": chosen,
    }


class Bundles:
    """Named values, of which `length` are compressed at a time, as they have much in common."""

    def __init__(self, length: int) -> None:
        self.length, self.names, self.size = length, set[str](), 0  # bytes
        self._bundles, self._open = list[dict[str, Any]](), dict[str, Any]()

    def add(self, name: str, value: Any) -> None:
        """Adds a value whose name is not there."""
        if name not in self.names:
            self.names.add(name)
            self._open[name] = value
        if len(self._open) == self.length:
            self.close()

    def close(self) -> None:
        """Compresses the values that were added last; in full precision, as sentences beside a map have its numbers."""
        if self._open:
            content = encoded(self._open, half=False)
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


def _streams(pictures: Pictures, layer: int, head: int) -> Iterator[list[tuple[int, int]]]:
    """Yields the heads whose maps are compressed together: first those with the chosen one, then those of its layer."""
    for i, one in sorted(enumerate(pictures.overview), key=lambda numbered: numbered[0] != layer):
        heads = sorted(((i, j) for j in range(one["heads"])), key=lambda place: place != (layer, head))
        count = max(1, STREAM_CELLS // (one["queries"] * one["keys"]))
        yield from (heads[start : start + count] for start in range(0, len(heads), count))


def encoded(charts: dict[str, Any], half: bool = True) -> str:
    """Returns charts as compressed text, with the weights of maps by default in half precision."""
    return b64encode(gzip.compress(pack(charts, half=half), 9, mtime=0)).decode()


def _json_script(name: str, value: str, content: dict[str, Any]) -> Markup:
    text = Markup(json.dumps(content).replace("<", "\\u003c"))  # noqa: S704 no tag can begin in it
    return Markup('<script type="application/json" data-attnviz-{}="{}">{}</script>\n').format(name, value, text)
