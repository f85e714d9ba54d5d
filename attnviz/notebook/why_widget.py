"""The viewer of a sum as a widget of a notebook: the browser asks for sums, and shares what is opened."""

from typing import Any

import traitlets

from attnviz.attribution.metrics import Metric
from attnviz.attribution.named_pass import NamedPass
from attnviz.chart import pack
from attnviz.notebook import bundle
from attnviz.notebook.viewer import unique_key
from attnviz.notebook.why_viewer import WhyViewer
from attnviz.notebook.widget import KernelWidget


class WhyWidget(WhyViewer, KernelWidget):
    """A viewer whose `trail` and `term` can be read, set and observed; with another trail the term is that with the
    largest share.

    Raises TraitError for a trail or a term that is not there.
    """

    _esm = bundle.module_script("notebook/why_widget.js") + "export default entry.default;\n"
    trail = traitlets.Unicode().tag(sync=True)
    term = traitlets.Unicode().tag(sync=True)

    def __init__(self, run: NamedPass, metric: Metric) -> None:
        self.run, self.metric, self.key = run, metric, unique_key()
        _ = self.answer  # refused here, if it is not a sum
        KernelWidget.__init__(self, _key=self.key)

    __repr__ = WhyViewer.__repr__

    @traitlets.validate("trail", "term")
    def _check(self, proposal: Any) -> Any:
        state = {"trail": self.trail, "term": self.term, proposal["trait"].name: proposal["value"]}
        try:
            shown = self._answer_to(**state)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error
        if proposal["trait"].name == "term" and shown.term is None:
            raise traitlets.TraitError(f"There is no term {proposal['value']} in this sum.")
        return proposal["value"]

    @traitlets.observe("trail")
    def _show_largest(self, _: object) -> None:
        self.term = ""

    def _charts(self, content: dict[str, Any]) -> list[bytes]:
        trail, term = content["content"]
        return [pack(self._content(str(trail), str(term)))]
