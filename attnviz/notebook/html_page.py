"""Viewers as HTML that needs neither Python nor a network: compressed charts, and one copy of the scripts for all."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from markupsafe import Markup

from attnviz.chart import pack
from attnviz.notebook import bundle
from attnviz.notebook.pictures import Pictures

UNTRUSTED = "Attention of each head. Trust this notebook, or run its cells again, to see the picture."
CELLS = 160  # of a map of a long text, along each side
_UNCHANGED: Any = object()
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


def fragment(pictures: Pictures, chosen: dict[str, int | None], limit: int, *, wait: int = 0) -> Markup:
    """Returns the HTML of one viewer, without the library.

    Maps are rounded to half precision, three digits. Those of the chosen layer come first, and only as many as fit in
    `limit` bytes. A notebook with a kernel shows the widget instead, for which `wait` milliseconds are left.
    """
    maps: dict[str, str] = {}
    data: dict[str, Any] = {
        "layers": pictures.overview,
        "template": bundle.text("chart/chart.html"),
        "mosaics": [_encoded(pictures.mosaic(group)) for group in range(len(pictures.groups))],
        "common": "",
        "maps": maps,
        "chosen": chosen,
    }
    common, size = None, 0
    for layer, head in _order(pictures, chosen["layer"] or 0, chosen["head"] or 0):
        charts = {"maps": [one | {"views": False} for one in pictures.maps(layer, head, cells=CELLS)]}
        if common is None:
            common = charts
            data["common"] = _encoded(common)
        text = _encoded(_patch(common, charts))
        size += len(text)
        if size > limit and maps:
            break
        maps[f"{layer} {head}"] = text
    element = Markup('<div data-attnviz="{}" data-wait="{}">{}</div>\n').format(pictures.key, wait, UNTRUSTED)
    start = Markup("<script>\n{}</script>\n").format(Markup(bundle.text("notebook/boot.js")))  # noqa: S704 our own file
    return element + _json_script("data", pictures.key, data) + start


def library() -> Markup:
    """Returns the HTML that all viewers of a page share: plotly.js, the modules and the styles."""
    script = bundle.module_script("notebook/page.js") + "export default entry.start;\n"
    content = {"script": script, "styles": bundle.styles(), "plotly": b64encode(bundle.plotly_script()).decode()}
    return _json_script("library", "true", content)


def whole_page(fragments: Iterable[Markup], title: str) -> str:
    """Returns a whole page of viewers."""
    return _PAGE.format(title=Markup.escape(title), body=Markup("\n").join([library(), *fragments]))


def _order(pictures: Pictures, layer: int, head: int) -> Iterator[tuple[int, int]]:
    """Yields all heads, the chosen one first, then those of its layer."""
    places = [(i, j) for i, one in enumerate(pictures.overview) for j in range(one["heads"])]
    yield from sorted(places, key=lambda place: (place != (layer, head), place[0] != layer))


def _encoded(charts: dict[str, Any]) -> str:
    return b64encode(gzip.compress(pack(charts, half=True), 9)).decode()


def _json_script(name: str, value: str, content: dict[str, Any]) -> Markup:
    text = Markup(json.dumps(content).replace("<", "\\u003c"))  # noqa: S704 no tag can begin in it
    return Markup('<script type="application/json" data-attnviz-{}="{}">{}</script>\n').format(name, value, text)


def _patch(base: Any, other: Any) -> Any:
    """Returns what turns one chart into another: changed entries by key or index, and None for those that are gone."""
    patch = _changes(base, other)
    return {} if patch is _UNCHANGED else patch


def _changes(base: Any, other: Any) -> Any:
    if isinstance(base, list | tuple) and isinstance(other, list | tuple) and len(base) == len(other):
        if not any(isinstance(one, dict | np.ndarray) for one in other):
            return _UNCHANGED if base == other else other
        base, other = ({str(i): one for i, one in enumerate(each)} for each in (base, other))
    if not (isinstance(base, dict) and isinstance(other, dict)):
        same = not isinstance(base, np.ndarray) and not isinstance(other, np.ndarray) and base == other
        return _UNCHANGED if same else other
    changes = {name: _changes(base.get(name), value) for name, value in other.items()}
    changes = {name: value for name, value in changes.items() if value is not _UNCHANGED}
    changes |= dict.fromkeys(base.keys() - other.keys())
    return changes or _UNCHANGED
