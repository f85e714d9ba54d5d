"""The dimensions of a query and a key whose products make their score."""

import math

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.figures.bars import AFTER, NEGATIVE
from attnviz.figures.chart_spec import About, Chart, PointsSpec
from attnviz.figures.maps import Array, as_array
from attnviz.figures.themes import light_figure

LABELED = 3  # dimensions that have their number written at their bar
ZERO = "rgba(128,128,128,0.6)"
PADDING = 0.18  # of the axis, beyond the longest bar that has a number


def products(query: Float[Array, " d"], key: Float[Array, " d"], *, scale: float = 1.0) -> Chart[PointsSpec]:
    """Draws a bar for each dimension: the query's number times the key's times `scale`. Their sum is the score.

    For scores that are dot products; the scale is 1/√d unless a model has another. The largest bars have the number of
    their dimension.

    Example:
        >>> products(np.array([1.0, 2.0]), np.array([3.0, 0.5])).spec.sentences[1]
        'Dimension 1: 2.00 × 0.50 = 1.00'
    """
    query, key = as_array(query).astype("f8"), as_array(key).astype("f8")
    each = query * key * scale
    labeled = np.argsort(-np.abs(each), kind="stable")[:LABELED].tolist()
    over, under = {"yanchor": "bottom", "yshift": 2}, {"yanchor": "top", "yshift": -2}
    numbers = [
        {"x": i, "y": float(each[i]), "text": str(i), "showarrow": False, **(over if each[i] >= 0 else under)}
        for i in labeled
    ]
    low, high = min(0.0, float(each.min())), max(0.0, float(each.max()))
    beneath, above = (PADDING * (high - low) * bool(side.any()) for side in (each[labeled] < 0, each[labeled] >= 0))
    ends = (low - beneath, high + above) if low < high else (-1.0, 1.0)
    colors = [NEGATIVE if one < 0 else AFTER for one in each]
    bars = go.Bar(x=np.arange(len(each), dtype="f8"), y=each, marker={"color": colors}, hoverinfo="skip")
    layout = {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "annotations": numbers,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "bargap": 0.2,
        "xaxis": _axis(_("dimension"), -0.7, len(each) - 0.3) | {"tickformat": "d", "nticks": 9},
        "yaxis": _axis(_("part of the score"), *ends) | {"nticks": 6, "zeroline": True, "zerolinecolor": ZERO},
    }
    sentences = tuple(_product_sentence(i, *both, scale) for i, both in enumerate(zip(query, key, strict=True)))
    about = About(
        label=_("Products"),
        description=_("{count} bars, one for each dimension: what it adds to the score.", count=len(each)),
        hint=_("Point at a bar to read it."),
    )
    return Chart(light_figure(bars, layout), PointsSpec(sentences, bars=True), about)


def _axis(title: str, first: float, last: float) -> dict[str, object]:
    return {"range": [first, last], "title": {"text": title, "standoff": 8}, "automargin": True}


def scaled(scale: float) -> str:
    """Returns what follows a product that is multiplied by `scale`: nothing, “ / √32” or “ × 0.30”.

    Example:
        >>> scaled(0.125), scaled(0.3), scaled(1.0)
        (' / √64', ' × 0.30', '')
    """
    if scale == 1:
        return ""
    square = scale**-2 if 1e-3 < scale < 1 else 0.5
    if math.isclose(square, round(square), rel_tol=1e-6):
        return f" / √{round(square)}"
    return f" × {_factor(scale)}"


def _product_sentence(dimension: int, query: float, key: float, scale: float) -> str:
    product = f"{_factor(query)} × {_factor(key)}{scaled(scale)} = {number(query * key * scale)}"
    return _("Dimension {dimension}: {product}", dimension=dimension, product=product)


def _factor(value: float) -> str:
    return f"({number(value)})" if value < 0 else number(value)
