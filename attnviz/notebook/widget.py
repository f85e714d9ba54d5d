"""The viewer of heads as a widget of a notebook."""

from typing import Any

import traitlets

from attnviz.notebook.page_viewer import parsed_link
from attnviz.notebook.page_widget import PageWidget
from attnviz.notebook.shown_heads import ShownLayers, states_of
from attnviz.notebook.viewer import Viewer, check_choice
from attnviz.page.nodes import link_text


class AttentionWidget(Viewer, PageWidget):
    """A viewer whose `layer`, `head` and `query` can be read, set and observed; None is no query.

    Raises TraitError for a layer, head or query that is not there.
    """

    layer = traitlets.Int(0)
    head = traitlets.Int(0)
    query = traitlets.Int(None, allow_none=True).tag(sync=True)
    link = traitlets.Unicode().tag(sync=True)

    def __init__(self, source: ShownLayers, layer: int = 0, head: int = 0, query: int | None = None) -> None:
        check_choice(source.layers(), layer, head, query)
        self.states = states_of(source)
        link = self.states().link_with(layer=layer, head=head)
        PageWidget.__init__(self, self.read, link, layer=layer, head=head, query=query)

    @traitlets.validate("layer", "head", "query")
    def _check_choice(self, proposal: Any) -> Any:
        chosen: dict[str, Any] = {"layer": self.layer, "head": self.head, "query": self.query}
        chosen[proposal["trait"].name] = proposal["value"]
        try:
            check_choice(self.layers, **chosen)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error
        return proposal["value"]

    @traitlets.observe("layer", "head")
    def _open(self, _change: object) -> None:
        state = self._state(parsed_link(self.link))
        if (state.layer, state.head) != (self.layer, self.head):
            self.link = link_text(self.states().link_with(layer=self.layer, head=self.head))

    @traitlets.observe("link")
    def _opened(self, _change: object) -> None:
        state = self._state(parsed_link(self.link))
        assert isinstance(state.head, int)
        with self.hold_trait_notifications():
            if state.inputs.queries != self.layers[self.layer].inputs.queries:
                self.query = None
            self.layer, self.head = state.layer, state.head
