"""The viewer as a widget of a notebook: the browser asks for charts, and shares what is chosen."""

from typing import Any

import anywidget
import traitlets

from attnviz.chart import pack
from attnviz.notebook import bundle
from attnviz.notebook.pictures import Pictures
from attnviz.notebook.viewer import HtmlOutput, Viewer, check_choice

WAIT = 600  # milliseconds in which the browser draws a widget, if a kernel runs


class KernelWidget(HtmlOutput, anywidget.AnyWidget):
    """A widget whose browser asks for what it shows. `_key` is that of the HTML in its place where no kernel runs."""

    _css = bundle.styles()
    _template = traitlets.Unicode(bundle.text("chart/chart.html")).tag(sync=True)
    _key = traitlets.Unicode().tag(sync=True)

    def __init__(self, **state: Any) -> None:
        anywidget.AnyWidget.__init__(self, **state)
        self.on_msg(self._answer)

    def _answer(self, _: object, content: dict[str, Any], buffers: object) -> None:
        """Sends what the browser asks for, under the number of its request."""
        answer: dict[str, Any] = {"answer": content.get("request")}
        try:
            self.send(answer, [bundle.plotly_script()] if content.get("plotly") else self._charts(content))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            self.send(answer | {"error": f"This cannot be shown. {error}"}, [])

    def _charts(self, content: dict[str, Any]) -> list[bytes]:
        """Returns what a request asks for. Raises ValueError, KeyError, IndexError or TypeError if there is none."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        """Displays the widget, and the picture that takes its place where no kernel runs."""
        from IPython.display import HTML, display

        data, metadata = self._repr_mimebundle_() or ({}, {})
        display(data, metadata=metadata, raw=True)
        display(HTML(self._output(WAIT)))


class AttentionWidget(Viewer, KernelWidget):
    """A viewer whose `layer`, `head` and `query` can be read, set and observed; None is no query.

    Raises TraitError for a layer, head or query that is not there.
    """

    _esm = bundle.module_script("notebook/widget.js") + "export default entry.default;\n"
    _overview: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    query = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, pictures: Pictures, layer: int = 0, head: int = 0, query: int | None = None) -> None:
        check_choice(pictures, layer, head, query)
        self.pictures = pictures
        KernelWidget.__init__(self, _overview=pictures.overview, _key=pictures.key, layer=layer, head=head, query=query)

    __repr__ = Viewer.__repr__

    @traitlets.validate("layer", "head", "query")
    def _check(self, proposal: Any) -> Any:
        if hasattr(self, "pictures"):
            chosen: dict[str, Any] = {"layer": self.layer, "head": self.head, "query": self.query}
            chosen[proposal["trait"].name] = proposal["value"]
            try:
                check_choice(self.pictures, **chosen)
            except ValueError as error:
                raise traitlets.TraitError(str(error)) from error
        return proposal["value"]

    def _charts(self, content: dict[str, Any]) -> list[bytes]:
        if "mosaic" in content:
            return [pack(self.pictures.mosaic(content["mosaic"]))]
        layer, head, span = content["maps"]
        return [pack(one) for one in self.pictures.maps(layer, head, tuple(span) if span else None)]
