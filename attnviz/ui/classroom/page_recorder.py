"""What the run of a page has drawn, without its controls: headings, sentences and pictures, as followers see them."""

import base64
import gzip
import json
import re
from contextlib import AbstractContextManager, nullcontext

from attnviz.page.nodes import Node
from attnviz.ui.server.streamlit_internals import Block, Element, ForwardMsg, messages_to

MAIN = 0  # the part of the page beside the sidebar, in the paths of Streamlit's elements
CLOSED = ("popover", "dialog", "expandable", "form")  # blocks that hold controls or what is folded
OMITTED = re.compile(
    "in-link-|present|not-presenting|lesson-strip|class-strip|embedded|other-states"
)  # containers, by their keys
KEPT = "lesson-texts"  # the container within them that is recorded
MARKS = re.compile(r"\\(.)|\*+|`")  # of Markdown


class PageRecorder:
    """The elements of a page, by their paths."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[int, ...], Element | Block] = {}

    def add(self, message: ForwardMsg) -> None:
        """Keeps what a message of Streamlit draws; it replaces what was at its place."""
        path = tuple(message.metadata.delta_path)
        if message.WhichOneof("type") != "delta" or path[:1] != (MAIN,):
            return
        kind = message.delta.WhichOneof("type")
        if kind in ("new_element", "add_block"):
            self._drawn = {place: drawn for place, drawn in self._drawn.items() if place[: len(path)] != path}
            self._drawn[path] = getattr(message.delta, kind)

    def contents(self) -> bytes:
        """Returns what was drawn as compressed JSON: a list of nodes, blocks with `children`."""
        return compressed(self._children(()))

    def _children(self, parent: tuple[int, ...], among_controls: bool = False) -> list[Node]:
        root = parent or (MAIN,)
        places = sorted(path for path in self._drawn if len(path) == len(root) + 1 and path[:-1] == root)
        nodes = (self._node(path, among_controls) for path in places)
        return [node for node in nodes if node is not None]

    def _node(self, path: tuple[int, ...], among_controls: bool) -> Node | None:
        drawn = self._drawn[path]
        if isinstance(drawn, Element):
            return None if among_controls else _element(drawn)
        key = drawn.id.split("-", 2)[-1] if drawn.id else ""
        is_control = drawn.WhichOneof("type") in CLOSED or OMITTED.match(key) is not None
        children = self._children(path, key != KEPT and (among_controls or is_control))
        if not children:
            return None
        node = {"key": "" if is_control else key, "children": children}
        if drawn.HasField("column"):
            return {"kind": "column", "weight": drawn.column.weight, **node}
        return {"kind": "block", **node}


def compressed(nodes: list[Node]) -> bytes:
    """Returns nodes as followers get them."""
    return gzip.compress(json.dumps(nodes).encode(), 6, mtime=0)


def _element(element: Element) -> Node | None:
    match element.WhichOneof("type"):
        case "heading":
            return {"kind": "heading", "text": _plain(element.heading.body)}
        case "html":
            return {"kind": "html", "body": element.html.body}
        case "markdown" if "$" not in element.markdown.body:
            return {"kind": "text", "text": _plain(element.markdown.body)}
        case "bidi_component":
            component = element.bidi_component
            node = {"kind": "component", "name": component.component_name, "key": component.id.split("-", 2)[-1]}
            match component.WhichOneof("data"):
                case "bytes":
                    return node | {"bytes": base64.b64encode(component.bytes).decode()}
                case "json":
                    return node | {"json": component.json}
    return None


def _plain(markdown: str) -> str:
    return MARKS.sub(lambda match: match[1] or "", markdown)


def recording(recorder: PageRecorder | None) -> AbstractContextManager[None]:
    """Adds what is drawn within the block to a recorder, if there is one."""
    return messages_to(recorder.add) if recorder else nullcontext()
