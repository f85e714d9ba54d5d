"""A page of the app as a widget of a notebook: the browser asks for what it opens."""

from typing import Any

import anywidget
import traitlets

from attnviz.base.link import Link
from attnviz.chart import pack
from attnviz.notebook import bundle
from attnviz.notebook.page_viewer import PageViewer, Read, ViewOf, unique_key
from attnviz.page.nodes import link_text

WAIT = 600  # milliseconds in which the browser draws a widget, if a kernel runs


class PageWidget(PageViewer, anywidget.AnyWidget):
    """A page whose `link` can be read, set and observed. Raises TraitError for a link that opens nothing."""

    _esm = bundle.module_script("notebook/page_widget.js") + "export default entry.default;\n"
    _css = bundle.styles()
    _template = traitlets.Unicode(bundle.text("chart/chart.html")).tag(sync=True)
    _key = traitlets.Unicode().tag(sync=True)  # that of the HTML in its place where no kernel runs
    link = traitlets.Unicode().tag(sync=True)

    def __init__(self, read: Read, link: Link = (), view_of: ViewOf | None = None, **values: Any) -> None:
        self.read, self.view_of, self.key = read, view_of, unique_key()
        self._blocks_of(opened := link_text(link))  # refused here, if it cannot be shown
        anywidget.AnyWidget.__init__(self, _key=self.key, link=opened, **values)
        self.on_msg(self._answer)

    __repr__ = PageViewer.__repr__

    @traitlets.validate("link")
    def _check(self, proposal: Any) -> Any:
        try:
            self._blocks_of(proposal["value"])
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error
        return proposal["value"]

    def _answer(self, _: object, content: dict[str, Any], buffers: object) -> None:
        """Sends what the browser asks for, under the number of its request."""
        answer: dict[str, Any] = {"answer": content.get("request")}
        try:
            self.send(answer, [bundle.plotly_script()] if content.get("plotly") else self._content(content))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            self.send(answer | {"error": f"This cannot be shown. {error}"}, [])

    def _content(self, request: dict[str, Any]) -> list[bytes]:
        """Returns what a request asks for: a page, or what a click or a zoom opens. Raises ValueError, KeyError,
        IndexError or TypeError if there is none."""
        if "figure" in request:
            link = self._answered(*request["figure"])
            return [] if link is None else [link.encode()]
        page = self._nodes(str(request["page"]))
        return [pack({"nodes": page.nodes, "charts": page.charts})]

    def _ipython_display_(self) -> None:
        """Displays the widget, and the picture that takes its place where no kernel runs."""
        from IPython.display import HTML, display

        data, metadata = self._repr_mimebundle_() or ({}, {})
        display(data, metadata=metadata, raw=True)
        display(HTML(self._output(WAIT)))
