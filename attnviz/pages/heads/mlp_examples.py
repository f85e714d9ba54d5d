"""What there is in an atlas about one MLP: the norm of what it writes in each text, and tokens with it."""

from collections.abc import Iterator

from attnviz.analysis.atlas import Atlas, Pair
from attnviz.analysis.atlas_examples import RANDOM, WRITTEN
from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.figures.histogram import histogram
from attnviz.models.text_inputs import Tokens
from attnviz.page.blocks import Block, Control, Figure, Listing, Note, Paragraph
from attnviz.page.html import element
from attnviz.page.page_view import Panel
from attnviz.pages.heads.head_examples import HISTOGRAM, SHOWN, about_raised, marked_tokens, raised_tokens
from attnviz.pages.heads.state import HeadsState


def mlp_examples(state: HeadsState, known: Atlas) -> Iterator[Block]:
    """Yields the norm of what the chosen MLP writes, its distribution over the texts, and examples."""
    yield Control(HeadsState.mlp, state)
    if state.mlp not in known.mlps.layers:
        yield Note(_("What the MLPs of this model write is not known."))
        return
    mlp, means = known.mlps.layers.index(state.mlp), known.mlps.means
    largest = int(means.nan_to_num(-1).argmax())
    yield Paragraph(
        _(
            "What it writes at a token has a norm of {norm}, as mean over the texts; the largest is {largest}, of the "
            "MLP in {layer}.",
            norm=number(float(means[mlp])),
            largest=number(float(means[largest])),
            layer=known.mlps.layers[largest],
        )
    )
    values, title = known.mlps.values[:, mlp].numpy(), _("norm of what the MLP writes")
    panel = Panel(title, values[None], [title], [*map(str, range(len(values)))])
    yield Figure(histogram(values, title, marked=float(means[mlp])), "mlp-distribution", HISTOGRAM, panels=[panel])
    for kind, heading in ((WRITTEN, _("Tokens with the largest norm")), (RANDOM, _("Tokens drawn at random"))):
        examples = known.tokens_of_mlp(mlp, kind)[:SHOWN]
        items = [_item(state, known, mlp, kind, rank, example) for rank, example in enumerate(examples)]
        yield Paragraph(element("b", heading))
        if kind == WRITTEN and (known.raised_by_mlps[mlp] >= 0).any():
            yield Note(about_raised())
        yield Listing(items, heading, "attnviz-examples")


def _item(state: HeadsState, known: Atlas, mlp: int, kind: str, rank: int, example: Pair) -> tuple[object, ...]:
    """Returns a text with its token marked, the norm, and the tokens whose logits are raised and lowered most."""
    inputs = state.source.model().encode(known.texts[example.text])
    side = (inputs.target or Tokens()) if known.mlps.layers[mlp].stack == "decoder" else inputs.source
    text = element("bdi", marked_tokens(side.tokens, {example.query: "mark"}))
    raised = raised_tokens(state, known.raised_by_mlps[mlp], rank) if kind == WRITTEN else ""
    return text, " ", element("b", number(example.weight)), raised
