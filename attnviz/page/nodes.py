"""A page as data for the browser, where Streamlit does not draw it: HTML, charts, and how they are arranged."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from attnviz.base.app_files import PACKAGE
from attnviz.base.language import _
from attnviz.base.link import Link
from attnviz.chart import header, pack
from attnviz.figures.bands import frame
from attnviz.figures.chart_spec import HeatmapSpec, MosaicSpec, PictureSpec
from attnviz.page.block_html import block_html
from attnviz.page.blocks import (
    Anchor,
    AppNote,
    Block,
    Columns,
    Computed,
    Control,
    Drawing,
    Figure,
    MenuLinks,
    ModelPath,
    More,
    OptionMenu,
    OtherStates,
    Paragraph,
    PlayedText,
    Prediction,
    Row,
    Tabs,
    every_block,
)
from attnviz.page.fields import ChoiceField, FlagField, NumberField, ParsedField, PartField
from attnviz.page.glossary import Terms
from attnviz.page.head_state import QueryField
from attnviz.page.parts import menu_name, title
from attnviz.page.source_field import HeadField, LayerField

Node = dict[str, Any]
Controls = Literal["all", "menus", "none"]  # menus: those of heads and queries, whose states a file has
Drawn = tuple[Node, Sequence[Node], list[str | None]]  # a chart, its shapes, and what it opens
# Of figures, which several states may share, by the key of their page and the controls.
_drawn: WeakKeyDictionary[Figure, dict[tuple[str, Controls], Drawn]] = WeakKeyDictionary()


@dataclass(frozen=True)
class PageNodes:
    """The nodes of a page, and its charts by what they are drawn from, which several states may share."""

    nodes: list[Node]
    charts: dict[str, Node] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)  # the links of the rows of its maps
    controls: Controls = "all"
    terms: Terms = field(default_factory=Terms)
    link: str = ""  # of the page

    @property
    def links(self) -> list[str]:
        """The links of its texts, and of the rows of its maps, whose states have the same charts."""
        return [*_links(self.nodes, "links"), *self.rows]

    @property
    def cells(self) -> list[str]:
        """The links of the cells of all its figures, and of the options of menus."""
        return [*_links(self.nodes, "opens")]


def page_nodes(blocks: Iterable[Block], key: str, controls: Controls = "all", link: str = "") -> PageNodes:
    """Returns the blocks of a link as nodes, with these controls of fields. `key` tells their charts from those of
    other pages in the same document."""
    blocks = [*blocks]
    state = next((each.state for each in every_block(blocks, False) if isinstance(each, Control | Drawing)), None)
    page = PageNodes([], controls=controls, terms=Terms.of_state(state), link=link)
    page.nodes.extend(_nodes(page, blocks, key))
    return page


def link_text(link: Link) -> str:
    """Returns a link as the browser has it, without what comes before its parameters."""
    return urlencode(link)


def _nodes(page: PageNodes, blocks: Iterable[Block], key: str) -> list[Node]:
    nodes: list[Node] = []
    for block in blocks:
        links: list[str] = []
        if isinstance(block, AppNote):
            continue
        if (html := block_html(block, partial(_address, links), page.terms.explain)) is not None:
            nodes.append({"kind": "html", "html": html, "links": links})
        elif isinstance(block, Control):
            control = _control(block, page.controls) if block.field.is_offered(block.state) else None
            nodes += [] if control is None else [control]
        elif isinstance(block, Figure):
            nodes.append(_figure(page, block, key))
        elif isinstance(block, Columns):
            columns = [{"share": share, "nodes": _nodes(page, column, key)} for share, column in block.columns]
            nodes += [{"kind": "columns", "columns": columns}] if any(each["nodes"] for each in columns) else []
        elif isinstance(block, ModelPath):
            nodes.append(_path(block))
        elif isinstance(block, PlayedText):
            nodes.append(_written(page, block))
        elif isinstance(block, Row):
            nodes.append({"kind": "row", "nodes": _nodes(page, block.blocks, key)})
        elif isinstance(block, MenuLinks):
            nodes += _nodes(page, [Paragraph((f"{block.label}: ", *block.anchors()), "attnviz-choices")], key)
        elif isinstance(block, OptionMenu):
            nodes += _nodes(page, [OtherStates([block.links()])], key)
            nodes += _nodes(page, block.blocks, key) if isinstance(block, Tabs) else []
        elif isinstance(block, Computed | Prediction):
            nodes += _nodes(page, block.blocks(), key)
        elif isinstance(block, Drawing):
            nodes += _nodes(page, block.blocks, key)
        elif isinstance(block, More):
            controls = page.controls if page.controls == "all" else "none"
            folded = replace(page, controls=controls, terms=copy(page.terms))  # it explains words anew
            if inner := _nodes(folded, block.blocks, key):
                nodes.append({"kind": "more", "title": block.title, "nodes": inner, "open": block.is_open})
        elif isinstance(block, OtherStates):
            nodes.append({"kind": "other states", "nodes": _nodes(page, block.blocks, key)})
    return nodes


def _address(links: list[str], anchor: Anchor) -> str | None:
    """Returns the address of an anchor, and notes its link; None for one to another page of the app."""
    if anchor.page:
        return None
    links.append(text := link_text(anchor.link))
    return f"?{text}"


def _figure(page: PageNodes, block: Figure, key: str) -> Node:
    drawn, name = _drawn.setdefault(block, {}), (key, page.controls)
    if name not in drawn:
        drawn[name] = _draw(block, *name)
    sent, shapes, opens = drawn[name]
    spec = block.picture.spec
    page.rows.extend(link for link in opens if link is not None and isinstance(spec, HeatmapSpec))
    if isinstance(spec, MosaicSpec) and not shapes and page.link in opens:  # a mosaic that several states share
        top, left = spec.corner(opens.index(page.link))
        shapes = [frame(left, left + spec.width - 1, top, top + spec.height - 1)]
    chart = f"{block.name} {sent['stamp']}"
    page.charts[chart] = sent
    node = {"kind": "figure", "name": block.name, "chart": chart, "description": block.picture.about.description}
    return node | {"shapes": shapes, "pinned": block.pinned, "opens": opens}


def _draw(block: Figure, key: str, controls: Controls) -> Drawn:
    opens, picture = _opens(block, controls), block.picture
    if isinstance(picture.spec, HeatmapSpec | PictureSpec) and picture.spec.link:
        picture = replace(picture, spec=_with_keys(picture.spec, key))
    sent = header(
        picture,
        f"{key} {block.name}",
        height=block.height,
        grows=False,
        title=block.title,
        clicks=bool(opens) or (block.opens is not None and controls == "all"),
        views=block.zooms is not None and controls == "all",
    )
    is_dragged = block.drags is not None or block.paints is not None
    if is_dragged or (block.opens is not None and not sent["clicks"]):  # nothing is dragged here, or is opened
        sent["hint"] = ""
    # The frame of what is shown is apart, so that states in which it is elsewhere share the chart.
    shapes = sent["figure"]["layout"].pop("shapes", ())
    if shapes:
        sent["stamp"] = zlib.crc32(pack({"figure": sent["figure"], "spec": sent["spec"]}))
    return sent, shapes, opens


def _with_keys(spec: HeatmapSpec | PictureSpec, key: str) -> HeatmapSpec | PictureSpec:
    """Returns the specification of a map, or of a picture, that is linked to charts of this page alone."""
    if isinstance(spec, PictureSpec):
        return replace(spec, link=f"{key} {spec.link}")
    difference = spec.difference
    if difference is not None:
        before, after = difference.charts
        difference = replace(difference, charts=(f"{key} {before}", f"{key} {after}"))
    return replace(spec, link=f"{key} {spec.link}", difference=difference)


def _path(block: ModelPath) -> Node:
    """Returns the drawing of a path with what the names and the heads in it open."""
    picture, names = block.picture, dict.fromkeys(["", *_names(block.picture)])
    parts = {name: link_text(link) for name in names if (link := block.opens(name)) is not None}
    heads = [link_text(link) for head in range(picture["heads"]) if (link := block.heads(head)) is not None]
    again = [] if block.again is None else [link_text(block.again)]
    node = {"kind": "path", "html": _template("path"), "picture": picture | {"links": [], "presenting": False}}
    return node | {"parts": parts, "heads": heads, "again": again, "opens": [*parts.values(), *heads, *again]}


def _written(page: PageNodes, block: PlayedText) -> Node:
    """Returns a written text, whose content is shared by the states of the same head."""
    content = block.content()
    content["stamp"] = zlib.crc32(pack(content))
    chart = f"written {content['stamp']}"
    page.charts[chart] = content
    opens = [link_text(block.opens(row)) for row in (*range(block.rows), None)]
    html = _template("write")
    return {"kind": "written", "html": html, "chart": chart, "pinned": block.pinned, "opens": opens}


def _template(name: str) -> str:
    return (PACKAGE / "ui" / name / f"{name}.html").read_text(encoding="utf-8")


def _names(picture: Any) -> Iterator[str]:
    """Yields the names in a picture of what may be opened."""
    if isinstance(picture, Mapping):
        yield from (picture[key] for key in ("open", "name") if isinstance(picture.get(key), str))
        yield from picture.get("neighbors", ())
        picture = picture.values()
    if not isinstance(picture, str) and isinstance(picture, Iterable):
        for part in picture:
            yield from _names(part)


def _control(block: Control, controls: Controls) -> Node | None:
    """Returns the control of a field: a menu, a switch, a number or a text, whose value a link has; None for a field
    that needs another one, or that is not among these controls."""
    field, state = block.field, block.state
    if controls == "none" or (controls == "menus" and not isinstance(field, LayerField | HeadField | QueryField)):
        return None
    value = state.values[field.name]
    node: Node = {"kind": "control", "label": _(field.label), "parameter": field.parameter}
    if isinstance(field, ChoiceField):
        options = field.options(state)
        opened = options.values() if controls == "menus" and field.is_linked else ()
        return node | {
            "options": [(name, field.option_name(name)) for name in options],
            "value": field.name_of(state, value),
            "opens": [link_text(state.link_with(**{field.name: option})) for option in opened],
            "linked": field.is_linked,
        }
    if isinstance(field, PartField):
        return node | {"options": [(name, menu_name(name)) for name in field.menu], "value": title(type(value))}
    if isinstance(field, NumberField):
        return node | {"least": field.least(state), "most": field.most, "value": value}
    if isinstance(field, ParsedField):
        return node | {"value": field.text(value)}
    return node | {"value": value} if isinstance(field, FlagField) else None


def _opens(block: Figure, controls: Controls) -> list[str | None]:
    """Returns what the rows of a map, the tiles of a mosaic, or points open, in their order. With all controls there is
    somebody to ask about a cell of a map, which may have thousands."""
    spec = block.picture.spec
    if block.opens is None or (isinstance(spec, HeatmapSpec) and (controls == "all" or spec.downsampled)):
        return []
    if isinstance(spec, HeatmapSpec):
        links = [block.opens(row, 0) for row in range(len(spec.query_tokens))]
    elif isinstance(spec, PictureSpec):
        links = [block.opens(patch, 0) for patch in range(len(spec.patches))]
    elif isinstance(spec, MosaicSpec):
        links = [block.opens(*spec.corner(tile)) for tile in range(spec.rows * spec.columns)]
    else:
        links = [block.opens(point, 0) for point in range(len(spec.sentences))]
    return [None if link is None else link_text(link) for link in links]


def _links(nodes: Iterable[Node], name: str) -> Iterable[str]:
    for node in nodes:
        if node["kind"] != "other states":
            yield from (link for link in node.get(name, ()) if link is not None)
            for part in (node, *node.get("columns", ())):
                yield from _links(part.get("nodes", ()), name)
