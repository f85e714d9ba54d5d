"""The path through a model, drawn by the browser code that begins in streamlit.js."""

from collections.abc import Callable
from typing import Any

from attnviz.base.link import Link
from attnviz.page.blocks import Anchor, ModelPath
from attnviz.ui import presentation
from attnviz.ui.server import scripts
from attnviz.ui.session_values import event_callback

KEY = "path"


def draw_path(block: ModelPath, address: Callable[[Anchor], str], open_link: Callable[[Link], None]) -> None:
    """Draws the model, a layer or a part, with the head and the part that are open.

    The root element has data-ready="true" once it is drawn, data-depth, data-stage and data-playing.
    """

    def opens(find: Callable[[Any], Link | None]) -> Callable[[Any], None]:
        """Returns what an event opens, if that is there: a browser may still show another picture."""
        return lambda value: open_link(link) if (link := find(value)) is not None else None

    links = [{"title": str(each.text), "address": address(each)} for each in block.anchors]
    scripts.mount("ui/path")(
        key=KEY,
        data={**block.picture, "links": links, "presenting": presentation.presenting()},
        on_open_change=event_callback(KEY, "open", opens(block.opens)),
        on_head_change=event_callback(KEY, "head", opens(block.heads)),
        on_draw_change=event_callback(KEY, "draw", opens(lambda _stamp: block.again)),
    )
