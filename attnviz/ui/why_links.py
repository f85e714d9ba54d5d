"""Links to Why, beside the sentences of maps and beside next words."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnviz.base.language import _
from attnviz.base.link import Link
from attnviz.figures import Chart
from attnviz.figures.chart_spec import CellLinks, HeatmapSpec
from attnviz.page.blocks import ScoreLinks
from attnviz.page.head_view import WHY_THERE
from attnviz.pages.why.links import WhyText
from attnviz.pages.why.state import LOGIT_QUESTION, WhyState
from attnviz.ui import presentation

if TYPE_CHECKING:
    from attnviz.models.written_text import WrittenText  # with huggingface_hub


def why_address(link: Link) -> str:
    """Returns the address of a link to Why."""
    return presentation.page_link("why", link)


def cell_links(links: ScoreLinks | None) -> CellLinks | None:
    """Returns the links of the cells of a map."""
    if links is None:
        return None
    address, names = why_address(links.head), (tuple(links.queries), tuple(links.keys))
    return CellLinks(_(WHY_THERE), address, links.parameters, *names)


def with_cell_links(picture: Chart[HeatmapSpec], links: CellLinks | None) -> Chart[HeatmapSpec]:
    """Returns the picture of a map with links of its cells."""
    return replace(picture, spec=replace(picture.spec, cell_links=links))


def word_links(read: WhyText | None, text: "WrittenText") -> dict[str, Any] | None:
    """Returns what the browser makes the addresses of links of: why the model has written a word, and not another."""
    if read is None:
        return None
    name = read.model.text_inputs.token_name
    ids = {one.token_id for step in text.steps for one in step.alternatives} | {step.token_id for step in text.steps}
    fields = WhyState.position, WhyState.token, WhyState.other
    first = text.prompt_length - text.encoder_length - 1
    return {
        "address": why_address(read.link(LOGIT_QUESTION)),
        "parameters": [field.parameter for field in fields],
        "after": read.predicting[first : first + len(text.steps)],
        "names": {token: name(token) for token in sorted(ids)},
    }
