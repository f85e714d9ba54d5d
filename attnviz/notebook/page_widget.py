"""A page of the app as a widget of a notebook: the browser asks for what it opens."""

from typing import Any

import traitlets

from attnviz.base.link import Link
from attnviz.chart import pack
from attnviz.notebook import bundle
from attnviz.notebook.page_viewer import PageViewer, Read, ViewOf
from attnviz.notebook.viewer import unique_key
from attnviz.notebook.widget import KernelWidget
from attnviz.page.nodes import link_text


class PageWidget(PageViewer, KernelWidget):
    """A page whose `link` can be read, set and observed. Raises TraitError for a link that opens nothing."""

    _esm = bundle.module_script("notebook/page_widget.js") + "export default entry.default;\n"
    link = traitlets.Unicode().tag(sync=True)

    def __init__(self, read: Read, link: Link = (), view_of: ViewOf | None = None) -> None:
        self.read, self.view_of, self.key = read, view_of, unique_key()
        self._blocks_of(opened := link_text(link))  # refused here, if it cannot be shown
        KernelWidget.__init__(self, _key=self.key, link=opened)

    __repr__ = PageViewer.__repr__

    @traitlets.validate("link")
    def _check(self, proposal: Any) -> Any:
        try:
            self._blocks_of(proposal["value"])
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error
        return proposal["value"]

    def _charts(self, content: dict[str, Any]) -> list[bytes]:
        if "figure" in content:
            link = self._answered(*content["figure"])
            return [] if link is None else [link.encode()]
        page = self._nodes(str(content["page"]))
        return [pack({"nodes": page.nodes, "charts": page.charts})]
