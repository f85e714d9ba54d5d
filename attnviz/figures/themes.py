"""The colors of every figure, in light and in dark, as plotly templates.

Weights run from the page's own brightness to its opposite in equal steps of perceived lightness (OKLab), so
that a weight twice as large looks twice as strong, also to a color-blind eye and in a gray print. What a mask
hides has a warm gray that is not on the scale.
"""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

WEIGHTS = {
    "light": (
        "#eafaff", "#b1eafe", "#7cd6fd", "#4bc0fa", "#21a7f2", "#108ce3", "#2073cc", "#2c5bad", "#304789", "#2d3561",
        "#242639",
    ),
    "dark": (
        "#1b1e2e", "#212f54", "#154479", "#005e8b", "#007896", "#0693a0", "#02afa4", "#2bcb9d", "#8edb99", "#cee8aa",
        "#faf8d1",
    ),
}  # fmt: skip
# Differences: from less (warm) over nothing, the page's own brightness, to more (blue).
CHANGES = {
    "light": (
        "#642a00", "#994000", "#c46322", "#d99670", "#e9c6b3", "#f7f7f8", "#bbd0ec", "#81aadf", "#4583d0", "#225ea6",
        "#173d6c",
    ),
    "dark": (
        "#ffbf97", "#ef8e54", "#c76726", "#8c502b", "#553929", "#1c1f26", "#304158", "#3d6394", "#4886d4", "#70adfb",
        "#a9d4ff",
    ),
}  # fmt: skip
ACCENT = "#e8590c"  # of what is chosen: seen on both themes, and on both ends of both scales
PAPER = {"light": "#ffffff", "dark": "#0e1117"}
MASKED = {"light": "#dcd7d0", "dark": "#46423d"}
TEXT = {"light": "#31333f", "dark": "#fafafa"}
FONT = "Source Sans, Source Sans Pro, Segoe UI, Helvetica, Arial, sans-serif"

# Under which name a figure finds each scale in its template.
COLOR_AXES = {"weights": "coloraxis", "codes": "coloraxis2", "changes": "coloraxis3"}

# A mosaic is sent as one byte a cell: 0 is the gap between heads, 1 is masked, 2 … 255 are weights.
GAP_CODE, MASKED_CODE, FIRST_CODE, LAST_CODE = 0, 1, 2, 255


def _template(theme: str) -> go.layout.Template:
    weights, changes = (
        [(i / (len(scale) - 1), color) for i, color in enumerate(scale)] for scale in (WEIGHTS[theme], CHANGES[theme])
    )
    colorbar = {"outlinewidth": 0, "thickness": 8, "tickfont_size": 12, "xpad": 0, "ypad": 0}
    start = (FIRST_CODE - 0.5) / LAST_CODE
    codes = [
        (0, PAPER[theme]),
        (0.5 / LAST_CODE, PAPER[theme]),
        (0.5 / LAST_CODE, MASKED[theme]),
        (start, MASKED[theme]),
        *((start + (1 - start) * lightness, color) for lightness, color in weights),
    ]
    axis = {"showgrid": False, "zeroline": False, "ticks": "", "linecolor": "rgba(128,128,128,0.4)", "minexponent": 6}
    return go.layout.Template(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": MASKED[theme],
            "font": {"family": FONT, "size": 14, "color": TEXT[theme]},
            COLOR_AXES["weights"]: {"colorscale": weights, "colorbar": colorbar},
            COLOR_AXES["codes"]: {"colorscale": codes, "showscale": False},
            COLOR_AXES["changes"]: {"colorscale": changes, "colorbar": colorbar},
            "xaxis": axis,
            "yaxis": axis,
            "dragmode": False,
            "hovermode": False,  # the chart itself says what is under the pointer
            "showlegend": False,
        }
    )


THEMES = {theme: _template(theme) for theme in WEIGHTS}


# The accent for stylesheets and scripts.
CSS_PROPERTIES = f":root {{ --attnviz-accent: {ACCENT}; }}\n"


def light_figure(data: Any = None, layout: Mapping[str, Any] | None = None) -> go.Figure:
    """Returns a new figure in the light theme; the arguments are those of go.Figure.

    Its properties are not validated, which takes plotly ten times as long as all the rest: the tests validate them.
    """
    figure = go.Figure(data, {"template": THEMES["light"], **(layout or {})}, _validate=False)
    figure._validate = figure.layout._validate = True  # of what is added to it
    return figure


def themed(figure: go.Figure, theme: str = "light") -> go.Figure:
    """Returns a copy of the figure in a theme with an opaque background, for files and notebooks."""
    return go.Figure(figure).update_layout(template=THEMES[theme], paper_bgcolor=PAPER[theme])
