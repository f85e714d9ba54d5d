"""A viewer of the heads of some layers."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attnviz.base.link import Link
from attnviz.layer import Layer
from attnviz.notebook.html_page import Bundles
from attnviz.notebook.page_viewer import FILE_SECONDS, MOST_STATES, PageViewer, parsed_link, unique_key
from attnviz.notebook.shown_heads import ShownLayers, ShownState, shown_blocks, states_of
from attnviz.page.blocks import Block
from attnviz.page.nodes import Controls, PageNodes, link_text, page_nodes

FILE_CELLS = 160  # of a map of a long text in a file, along each side
BUNDLE_CELLS = 1 << 16  # of the maps that are compressed together: small ones, which have much in common


class Viewer(PageViewer):
    """Charts of the heads of some layers, with a layer, a head and, if it is not None, a query that are chosen.

    A notebook shows it as HTML that needs no kernel, in which numbers are rounded to half precision, three digits, and
    a longer text has maps of 160 × 160 cells. `AttentionWidget` is the same with a kernel.
    """

    layer: int
    head: int
    query: int | None
    view_of = None

    def __init__(self, source: ShownLayers, layer: int = 0, head: int = 0, query: int | None = None) -> None:
        check_choice(source.layers(), layer, head, query)
        self.states, self.key = states_of(source), unique_key()
        self.layer, self.head, self.query = layer, head, query

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers whose heads are shown."""
        return self.states.source.layers()

    @property
    def link(self) -> str:  # type: ignore[override]
        """The head that is shown, as a link."""
        return link_text(self.states().link_with(layer=self.layer, head=self.head))

    def __repr__(self) -> str:
        names = f"{len(self.layers)} layer{'s' * (len(self.layers) > 1)}"
        sizes = sorted({*self.states.source.sizes})
        return f"{type(self).__name__}({names} of heads × queries × keys: {', '.join(sizes)})"

    @property
    def _text(self) -> str:
        return "Attention of each head. Trust this notebook, or run its cells again, to see the picture."

    def read(self, link: Link) -> Iterable[Block]:
        """Returns the blocks of a link."""
        return shown_blocks(self._state(link))

    def _state(self, link: Link) -> ShownState:
        return self.states.read(link)

    def _nodes(self, link: str, controls: Controls = "all") -> PageNodes:
        cells = None if controls == "all" else FILE_CELLS
        return page_nodes(shown_blocks(self._state(parsed_link(link)), cells), self.key, controls, link)

    def _states(self, count: int, seconds: float) -> Iterator[tuple[str, PageNodes]]:
        return super()._states(MOST_STATES, FILE_SECONDS)

    def _empty_charts(self) -> Bundles:
        inputs = self.layers[self.layer].inputs
        return Bundles(max(1, BUNDLE_CELLS // (inputs.queries * inputs.keys)), half=True)

    @property
    def _chosen(self) -> dict[str, Any]:
        return {"link": self.link, "query": self.query}


def check_choice(layers: Sequence[Layer], layer: int, head: int, query: int | None) -> None:
    """Raises ValueError if there is no such layer, head or query."""
    if not 0 <= layer < len(layers):
        raise ValueError(f"There is no layer {layer}: the layers are 0 to {len(layers) - 1}.")
    inputs = layers[layer].inputs
    if not 0 <= head < inputs.heads:
        raise ValueError(f"There is no head {head} in layer {layer}: its heads are 0 to {inputs.heads - 1}.")
    if query is not None and not 0 <= query < inputs.queries:
        raise ValueError(f"There is no query {query} in layer {layer}: its queries are 0 to {inputs.queries - 1}.")
