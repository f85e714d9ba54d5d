"""The open layer of a model in tables: its symbols with their sizes, and what each of its heads does."""

import re
from collections.abc import Iterator

import torch
from jaxtyping import Float
from markupsafe import Markup
from torch import Tensor

from attnviz.base.formatting import dimensions, number, visible
from attnviz.base.language import _
from attnviz.page import html
from attnviz.page.blocks import Anchor, Block, Note, Paragraph, Table
from attnviz.pages.transformer.activation import Activation, Sublayer
from attnviz.pages.transformer.path_names import layer_title, part_title, sublayer_title
from attnviz.pages.transformer.state import TransformerState

RAISED = re.compile(r"([\^_])(\w+)")  # a power or an index of a formula
PAPER = "Attention(Q, K, V) = softmax(Q K^T / √d_k) V"
HEADS = "MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O,   head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)"


def shown_layer(state: TransformerState) -> str:
    """Returns the name of the layer with attention that is open, or whose part is; of the whole model the last one."""
    layers = state.record.layers
    with_heads = [name for name, parts in layers.items() if any(part.kind in ("attention", "cross") for part in parts)]
    for name in with_heads:
        own = {name, *(each.name for part in layers[name] for each in part.activations)}
        if state.open in own:
            return name
    return with_heads[-1]


def attention_sublayers(state: TransformerState) -> list[Sublayer]:
    """Returns the sublayers of attention of the open layer."""
    return [part for part in state.record.layers[shown_layer(state)] if part.kind in ("attention", "cross")]


def symbol_blocks(state: TransformerState) -> Iterator[Block]:
    """Yields the formulas of the paper, and all that the attention of the open layer computes, with its size here."""
    name = shown_layer(state)
    yield Paragraph(_formula(PAPER))
    yield Paragraph(_formula(HEADS))
    for sublayer in attention_sublayers(state):
        yield Note(f"{layer_title(name)}, {sublayer_title(sublayer)}")
        rows = [(part_title(each), _formula(each.formula), _size(each), each.about) for each in sublayer.activations]
        yield Table((_("part"), _("formula"), _("size here"), _("what it is")), rows)
    parts = attention_sublayers(state)[0].activations
    queries = next(each for each in parts if each.part == "queries")
    heads, width = len(queries.values), queries.values.shape[-1]
    sentence = _(
        "Here d_model = {model}, h = {heads}, d_k = {width}; in the base model of the paper (Vaswani et al. 2017) 512, "
        "8 and 64.",
        model=queries.sources[0].values.shape[-1],
        heads=heads,
        width=width,
    )
    yield Paragraph(_formula(sentence))


def head_blocks(state: TransformerState) -> Iterator[Block]:
    """Yields, for each head of the open layer, where it looks and how much it adds."""
    name = shown_layer(state)
    for sublayer in attention_sublayers(state):
        yield Note(f"{layer_title(name)}, {sublayer_title(sublayer)}: {_row_words(sublayer)}")
        yield Table((_("head"), _("looks most at"), _("weight"), _("adds")), [*_head_rows(state, name, sublayer)])
    yield Paragraph(
        _(
            "The outputs of the heads stand side by side, times a matrix Wᴼ. That is a sum: each head, times its own "
            "rows of Wᴼ, adds one vector. “Adds” is the length of that vector."
        )
    )
    written = (("written", state.written),) if state.written else ()
    link = (("why-model", state.model), ("text", state.text), *written)
    yield Paragraph((Anchor(_("What changes without each head"), link, "effects", "attnviz-page-link"),))


def _head_rows(state: TransformerState, layer: str, sublayer: Sublayer) -> Iterator[tuple[object, ...]]:
    """Yields the row of each head."""
    by_part = {each.part: each for each in sublayer.activations}
    weights = _of_row(sublayer, by_part["weights"].values)
    lengths = _of_row(sublayer, head_contributions(by_part["heads"], by_part["output"]).norm(dim=-1)[..., None])
    for head, (row, length) in enumerate(zip(weights, lengths[:, 0].tolist(), strict=True)):
        key = int(row.argmax())
        anchor = Anchor(str(head), state.link_with(open=layer, head=head))
        token = html.token(visible(by_part["weights"].columns[key]))
        yield anchor, token, number(float(row[key])), number(length)


def head_contributions(heads: Activation, output: Activation) -> Float[Tensor, "heads rows width"]:
    """Returns what each head adds to the output: its own output times its rows of Wᴼ. Their sum, with the bias of Wᴼ,
    is the output (Vaswani et al. 2017, 3.2.2)."""
    assert output.weight is not None
    return heads.values @ output.weight.unflatten(0, (len(heads.values), -1))


def _of_row(sublayer: Sublayer, values: Float[Tensor, "heads rows columns"]) -> Float[Tensor, "heads columns"]:
    return values[:, -1] if sublayer.stack == "decoder" else torch.mean(values, 1)


def _row_words(sublayer: Sublayer) -> str:
    return _("the last row, from which the next token comes") if sublayer.stack == "decoder" else _("mean of all rows")


def _size(activation: Activation) -> str:
    return dimensions(activation.values.shape)


def _formula(text: str) -> Markup:
    """Returns a formula as HTML: powers and indices are raised and lowered.

    >>> _formula("S = Q K^T / √d_k")
    Markup('S = Q K<sup>T</sup> / √d<sub>k</sub>')
    """
    parts = RAISED.split(text)
    pieces: list[object] = [parts[0]]
    for mark, raised, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        pieces += [html.element("sup" if mark == "^" else "sub", raised), rest]
    return html.join(pieces)
