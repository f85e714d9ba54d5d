"""What pages say without Streamlit: the texts of their blocks."""

import re
from html import unescape

from attnviz.page.block_html import block_html
from attnviz.page.blocks import every_block
from attnviz.pages.catalogue import page_blocks, read_state


def link_of(**link: object) -> list[tuple[str, str]]:
    """The parameters of a link; `_` stands for `-`."""
    return [(name.replace("_", "-"), str(value)) for name, value in link.items()]


def said(page: str, **link: object) -> str:
    """All HTML that the blocks of a page are in the state of a link, when all of it has been computed. Raises
    ValueError for what the page would explain instead."""
    assert not (refused := read_state(page, link_of(**link)).refused), refused
    found = (
        block_html(block, lambda anchor: f"?{dict(anchor.link)}")
        for block in every_block(page_blocks(page, link_of(**link)))
    )
    return unescape(" ".join(filter(None, found)))


def summary(text: str) -> str:
    """The main sentence in what a page says."""
    return " ".join(re.findall(r"attnviz-summary[^>]*>(.*?)</p>", text))
