"""A page of the app in a notebook or in a file: what is opened, and what its links open."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qsl

from markupsafe import Markup

from attnviz.base.formatting import enumeration, quoted
from attnviz.base.language import value_error
from attnviz.base.link import Link
from attnviz.lessons.checks import Quantities
from attnviz.notebook import html_page
from attnviz.page.block_html import block_html
from attnviz.page.blocks import Block, Figure, InWords, Listing, Note, Summary, every_block, page_quantities, page_view
from attnviz.page.map_files import write_whole
from attnviz.page.nodes import Controls, PageNodes, link_text, page_nodes
from attnviz.page.page_view import PageView, Panel

OUTPUT_BYTES = 8 << 20  # of the states that a cell's output holds
FILE_BYTES = 64 << 20  # of those that a file holds
FILE_STATES, FILE_SECONDS = 400, 60.0  # with charts of their own that a file holds at most, and that all states take
MOST_STATES = 5000  # of a file, those without charts of their own among them
CELL_STATES, CELL_SECONDS = 12, 5.0  # of the output of a cell, for when no kernel runs
BUNDLE_SIZE = 16  # states, or charts, that are compressed together
CELL = 2  # of a click on a cell, or of a menu, as a number of links: there are many cells
SENTENCES = InWords, Listing, Summary, Note  # which say in text what is shown

Read = Callable[[Link], Iterable[Block]]
ViewOf = Callable[[Link], PageView]
_numbers = count()


class PageViewer:
    """A page of the app, as blocks.

    `link` is what is opened: the parameters of a link to the page, such as "term=23.3.13". `view_of` returns the maps
    and the quantities of a link; without it, they are those of the blocks. A notebook shows the page as HTML that needs
    no kernel. `PageWidget` is the same with a kernel.
    """

    link: str

    def __init__(self, read: Read, link: Link = (), view_of: ViewOf | None = None) -> None:
        self.read, self.view_of, self.key = read, view_of, unique_key()
        self.link = link_text(link)
        _ = self.blocks  # refused here, if it cannot be shown

    @property
    def blocks(self) -> list[Block]:
        """The blocks that are shown. Raises ValueError if nothing can be shown."""
        return self._blocks_of(self.link)

    @property
    def view(self) -> PageView:
        """The maps and the quantities of the page."""
        return page_view(self.blocks) if self.view_of is None else self.view_of(parsed_link(self.link))

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The maps of the page, and rows of numbers."""
        return self.view.panels

    def to_svg(self) -> str:
        """Returns the panels as one SVG element. Raises ValueError if one is too large for that."""
        return self.view.to_svg()

    def save(self, path: str | Path) -> None:
        """Writes the page to an .html file, or its panels to an .svg, .pdf, .npz or .csv file. Raises ValueError for
        another ending, or if the panels cannot be written so."""
        path, writers = Path(path), {".html": self.to_html, **self.view.writers}
        if path.suffix not in writers:
            raise value_error(
                "{name} has no ending that can be written; expected one of {endings}.",
                name=quoted(path.name),
                endings=enumeration([*writers]),
            )
        content = writers[path.suffix]()
        write_whole(path, content.encode() if isinstance(content, str) else content)

    @property
    def quantities(self) -> Quantities:
        """The numbers of the page that lessons check."""
        return page_quantities(self.blocks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._text})"

    @property
    def _text(self) -> str:
        """The page in sentences."""
        texts = (
            block_html(block, lambda _anchor: "") for block in every_block(self.blocks) if isinstance(block, SENTENCES)
        )
        return " ".join(text.striptags() for text in texts if text)

    def _blocks_of(self, link: str) -> list[Block]:
        blocks = [*self.read(parsed_link(link))]
        _ = [*every_block(blocks, of_results=False)]  # raises ValueError for what cannot be shown
        return blocks

    def _nodes(self, link: str, controls: Controls = "all") -> PageNodes:
        return page_nodes(self._blocks_of(link), self.key, controls, link)

    def _answered(self, link: str, name: str, event: str, place: Sequence[int] | None) -> str | None:
        """Returns the link that a click on a row and a column of a figure opens, or a zoom to cells; None if nothing
        does. Raises KeyError for another figure."""
        blocks = every_block(self._blocks_of(link))
        figure = {block.name: block for block in blocks if isinstance(block, Figure)}[name]
        opens: Callable[..., Link | None] | None = figure.opens if event == "click" else figure.zooms
        arguments = place if event == "click" and place else [place and tuple(place)]
        opened = None if opens is None else opens(*arguments)
        return None if opened is None else link_text(opened)

    def to_html(self, path: str | Path | None = None, *, title: str = "Attention") -> str:
        """Returns the viewer as a page that needs neither Python nor a network, and writes it to `path` if it is given.

        Of more than 64 MB of compressed charts those that are nearest to what is shown are in the page.
        """
        return to_html([self], path, title=title)

    def _repr_html_(self) -> str:
        return self._output()

    def _output(self, wait: int = 0) -> Markup:
        """Returns the HTML of a cell's output, which leaves a widget some milliseconds; the first of a notebook has the
        library for all others."""
        return self._html(OUTPUT_BYTES, wait=wait) + (html_page.library() if html_page.needs_library() else Markup())

    def file_html(self) -> Markup:
        """Returns the HTML for a page: what is shown, and what is reached with the fewest links, FILE_STATES states
        with charts of their own, as far as FILE_SECONDS go. What is not there is not offered."""
        return self._html(FILE_BYTES, FILE_STATES, FILE_SECONDS)

    def _html(self, limit: int, count: int = CELL_STATES, seconds: float = CELL_SECONDS, *, wait: int = 0) -> Markup:
        """Returns the HTML with what is shown, and at most `count` states and `limit` bytes."""
        states, charts = html_page.Bundles(BUNDLE_SIZE), self._empty_charts()
        for link, page in self._states(count, seconds):
            for name, chart in page.charts.items():
                charts.add(name, chart)
            states.add(link, page.nodes)
            if len(states.names) == 1:  # what is shown at first
                charts.close()
                states.close()
            if states.size + charts.size > limit:
                break
        data = {"states": states.closed(), "charts": charts.closed(), "chosen": self._chosen}
        return html_page.fragment(self.key, data, text=self._text, wait=wait)

    def _empty_charts(self) -> html_page.Bundles:
        """Returns what gets charts; in full precision, as sentences beside a map have its numbers."""
        return html_page.Bundles(BUNDLE_SIZE)

    @property
    def _chosen(self) -> dict[str, Any]:
        """What a browser keeps."""
        return {"link": self.link}

    def _states(self, count: int, seconds: float) -> Iterator[tuple[str, PageNodes]]:
        """Yields what is shown and the states around it, those with the fewest links first: `count` with charts of
        their own, as far as the seconds go."""
        charts, end = set[str](), 0.0
        waiting, noted = [(0, 0, self.link)], {self.link}  # by the number of links to a state, and their order
        for _number in range(MOST_STATES):
            if not waiting or count <= 0 or (end and time.monotonic() > end):
                return
            cost, _order, link = heappop(waiting)
            try:
                page = self._nodes(link, "menus")
            except ValueError:  # such as a key that the mask forbids
                continue
            yield link, page
            count -= not page.charts.keys() <= charts
            charts |= page.charts.keys()
            end = end or time.monotonic() + seconds  # the first state may take a minute, the others what is left
            for more, links in ((1, page.links), (CELL, page.cells)):
                for one in links:
                    if one not in noted:
                        noted.add(one)
                        heappush(waiting, (cost + more, len(noted), one))


def page_viewer(read: Read, link: Link = (), view_of: ViewOf | None = None) -> PageViewer:
    """Returns the viewer of a page: a widget if anywidget is installed."""
    if find_spec("anywidget") is None:
        return PageViewer(read, link, view_of)
    from attnviz.notebook.page_widget import PageWidget

    return PageWidget(read, link, view_of)


def to_html(viewers: Sequence[PageViewer], path: str | Path | None = None, *, title: str = "Attention") -> str:
    """Returns several viewers as one page with one copy of the scripts, and writes it to `path` if it is given."""
    return html_page.write_page([viewer.file_html() for viewer in viewers], path, title)


def unique_key() -> str:
    """Returns a key that no other viewer of this process has."""
    return f"attnviz-{token_hex(4)}-{next(_numbers)}"


def parsed_link(link: str) -> Link:
    return tuple(parse_qsl(link, keep_blank_values=True))
