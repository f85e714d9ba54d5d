"""Which positions are read: against padding that is put into masks, and masks without any."""

import pytest
import torch
from torch import Tensor, nn

from attnviz import capture
from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import Causal, Full, Mask, Padding, SlidingWindow, parse
from attnviz.mechanism import Mechanism
from attnviz.trace.opaque_parts import CellTable, ModelMask
from attnviz.tracing.read_positions import read_keys, read_position, read_tokens, visible_keys

N = 6
READ = [False, True, True, True, False, False]


def cells(mask: Mask) -> ModelMask:
    """A mask as a model has it that nothing is known of but its cells."""
    return ModelMask(CellTable(mask.matrix(N, N)[None, None], N, N))


def inputs(queries: int = N) -> Inputs:
    names = tuple(map(str, range(N)))
    return Inputs(torch.zeros(1, queries, 2), *torch.zeros(2, 1, N, 2), names[:queries], names)


@pytest.mark.parametrize("mask", [Full(), Causal(), SlidingWindow(2)], ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_padding_is_what_no_query_sees(mask: Mask, known: bool) -> None:
    whole = mask & Padding(tuple(READ))
    assert read_keys(inputs(), Mechanism(mask=whole if known else cells(whole))).tolist() == READ


@pytest.mark.parametrize("mask", [Full(), Causal(), parse("k < q"), parse("q != k")], ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_the_last_token_is_read_though_no_query_is_after_it(mask: Mask, known: bool) -> None:
    assert bool(read_keys(inputs(), Mechanism(mask=mask if known else cells(mask))).all())
    assert bool(visible_keys(mask.matrix(N, N)).all())


def test_queries_are_those_of_the_tokens_in_self_attention() -> None:
    padding, shown = Mechanism(mask=Padding(tuple(READ))), Mechanism()

    def layer(kind: Kind, mechanism: Mechanism, stack: str = "decoder", queries: int = N) -> Layer:
        return Layer(LayerId(stack, 0, cross=kind is Kind.CROSS), kind, inputs(queries), mechanism)

    layers = [
        layer(Kind.SELF, padding),
        layer(Kind.CROSS, shown),  # of the same queries
        layer(Kind.CROSS, padding, "other"),
        layer(Kind.CAUSAL, padding, "cached", 3),
    ]
    queries, keys = zip(*((query.tolist(), key.tolist()) for query, key in read_tokens(layers)), strict=True)
    assert queries == (READ, READ, [True] * N, READ[3:])
    assert keys == (READ, [True] * N, READ, READ)


@pytest.mark.parametrize(("position", "place"), [(-1, 3), (-3, 1), (2, 2)])
def test_a_position_below_0_counts_from_the_last_that_is_read(position: int, place: int) -> None:
    assert read_position(position, torch.tensor(READ)) == place


@pytest.mark.parametrize(
    ("position", "message"), [(0, "Position 0 is padding"), (6, "no position 6: there are 6"), (-4, "no position -4")]
)
def test_a_position_that_is_not_read_is_refused(position: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_position(position, torch.tensor(READ))


class OwnAttention(nn.Module):
    """Attention of which only the weights are seen."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.query, self.key = 2, nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, states: Tensor, attention_mask: Tensor) -> Tensor:
        query, key = (of(states).unflatten(-1, (2, 4)).transpose(1, 2) for of in (self.query, self.key))
        hidden = ~attention_mask.bool()[:, None, None]
        weights = (query @ key.mT).masked_fill(hidden, -torch.inf).softmax(-1)
        return (weights @ states[:, None]).sum(1)


def test_weights_without_a_mask_are_nan_on_padding() -> None:
    mask = torch.tensor([[1] * N, READ])
    for example, read in enumerate(([True] * N, READ)):
        [layer] = capture(OwnAttention().eval(), torch.randn(2, N, 8), mask, example=example)
        assert (~layer.maps().isnan()).all(1).all(0).tolist() == read
        assert read_keys(layer.inputs, layer.mechanism).tolist() == read
