"""The gallery: every mask of the catalogue as an image, with buttons that load it into A or B."""

import streamlit as st

from attnviz.figures.mask_image import CELLS, mask_image
from attnviz.language import _
from attnviz.masks import GROUPS
from attnviz.state.masks import MasksState
from attnviz.state.parts import title
from attnviz.ui import cache
from attnviz.ui.field_widgets import draw
from attnviz.ui.masks.mask_editor import set_mask
from attnviz.ui.widget_values import field_value

PIXELS = 6  # of a cell


def show() -> None:
    """Draws the gallery, group by group."""
    draw(MasksState.load_into, widget=st.segmented_control)
    # The page holds the images itself: a file of the server would be gone before a slow browser asks for it, when
    # somebody goes on to another tab.
    images = cache.once(lambda: {kind: str(mask_image(kind())) for kinds in GROUPS.values() for kind in kinds}, "masks")
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
