"""Links to Transformer."""

from attnviz.base.link import Link
from attnviz.pages.transformer.state import SEVERAL_HEADS


def heads_link(text: str, layer: str) -> Link:
    """Returns the link of what becomes of the outputs of the heads of a layer."""
    return (("text", text), ("open", layer), ("unfolded", SEVERAL_HEADS))
