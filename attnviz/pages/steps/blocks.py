"""What Steps shows: the computation of attention in matrices, why it is scaled, and weights to predict."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from attnviz.base.formatting import fixed, number, quoted, visible
from attnviz.base.language import _
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Drawing,
    InWords,
    Note,
    Paragraph,
    Prediction,
    Table,
    Tabs,
    available,
)
from attnviz.page.html import Markup, element
from attnviz.page.page_view import Panel
from attnviz.pages.steps.scaling_blocks import scaling_blocks
from attnviz.pages.steps.stages import lost_edits_sentence, stage_blocks
from attnviz.pages.steps.state import PREDICT, SUM, TRANSLATOR, WHY_SCALE, StepsState
from attnviz.pages.steps.translator_example import TranslatorExample
from attnviz.pages.transformer.links import heads_link
from attnviz.translator.encoder_decoder import HEADS


def steps(state: StepsState) -> Iterator[Block]:
    """Yields the open tab."""
    parts: dict[str, Callable[[StepsState], Iterable[Block]]] = {
        SUM: _sum,
        WHY_SCALE: scaling_blocks,
        PREDICT: _predict,
    }
    yield InWords(quoted(state.english if state.attention == TRANSLATOR else state.sentence))
    yield Tabs(StepsState.part, state, available(parts[state.part](state)))


def _sum(state: StepsState) -> Iterator[Block]:
    """Yields the matrices of one head. Raises ValueError if they cannot be computed with the numbers of the link."""
    if lost := lost_edits_sentence(state):
        yield Note(lost)
    yield Drawing(state, [*stage_blocks(state)], [_weights(state)])
    if isinstance(state.example, TranslatorExample):
        yield _rest_of_the_layer(state.example)
    yield Caption(
        _(
            "**What you are seeing.** Every number of attention, for a few words: each stage is computed from those "
            "before it. **What it does not say:** what a trained model does, unless the example is the translator; "
            "the vectors and matrices of the other examples are drawn at random."
        )
    )


def _weights(state: StepsState) -> Panel:
    computed, head = state.steps, state.head_shown
    inputs, weights = computed.inputs, computed.matrices[f"weights{head}"].values.numpy()
    allowed = computed.mechanism(inputs, heads=[head]).allowed[0].numpy()
    shown = np.where(allowed, weights, np.nan)
    return Panel(_("Weights of head {head}", head=head), shown, inputs.query_tokens, inputs.key_tokens, state.query)


def _rest_of_the_layer(example: TranslatorExample) -> Note:
    """Returns where the steps after one head of the translator can be seen."""
    before, after = _(
        "In the translator, the outputs of all {heads} heads of a layer are then placed side by "
        "side and multiplied by Wᴼ. These matrices are too large to be read here. See {link}.",
        heads=HEADS,
        link="\0",
    ).split("\0")
    layer = f"{'encoder' if example.use == 'encoder' else 'decoder'} {example.layer}"
    link = heads_link(example.english, layer)
    return Note((before, Anchor(_("Transformer → Several heads"), link, "transformer"), after))


def _predict(state: StepsState) -> Iterator[Block]:
    """Yields the scores of one query, from which the reader predicts its weights."""
    inputs, head, row = state.steps.inputs, state.head_shown, state.query
    attention = state.steps.mechanism(inputs, heads=[head], rows=[row])
    query, weights = inputs.query_tokens[row], attention.maps[0, 0].numpy()
    scores = [fixed(float(score)) if score.isfinite() else _("masked") for score in attention.scores[0, 0]]
    question = Markup(_("These are the scores of {query}, before the softmax. What will its weights be?"))

    def above(is_known: bool) -> Iterator[Block]:
        yield Paragraph(question.format(query=element("b", visible(query))))
        known = [[_("weight"), *(_("masked") if np.isnan(one) else number(one) for one in weights.tolist())]]
        rows = [[_("score"), *scores], *(known if is_known else [])]
        yield Table([_("key"), *map(visible, inputs.key_tokens)], rows)

    yield Prediction(query, inputs.key_tokens, weights, above, lambda _is_known: ())
