"""The pages that links to the app open."""

from functools import partial

from attnviz.base.link import Link
from attnviz.lessons.lesson_tables import parse_address
from attnviz.notebook.page_viewer import PageViewer, page_viewer
from attnviz.page.page_view import PageView
from attnviz.pages.catalogue import page_blocks, read_state, view_of


def view(link: str) -> PageViewer:
    """Returns the page of the app that a link opens, with its parameters; the address before the page does not matter.
    A notebook shows it whole, and `to_html` writes it as a page that needs neither Python nor a network.

    Raises ValueError for another page, or if nothing can be shown; warns about values that are not taken.

    Example:
        >>> masks = view("/masks?source=Toy&text=a+b+c&mask-a=causal&mask-b=full")
        >>> [panel.title for panel in masks.panels], masks.quantities["cells added"]
        (['A: causal', 'B: full', 'B − A'], 3.0)
    """
    page, parameters = parse_address(link)

    def panels(link: Link) -> PageView:
        return view_of(page, read_state(page, link))

    return page_viewer(partial(page_blocks, page), parameters, panels)
