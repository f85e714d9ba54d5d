"""The gallery: every mask of the catalogue as an image, with buttons that load it into A or B."""

import streamlit as st

from attnviz.language import _
from attnviz.masks import GROUPS, Mask
from attnviz.state.masks import MasksState
from attnviz.state.parts import title
from attnviz.ui import cache
from attnviz.ui.field_widgets import draw, field_value
from attnviz.ui.html import element
from attnviz.ui.masks.mask_editor import set_mask

CELLS, PIXELS = 16, 6
SVG = "http://www.w3.org/2000/svg"
ALLOWED, MASKED = "#217bd6", "#8c847a46"  # seen on both themes


def show() -> None:
    """Draws the gallery, group by group."""
    draw(MasksState.load_into, widget=st.segmented_control)
    images = cache.once(lambda: {kind: mask_image(kind()) for kinds in GROUPS.values() for kind in kinds}, "masks")
    for group, kinds in GROUPS.items():
        st.markdown(f"**{_(group)}**")
        with st.container(horizontal=True, key=f"gallery-{group.lower()}"):
            for kind in kinds:
                with st.container(width=104, gap=None, key=f"gallery-{kind.__name__}"):
                    st.image(images[kind], width=CELLS * PIXELS, alt=f"{_(title(kind))}: {kind().describe()}")
                    st.button(
                        _(title(kind)), key=f"load-{kind.__name__}", type="tertiary", help=kind().describe(),
                        on_click=_load, args=(str(kind()),),
                    )  # fmt: skip


def _load(text: str) -> None:
    """Sets the mask of the side that is chosen by now: a click may come before the run of that choice."""
    set_mask(field_value(MasksState.load_into), text)


def mask_image(mask: Mask) -> str:
    """Returns a mask as an SVG image, which the page holds itself: a file of the server would be gone before a slow
    browser asks for it, when somebody goes on to another tab."""
    cells = [
        f"M{column},{row}h1v1h-1z"
        for row, allowed in enumerate(mask.matrix(CELLS, CELLS).tolist())
        for column in range(CELLS)
        if allowed[column]
    ]
    shapes = element("rect", width=CELLS, height=CELLS, fill=MASKED) + element("path", d="".join(cells), fill=ALLOWED)
    return element("svg", shapes, xmlns=SVG, viewBox=f"0 0 {CELLS} {CELLS}", shape_rendering="crispEdges")
