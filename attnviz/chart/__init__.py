"""Charts in a browser: their JavaScript modules, which the app, the notebook widget and exported HTML share, and the
bytes that Python sends them."""

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from attnviz.base.language import _
from attnviz.figures.chart_spec import Chart, ChartSpec
from attnviz.figures.sentences import CellSentences, ChangeSentences
from attnviz.figures.themes import THEMES

SENT_AS = {"f": "f4", "i": "f8", "u": "f8", "b": "u1"}  # what a browser has an array type for


_THEMES = {theme: template.to_plotly_json() for theme, template in THEMES.items()}  # every chart brings them along


def header(
    picture: Chart[ChartSpec],
    key: str,
    *,
    height: int,
    pinned: int | None = None,
    grows: bool | str | None = None,
    title: str = "",
    clicks: bool = False,
    views: bool = False,
) -> dict[str, Any]:
    """Returns what the browser needs to show a picture, `height` pixels high.

    `key` tells it from the other charts of a page, and `stamp` from the pictures that it showed before. `pinned` marks
    a row of a heatmap. With `grows` the picture is higher where the window has room, which pictures "beside" each other
    have less of in presentations; by default its specification says so. With `clicks` and `views` it reports clicks and
    zooms.
    """
    drawn, about = picture.figure, picture.about
    # Without its template; Figure.to_plotly_json would write arrays as base64.
    layout = drawn.layout.to_plotly_json() | {"template": None}
    figure = {"data": [trace.to_plotly_json() for trace in drawn.data], "layout": layout}
    return {
        "figure": figure,
        "spec": picture.spec,
        "stamp": zlib.crc32(pack({"figure": figure, "spec": picture.spec})),
        "themes": _THEMES,
        "label": about.label,
        "description": about.description,
        "height": height,
        "pinned": pinned,
        "hint": about.hint,
        "title": title,
        "grows": picture.spec.grows if grows is None else grows,
        "clicks": clicks,
        "paints": False,
        "drags": False,
        "views": views,
        "clickStamp": 0,
        "dragStamp": 0,
        "drop": 0,
        "key": key,
        "name": about.name or about.label,
    }


def pack(header: dict[str, Any], *, half: bool = False) -> bytes:
    """Returns a JSON header followed by the arrays in it as raw bytes; with `half`, real numbers in half precision."""
    arrays: list[np.ndarray] = []

    def encoded(value: object) -> dict[str, Any]:
        if is_dataclass(value) and not isinstance(value, type):
            return _as_json(value)
        if not isinstance(value, np.ndarray) or value.ndim > 2 or value.dtype.kind not in SENT_AS:
            raise TypeError(f"A figure cannot hold {value!r:.80}: arrays of numbers have at most 2 axes.")
        arrays.append(np.ascontiguousarray(value.astype(_sent_type(value.dtype, half), copy=False)))
        return {"array": len(arrays) - 1, "dtype": arrays[-1].dtype.str[1:], "shape": value.shape}

    text = json.dumps(header, default=encoded, allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    chunks = [len(text).to_bytes(8, "little"), text]
    for array in arrays:
        chunks += [array.tobytes(), bytes(-array.nbytes % 8)]
    return b"".join(chunks)


def _sent_type(dtype: np.dtype, half: bool) -> str:
    if half and dtype.kind == "f":
        return "f2"
    return dtype.str[1:] if dtype.str[1:] in ("f4", "f8", "i4", "u1") else SENT_AS[dtype.kind]


def _as_json(spec: Any) -> dict[str, Any]:
    """Returns the fields of a specification in camel case; mappings by row and column become lists of triples."""
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    values |= {
        name: [(*key, one) for key, one in value.items()]
        for name, value in values.items()
        if isinstance(value, Mapping)
    }
    if isinstance(spec, CellSentences | ChangeSentences):  # translated templates
        values = {name: _(template) for name, template in values.items()}
    head = {"mode": spec.mode} if hasattr(spec, "mode") else {}
    return head | {re.sub("_(.)", lambda match: match[1].upper(), name): value for name, value in values.items()}
