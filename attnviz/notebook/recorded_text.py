"""A text that a model has written, which is played token by token, with the map of a head that grows."""

from typing import TYPE_CHECKING

from markupsafe import Markup

from attnviz.notebook import bundle, html_page
from attnviz.notebook.pictures import Pictures
from attnviz.notebook.viewer import Viewer
from attnviz.state.write import decoder_layers
from attnviz.views.write import written_content

if TYPE_CHECKING:
    from attnviz.models.written_text import WrittenText  # with huggingface_hub


class RecordedText(Viewer):
    """A viewer of the heads with which a text was written: it plays the text, and a click on a word pins its query.

    A notebook shows it as HTML that needs no kernel.
    """

    def __init__(self, text: "WrittenText", key: str, layer: int = 0, head: int = 0, query: int | None = None) -> None:
        super().__init__(Pictures(decoder_layers(text), key=key), layer, head, query)
        self.text = text

    def _html(self, limit: int, wait: int = 0) -> Markup:
        read = self.text.encoder_length
        chosen = {"layer": self.layer, "head": self.head, "query": self.query}
        written = written_content(self.text) | {
            "queryOffset": read,
            "keyOffsets": [0 if layer.id.cross else read for layer in self.pictures.layers],
        }
        data = html_page.head_data(self.pictures, chosen, limit) | {
            "written": written,
            "text": bundle.text("ui/write/write.html"),
        }
        return html_page.fragment(self.pictures.key, data, text="".join(self.text.parts), wait=wait)
