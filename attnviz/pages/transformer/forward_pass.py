"""One forward pass of a model as one drawing, from the whole model to a number, and what belongs to it."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.base.language import N_, _, in_sentence
from attnviz.base.link import Link
from attnviz.models import MINILM, SMOLLM2, TRANSLATOR
from attnviz.page.blocks import Anchor, Block, Caption, Control, ModelPath, More, OtherStates, Paragraph, Row
from attnviz.page.page_view import Panel
from attnviz.pages.steps.links import translator_link
from attnviz.pages.transformer.activation import Activation, Sublayer, layer_name
from attnviz.pages.transformer.before_attention import before_attention
from attnviz.pages.transformer.layer_tables import head_blocks, symbol_blocks
from attnviz.pages.transformer.path_names import layer_title, sublayer_title
from attnviz.pages.transformer.path_picture import path_picture
from attnviz.pages.transformer.state import (
    BEFORE_ATTENTION,
    MOST_DRAWS,
    SEVERAL_HEADS,
    SYMBOLS,
    TransformerState,
    is_translator,
    parts,
)
from attnviz.translator.encoder_decoder import Use

MEAN = N_("Mean of heads")
MODELS = {TRANSLATOR: N_("a translator"), SMOLLM2: "SmolLM2", MINILM: "all-MiniLM-L6-v2"}


def forward_pass(state: TransformerState) -> Iterator[Block]:
    """Yields the drawing of what is open, and folded below it what came before attention, its symbols and its heads; a
    link that unfolds one of them has it above the drawing."""
    folded = {SYMBOLS: partial(symbol_blocks, state), SEVERAL_HEADS: partial(head_blocks, state)}
    if is_translator(state):
        folded = {BEFORE_ATTENTION: partial(before_attention, state.text)} | folded
    more = {title: More(_(title), [*blocks()], is_open=title == state.unfolded) for title, blocks in folded.items()}
    yield from (block for block in more.values() if block.is_open)
    offered = [field for field in (TransformerState.word, TransformerState.temperature) if field.is_offered(state)]
    controls = [Control(field, state, stays=field is TransformerState.word) for field in offered]
    yield Row([*controls, _models(state)], "forward-pass")
    yield _path(state)
    yield from (block for block in more.values() if not block.is_open)
    yield Caption(
        _(
            "**What you are seeing.** Every bar is a vector, a row of numbers: blue above 0, brown below. Lines are "
            "attention, the thicker the more weight. Each number is what the model computed in this run. **What it "
            "does not say:** which of these numbers the next token depends on; Why and Effects measure that."
        )
    )


def _models(state: TransformerState) -> OtherStates:
    """Returns links to this page with other models."""
    links = (
        Anchor(_(name), _of_model(state, model), is_current=model == state.model) for model, name in MODELS.items()
    )
    return OtherStates([Paragraph(tuple(links), "attnviz-choices")])


def _of_model(state: TransformerState, model: str) -> Link:
    return () if model == TransformerState.model.opening(state) else ((TransformerState.model.parameter, model),)


def _path(state: TransformerState) -> ModelPath:
    """Returns the drawing, whose clicks open a part, or the same part of another head."""

    def opens(name: str) -> Link | None:
        return state.link_with(open=name) if name in parts(state).values() else None

    def head(number: int) -> Link | None:
        return state.link_with(head=number) if number < state.record.heads else None

    again = (int(state.draw) + 1) % (MOST_DRAWS + 1)
    return ModelPath(
        path_picture(state),
        opens,
        head,
        state.link_with(draw=again) if state.next_word else None,
        [*_head_anchors(state)],
        [*_panels(state)],
    )


def _head_anchors(state: TransformerState) -> Iterator[Anchor]:
    """Yields links to the numbers of the head whose part is open, where Steps has them."""
    record = state.record
    if not is_translator(state) or state.written or state.open not in record or not record[state.open].by_head:
        return
    sublayer = next(each for each in record.sublayers if each.name == record[state.open].sublayer)
    use: Use = "cross" if sublayer.kind == "cross" else "encoder" if sublayer.stack == "encoder" else "decoder"
    link = translator_link(state.text, use, sublayer.layer or 0, state.head)
    yield Anchor(_("All numbers of this head"), link, "steps")


def _panels(state: TransformerState) -> Iterator[Panel]:
    """Yields the weights of what is open: where it is the whole model, the mean of all heads in each layer; where it is
    a layer, its heads; where it is a part of attention, the selected head."""
    record, name = state.record, state.open
    heads: Sequence[int | None] = range(record.heads)
    if not name:
        sublayers, heads = record.sublayers, [None]
    elif name in record.layers:
        sublayers = record.layers[name]
    else:
        sublayers, heads = tuple(one for one in record.sublayers if one.name == record[name].sublayer), [state.head]
    for sublayer in sublayers:
        for weights in sublayer.activations:
            if weights.part == "weights":
                yield from (_panel(sublayer, weights, head) for head in heads)


def _panel(sublayer: Sublayer, weights: Activation, head: int | None) -> Panel:
    (scores,) = weights.sources
    values, allowed = weights.values.numpy(), scores.values.isfinite().numpy()
    shown = np.where(allowed, values, np.nan)
    title = _(
        "{layer}: {attention}, {heads}",
        layer=layer_title(layer_name(sublayer)),
        attention=in_sentence(sublayer_title(sublayer)),
        heads=in_sentence(MEAN if head is None else f"Head {head}"),
    )
    return Panel(title, shown.mean(0) if head is None else shown[head], weights.rows, weights.columns)
