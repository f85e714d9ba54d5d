"""A picture as a model saw it, whose patches have the weights of a linked map."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from attnviz.base.language import N_, _
from attnviz.figures.chart_spec import About, Chart, PicturePatch, PictureRow, PictureSpec
from attnviz.figures.themes import light_figure

LONGEST_SIDE = 640  # pixels of the picture that is sent; the axes are those of the whole one
LOOKS_AT = N_("{query} gives {share} of its attention to the image; the line is around half of that.")
LOOKED_AT = N_("Who looks at {key}: the line is around half of the weights.")


def patch_picture(
    colors: UInt8[np.ndarray, "height width channels"],
    patches: Sequence[PicturePatch],
    *,
    link: str = "",
    row: PictureRow | None = None,
    region: Sequence[int] = (),
    sentence: str = LOOKS_AT,
    note: str = "",
) -> Chart[PictureSpec]:
    """Draws a picture, with patches whose boxes are in its pixels; a map of the same `link` has their weights, or a
    `row` of its own. Those of a `region`, by their numbers, are crossed out. The `sentence` of a row may have {query}
    and {share}, the sum of its weights; a `note` follows the description.

    Example:
        >>> patch = PicturePatch((0.0, 0.0, 4.0, 4.0), "the patch in row 0, column 0", row=1, column=1)
        >>> patch_picture(np.zeros((4, 4, 3), np.uint8), [patch], link="head").spec.aspect
        1.0
    """
    height, width, _channels = colors.shape
    small = Image.fromarray(colors)
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    file = io.BytesIO()
    small.save(file, "PNG")
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    place = {"xref": "x", "yref": "y", "x": 0, "y": 0, "sizex": width, "sizey": height}
    hidden = {"visible": False, "fixedrange": True}
    figure = light_figure(
        [],
        {
            "images": [{"source": source, "sizing": "stretch", "layer": "below", **place}],
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
            "dragmode": False,
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": {"range": [0, width], "constrain": "domain", **hidden},
            "yaxis": {"range": [height, 0], "scaleanchor": "x", "constrain": "domain", **hidden},
        },
    )
    count = max(sum(getattr(patch, side) >= 0 for patch in patches) for side in ("row", "column")) if patches else 0
    about = About(
        label=_("Image"),
        description=f"{_('The image as the model saw it, in {count} patches.', count=count)} {note}".strip(),
        hint=_("Point at a patch to read it, click to pin it."),
    )
    spec = PictureSpec(link, height / width, tuple(patches), _(sentence), _(LOOKED_AT), row, tuple(region))
    return Chart(figure, spec, about)
