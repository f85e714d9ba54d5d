"""What a capture holds of a long text: values in half precision, and everything else as it was."""

import pytest
import torch

from attnviz import Inputs, Mechanism
from attnviz.layer import Fidelity, Kind, Layer, LayerId
from attnviz.tracing import capture, recording
from attnviz.tracing.recording import with_fp16_values
from tests.support.architectures import SMALL, Architecture, text

BERT = Architecture("BERT", "BertConfig", SMALL)


def stacked(layers, what):
    return torch.stack([getattr(layer.mechanism(layer.inputs), what) for layer in layers])


@pytest.fixture
def both(monkeypatch):
    """A function that captures twice: held exactly, and as a long text is."""

    def capture_both(model, given):
        exact = capture(model, given, example=0)
        monkeypatch.setattr(recording, "EXACT", 0)
        return exact, capture(model, given, example=0)

    return capture_both


def test_values_of_a_long_text_take_half_the_room(both):
    exact, light = both(BERT.model(), text())
    for layer, before in zip(light, exact, strict=True):
        one, other = layer.inputs, before.inputs
        assert (one.query.dtype, one.key.dtype, one.value.dtype) == (torch.float32, torch.float32, torch.float16)
        held = sum(tensor.untyped_storage().nbytes() for tensor in (one.query, one.key, one.value))
        assert held == 4 * (one.query.numel() + one.key.numel()) + 2 * one.value.numel()
        assert torch.equal(one.query, other.query)
        assert torch.equal(one.key, other.key)
        assert other.value.dtype == torch.float32


def test_weights_are_the_same_to_the_bit_and_outputs_to_three_digits(both):
    exact, light = both(BERT.model(), text())
    assert [layer.fidelity for layer in light] == [Fidelity.VERIFIED, Fidelity.VERIFIED]
    assert torch.equal(stacked(light, "weights"), stacked(exact, "weights"))
    before, after = stacked(exact, "output"), stacked(light, "output")
    assert after.dtype == torch.float32
    largest = torch.stack([layer.inputs.value.abs().amax((1, 2)) for layer in exact])[..., None, None]
    assert ((after - before).abs() <= 2**-10 * largest).all()
    assert not torch.equal(before, after)


def test_short_texts_are_held_exactly():
    (first, *_) = capture(BERT.model(), text(), example=0)
    assert first.inputs.value.dtype == torch.float32


def test_a_text_of_4096_tokens_through_minilm_takes_less_than_100_mb():
    heads, tokens, width, layers = 12, 4_096, 32, 6
    size = heads * tokens * width * layers
    assert 12 * size > recording.EXACT, "else values would be held exactly"
    assert (4 + 4 + 2) * size < 100e6


def layer_of(value, locked_reason=""):
    heads, tokens, _ = value.shape
    names = tuple(map(str, range(tokens)))
    return Layer(
        LayerId(),
        Kind.SELF,
        Inputs(torch.ones(heads, tokens, 4), torch.ones(heads, tokens, 4), value, names, names),
        Mechanism(),
        locked_reason=locked_reason,
    )


@pytest.mark.parametrize("size", [65_504.0, 1e6, 2.0**-15, 1e-30])
def test_values_that_half_precision_cannot_hold_stay_as_they_are(size, monkeypatch):
    monkeypatch.setattr(recording, "EXACT", 0)
    value = torch.rand(2, 5, 3)
    value[1] *= size / value[1].max()
    (layer,) = with_fp16_values([layer_of(value)])
    assert layer.inputs.value is value


@pytest.mark.parametrize("size", [65_503.0, 1.0, 2.0**-14, 0.0])
def test_every_value_is_off_by_a_thousandth_of_the_heads_largest_at_most(size, monkeypatch):
    monkeypatch.setattr(recording, "EXACT", 0)
    value = torch.randn(2, 500, 3) * torch.rand(2, 500, 1) ** 20
    value = value / value.abs().amax((1, 2), keepdim=True) * torch.tensor([size, 1.0])[:, None, None]
    (layer,) = with_fp16_values([layer_of(value)])
    assert layer.inputs.value.dtype == torch.float16
    for head in range(2):
        off = (layer.inputs.value_of(head) - value[head]).abs().max()
        assert off <= 2**-11 * value[head].abs().max()


def test_weights_that_a_model_computes_by_itself_are_held_as_they_are(both):
    exact, light = both(Architecture("MPNet", "MPNetConfig", SMALL).model(), text())
    assert light[-1].locked
    assert light[-1].weights.dtype == torch.float32
    assert torch.equal(light[-1].weights.nan_to_num(9), exact[-1].weights.nan_to_num(9))


def test_numbers_beyond_half_precision_are_not_taken_for_finite():
    value = torch.full((1, 2, 3), torch.inf, dtype=torch.float16)
    with pytest.raises(ValueError, match="value holds numbers that are not finite"):
        layer_of(value)


def test_heads_that_share_values_read_them_in_full():
    value = torch.randn(2, 5, 3).half()
    inputs = Inputs(torch.ones(4, 5, 4), torch.ones(2, 5, 4), value, tuple("abcde"), tuple("abcde"))
    for head in range(4):
        assert torch.equal(inputs.value_of(head), value[head // 2].float())
    with pytest.raises(ValueError, match="must be of one type"):
        Inputs(torch.ones(4, 5, 4), torch.ones(2, 5, 4).double(), value, tuple("abcde"), tuple("abcde"))
