"""The gallery: every mask of the catalogue as an image, with buttons that load it into A or B."""

import numpy as np
import streamlit as st

from attnviz.language import _
from attnviz.masks import GROUPS, Mask
from attnviz.ui.masks.comparison import SIDES
from attnviz.ui.masks.mask_editor import set_mask
from attnviz.ui.widgets import title

CELLS, PIXELS = 16, 6
ALLOWED, MASKED = (33, 123, 214, 255), (140, 132, 122, 70)  # seen on both themes


def show() -> None:
    """Draws the gallery, group by group."""
    side = st.segmented_control(_("Load into"), SIDES, default="B", required=True, key="load-into", bind="query-params")
    for group, kinds in GROUPS.items():
        st.markdown(f"**{_(group)}**")
        with st.container(horizontal=True, key=f"gallery-{group.lower()}"):
            for kind in kinds:
                with st.container(width=104, gap=None, key=f"gallery-{kind.__name__}"):
                    st.image(mask_image(kind()), width=CELLS * PIXELS, alt=f"{_(title(kind))}: {kind().describe()}")
                    st.button(
                        _(title(kind)), key=f"load-{kind.__name__}", type="tertiary", help=kind().describe(),
                        on_click=set_mask, args=(side, str(kind())),
                    )  # fmt: skip


@st.cache_data
def _pixels(text: str, _mask: Mask) -> np.ndarray:
    allowed = _mask.matrix(CELLS, CELLS).numpy()
    colored = np.where(allowed[..., None], np.array(ALLOWED, "u1"), np.array(MASKED, "u1"))
    return colored.repeat(PIXELS, 0).repeat(PIXELS, 1)


def mask_image(mask: Mask) -> np.ndarray:
    """Returns a mask as an RGBA image."""
    return _pixels(repr(mask), mask)
