"""Blocks of text as HTML."""

import re
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from attnviz.page import html
from attnviz.page.blocks import (
    AlignedTexts,
    Anchor,
    AppNote,
    Block,
    Caption,
    ColoredText,
    Heading,
    InWords,
    Listing,
    Note,
    Paragraph,
    Script,
    Summary,
    Table,
)

EMPHASIS = re.compile(r"\*\*(.+?)\*\*|\*(.+?)\*")  # bold, or italic
Address = Callable[[Anchor], str | None]  # None where a place cannot open what an anchor opens


def block_html(block: Block, address: Address, explain: Callable[[object], Markup] = escape) -> Markup | None:
    """Returns a block of text as HTML, None for another one. `address` returns where an anchor leads; an anchor without
    an address is left out. `explain` returns a text of sentences with words explained."""
    match block:
        case Summary(content):
            return html.summary(inline(content, address, explain), role="status")
        case InWords(content):
            return html.element("p", inline(content, address), class_="attnviz-in-words")
        case Paragraph(content, style):
            return html.element("p", inline(content, address, explain), class_=style or None)
        case Heading(content):
            return html.element("h4", inline(content, address, explain))
        case Note(content) | AppNote(content):
            return html.note(inline(content, address, explain))
        case ColoredText(words, values, texts, _panels):
            return html.colored_text(words, values, texts)
        case AlignedTexts(names, columns):
            inlined = ((kind, inline(one, address), inline(other, address)) for kind, one, other in columns)
            return html.aligned_texts(names, inlined)
        case Caption(text):
            return html.element("p", _emphasized(text, explain), class_="attnviz-caption")
        case Script(text):
            return html.element("pre", html.element("code", text), class_="attnviz-script")
        case Listing(items, label, style, first):
            lines = (html.element("li", inline(item, address)) for item in items)
            start = None if first == 1 else first
            return html.element("ol", *lines, class_=style or None, start=start, aria_label=label)
        case Table(headings, rows, marked):
            cells = [[inline(cell, address) for cell in row] for row in rows]
            return html.table(headings, cells, marked=marked, class_="attnviz-table attnviz-shares")
    return None


def inline(content: object, address: Address, explain: Callable[[object], Markup] = escape) -> Markup:
    """Returns texts, markup and anchors as HTML."""
    if isinstance(content, Anchor):
        if (place := address(content)) is None:
            return Markup("")
        current = "true" if content.is_current else None
        text = inline(content.text, address)
        return html.anchor(text, place, class_=content.style or None, aria_current=current)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return html.join(inline(part, address, explain) for part in content)
    return explain(content)


def _emphasized(text: str, explain: Callable[[object], Markup]) -> Markup:
    parts = EMPHASIS.split(text)
    elements = {1: "b", 2: "i"}  # by the group
    return html.join(
        html.element(elements[i % 3], explain(part)) if i % 3 else explain(part)
        for i, part in enumerate(parts)
        if part is not None
    )
