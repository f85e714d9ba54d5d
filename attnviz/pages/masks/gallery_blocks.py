"""The gallery: every mask of the catalogue as an image that loads it into A or B."""

from collections.abc import Iterator
from urllib.parse import quote

from attnviz.base.language import _
from attnviz.masks import GROUPS, Mask
from attnviz.page.blocks import Anchor, Block, Control, Heading, MenuLinks, Paragraph
from attnviz.page.html import Markup, element
from attnviz.page.parts import title
from attnviz.page.result_cache import result_cache
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.state import TWO_MASKS, MasksState

PIXELS = 6  # of a cell
OF_IMAGES = "Vision"  # a group of masks
CELLS = 16
ALLOWED, MASKED = "#217bd6", "#8c847a46"  # seen on both themes
_IMAGE = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {0}" shape-rendering="crispEdges">'
    '<rect width="{0}" height="{0}" fill="{1}"></rect><path d="{2}" fill="{3}"></path></svg>'
)


def mask_image(mask: Mask) -> Markup:
    """Returns an SVG image of a mask of CELLS queries and keys, which a page can hold itself."""
    cells = [
        f"M{column},{row}h1v1h-1z"
        for row, allowed in enumerate(mask.matrix(CELLS, CELLS).tolist())
        for column in range(CELLS)
        if allowed[column]
    ]
    return _IMAGE.format(CELLS, MASKED, "".join(cells), ALLOWED)


def gallery_blocks(state: MasksState, _pair: MaskPair) -> Iterator[Block]:
    """Yields the images, group by group."""
    yield Control(MasksState.load_into, state)
    for group, kinds in GROUPS.items():
        yield Heading(_(group))
        yield Paragraph(tuple(_picture(state, kind()) for kind in kinds), "attnviz-gallery")


def mask_links(state: MasksState) -> MenuLinks:
    """Returns the masks of the catalogue as mask B, for places without a gallery."""

    def anchors() -> Iterator[Anchor]:
        for mask in (kind() for group, kinds in GROUPS.items() if group != OF_IMAGES for kind in kinds):
            yield Anchor(_(title(type(mask))), state.link_with(mask_b=mask), is_current=mask == state.mask_b)

    return MenuLinks(_(MasksState.mask_b.label), anchors)


def _picture(state: MasksState, mask: Mask) -> Anchor:
    values = {f"mask_{state.load_into.lower()}": mask, "look": TWO_MASKS}
    return Anchor((_image(mask), _(title(type(mask)))), state.link_with(**values))


def _image(mask: Mask) -> Markup:
    # The page holds the images itself: a file of the server would be gone before a slow browser asks for it.
    source = result_cache().once(lambda: f"data:image/svg+xml,{quote(mask_image(mask))}", "mask image", mask)
    name, sentence = _(title(type(mask))), mask.describe()
    return element("img", src=source, width=CELLS * PIXELS, alt=f"{name}: {sentence}", title=sentence)
