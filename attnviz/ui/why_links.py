"""Links to Why and to Effects, beside the sentences of maps and beside next words."""

from collections.abc import Sequence
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from attnviz.figures import Chart
from attnviz.figures.chart_spec import CellLinks, HeatmapSpec
from attnviz.formatting import visible
from attnviz.language import N_, _
from attnviz.link import Link
from attnviz.page import html
from attnviz.sources import Model
from attnviz.state.effects_links import effects_link
from attnviz.state.why import LOGIT_QUESTION, WhyState
from attnviz.state.why_links import ScoreLinks, WhyText, text_of_model
from attnviz.ui import presentation

if TYPE_CHECKING:
    from attnviz.models.intervention_run import Candidate  # with huggingface_hub
    from attnviz.models.written_text import WrittenText  # with huggingface_hub

WHY_THERE = N_("Why there?")
WITHOUT = N_("What happens without it?")


def why_address(link: Link) -> str:
    """Returns the address of a link to Why."""
    return presentation.page_link("why", link)


def why_link(link: Link, text: str) -> html.Markup:
    """Returns a link to Why, for the end of a sentence."""
    return html.element("a", text, href=why_address(link), class_="attnviz-page-link")


def effects_anchor(link: Link, text: str) -> html.Markup:
    """Returns a link to Effects, for the end of a sentence."""
    return html.element("a", text, href=presentation.page_link("effects", link), class_="attnviz-page-link")


def candidate_link(source: Model, candidates: Sequence["Candidate"]) -> html.Markup:
    """Returns links to why a model says the likeliest token, or label, rather than the next one, and to what happens
    to that without each head; none where Why cannot be asked about it."""
    read = text_of_model(source)
    if read is None:
        return html.Markup("")
    first, second = nlargest(2, candidates, key=lambda one: one.before)
    word, other = (visible(one.text.strip(" ") or one.text) for one in (first, second))
    text = _("Why “{word}” rather than “{other}”, as trained?", word=word, other=other)
    link = read.token_link(first.index, second.index)
    effects = effects_anchor(effects_link(link), _("What happens to it without each head?"))
    return html.element("p", why_link(link, text), " ", effects)


def cell_links(
    links: ScoreLinks | None, queries: Sequence[int] | None = None, keys: Sequence[int] | None = None
) -> CellLinks | None:
    """Returns the links of the cells of a map of these queries and keys, by default of all."""
    if links is None:
        return None
    return CellLinks(
        _(WHY_THERE), why_address(links.head), (WhyState.query.parameter, WhyState.key.parameter),
        tuple(links.queries if queries is None else (links.queries[i] for i in queries)),
        tuple(links.keys if keys is None else (links.keys[i] for i in keys)),
    )  # fmt: skip


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
