"""HTML of texts and tables. Text is always escaped: only what is Markup already is put in as it is.

Use the functions below, or `Markup("<p>{}</p>").format(text)`; never an f-string with tags in it.
"""

import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from attnviz.base.formatting import visible
from attnviz.base.language import _

PAGE_MESSAGE = re.compile(r'_\("([^"]*)"\)')


def translated(html: str) -> Markup:
    """Returns the HTML of a file of ours in the current language: for each _("Join") its translation, escaped."""
    return Markup(PAGE_MESSAGE.sub(lambda match: escape(_(match[1])), html))  # noqa: S704


def element(name: str, /, *content: object, **attributes: object) -> Markup:
    """Returns an element. The attributes class and aria-label are `class_` and `aria_label`; None omits one."""
    written = join(
        Markup(" {}='{}'").format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, join(content))


def anchor(text: object, address: str, **attributes: object) -> Markup:
    """Returns a link that opens in place."""
    return element("a", text, href=address, **attributes)


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Returns the parts, escaped and joined."""
    return escape(between).join(map(escape, parts))


def token(text: str) -> Markup:
    """Returns a visible token, isolated from the writing direction around it."""
    return element("bdi", visible(text))


def summary(*content: object, role: str | None = None) -> Markup:
    """Returns the main sentence about a figure, in larger letters. With `role="status"` screen readers read it when
    it changes."""
    return element("p", *content, class_="attnviz-summary", role=role)


def note(*content: object) -> Markup:
    """Returns a line in smaller letters, under a summary."""
    return element("p", *content, class_="attnviz-note")


def paragraphs(texts: Iterable[object]) -> Markup:
    return join(element("p", text) for text in texts)


def colored_text(words: Sequence[str], values: Iterable[float], texts: Sequence[object]) -> Markup:
    """Returns words one after the other, each with the color of its value, blue above 0 and brown below, and below it
    a text; the largest value has the strongest color."""
    values = list(map(float, values))
    largest = max(map(abs, values), default=0.0) or 1.0
    spans = (
        element(
            "span",
            token(word),
            element("small", text),
            class_="attnviz-more" if value > 0 else "attnviz-less",
            style=f"--share: {abs(value) / largest:.3f}",
        )
        for word, value, text in zip(words, values, texts, strict=True)
    )
    return element("p", *spans, class_="attnviz-colored")


def aligned_texts(names: Sequence[str], columns: Iterable[tuple[str, object, object]]) -> Markup:
    """Returns the tokens of two texts in columns, each with its kind and a token of each text; the first column has the
    names of the texts."""
    first = element("div", *(element("b", name) for name in names))
    others = (
        element("div", *(element("span", text) for text in texts), class_=f"attnviz-{kind}") for kind, *texts in columns
    )
    return element("div", first, *others, class_="attnviz-aligned", tabindex=0)


def table(
    headings: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    marked: int | None = None,
    class_: str = "attnviz-table",
) -> Markup:
    """Returns a table in which the first cell of a row, unless it is empty, is its heading.

    `marked` is the highlighted row. If a row has fewer cells than there are headings, its last cell spans the rest.
    """
    body = [_row(row, len(headings), "attnviz-chosen" if i == marked else None) for i, row in enumerate(rows)]
    parts = []
    if headings:
        cells = (element("th" if heading else "td", heading) for heading in headings)
        parts.append(element("thead", element("tr", *cells)))
    parts.append(element("tbody", *body))
    return element("table", *parts, class_=class_, tabindex=0)  # the keyboard scrolls a wide one


def _row(cells: Sequence[object], width: int, class_: str | None = None) -> Markup:
    heading, *others = cells
    missing = width - len(cells)
    data_cells = [element("td", cell) for cell in others]
    if missing > 0:
        data_cells[-1] = element("td", others[-1], colspan=missing + 1)
    return element("tr", element("th" if heading != "" else "td", heading), *data_cells, class_=class_)
