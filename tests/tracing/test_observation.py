"""Every forward pass inside a block: what is captured of it, and that the code of the block is left as it is."""

import copy

import pytest
import torch
import transformers as hf
from torch import nn

from attnviz.layer import Fidelity
from attnviz.trace.memory import layer_bytes
from attnviz.tracing import capture, capturing
from tests.support.architectures import GROUPED, SMALL, text

B, L, E = 2, 5, 8


def encoder(**options):
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(E, 2, 16, batch_first=True, **options), 2)


def llama(**options):
    torch.manual_seed(0)
    return hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED, **options))


def states(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def weights(trace):
    return [layer.mechanism(layer.inputs).weights for layer in trace]


def train(model, forward, steps=3):
    """The losses of some steps of training, and the parameters and gradients at their end."""
    torch.manual_seed(7)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = forward(model).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [[one.detach(), one.grad] for one in model.parameters()]


@pytest.mark.parametrize(
    ("make", "forward"),
    [
        (lambda: encoder(dropout=0.3), lambda model: model(states(B, L, E))),
        (lambda: nn.MultiheadAttention(E, 2, 0.3), lambda model: model(*[states(L, B, E)] * 3)[0]),
        (
            lambda: hf.BertModel(hf.BertConfig(**SMALL, attn_implementation="sdpa")),
            lambda model: model(**text()).last_hidden_state,
        ),
        (
            lambda: hf.BertModel(hf.BertConfig(**SMALL, attn_implementation="eager")),
            lambda model: model(**text()).last_hidden_state,
        ),
        (lambda: llama(attention_dropout=0.3), lambda model: model(text()["input_ids"], use_cache=False).logits),
    ],
    ids=["encoder", "attention", "BERT sdpa", "BERT eager", "Llama"],
)
def test_a_training_loop_learns_exactly_what_it_would(make, forward):
    torch.manual_seed(0)
    model = make().train()
    expected = train(copy.deepcopy(model), forward)
    with capturing(model, example=1) as traces:
        found = train(model, forward)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert len(traces) == 3
    assert {layer.fidelity for trace in traces for layer in trace} == {Fidelity.VERIFIED}
    assert not any(trace.missing for trace in traces)
    assert all(module.training for module in model.modules())
    assert not any(layer.inputs.query.requires_grad for trace in traces for layer in trace)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_attention_of_a_model_is_its_own_again_afterwards():
    model = llama(attn_implementation="sdpa").eval()
    before = hf.modeling_utils.ALL_ATTENTION_FUNCTIONS.get_interface("sdpa", None)
    with capturing(model):
        assert model.config._attn_implementation == "sdpa"
    assert hf.modeling_utils.ALL_ATTENTION_FUNCTIONS.get_interface("sdpa", None) is before


# Texts that a model writes


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate_with_a_cache_has_the_positions_of_the_whole_text(implementation, cache):
    model, ids = llama(attn_implementation=implementation).eval(), text()["input_ids"][:1, :6]
    options = {"do_sample": False, "max_new_tokens": 5, "cache_implementation": cache, "eos_token_id": -1}
    if cache == "dynamic":
        del options["cache_implementation"]
    plain = model.generate(ids, **options)
    with capturing(model, tokens=lambda ids: [f"t{one}" for one in ids]) as traces:
        written = model.generate(ids, **options)
    assert torch.equal(written, plain)
    assert [trace[0].inputs.queries for trace in traces] == [6, 1, 1, 1, 1]
    whole = capture(model, written[:, :-1], tokens=tuple(f"t{one}" for one in written[0, :-1].tolist()))
    for step, trace in enumerate(traces):
        count = 6 + step
        for layer, all_of_it in zip(trace, whole, strict=True):
            assert (layer.kind, layer.fidelity) == ("causal", "verified")
            rows = slice(0, 6) if step == 0 else slice(count - 1, count)
            assert layer.inputs.query_tokens == all_of_it.inputs.query_tokens[rows]
            assert layer.inputs.key_tokens[:count] == all_of_it.inputs.key_tokens[:count]
            assert layer.inputs.query_ids == all_of_it.inputs.query_ids[rows]
            found = layer.mechanism(layer.inputs).weights
            assert not found[..., count:].any()
            expected = all_of_it.mechanism(all_of_it.inputs).weights[:, rows, :count]
            torch.testing.assert_close(found[..., :count], expected, atol=1e-5, rtol=0)
            assert layer.inputs.heads == 4
            assert len(layer.inputs.key) == 2


# Which forward passes, and how many


def test_the_oldest_are_dropped_when_memory_is_full():
    model = encoder()
    with capturing(model) as traces:
        model(states(B, L, E))
    size = layer_bytes(traces[0])
    with capturing(model, max_bytes=2 * size) as traces:
        for count in range(1, 6):
            model(states(B, count, E) if count < 5 else states(B, L, E))
    assert (traces[-1][0].inputs.queries, traces.dropped) == (L, 5 - len(traces))
    assert 0 < traces.dropped < 5
    assert traces.nbytes <= 2 * size
    assert repr(traces).startswith(f"Traces({len(traces)} traces, ")
    assert repr(traces).endswith(f"; {traces.dropped} dropped, the oldest first)")
    with capturing(model, max_bytes=size - 1) as traces:
        model(states(B, L, E))
    assert (len(traces), traces.dropped, traces.nbytes) == (0, 1, 0)


def test_a_forward_that_fails_leaves_no_trace_and_no_hook():
    model = encoder()
    with capturing(model) as traces:
        with pytest.raises(AssertionError):
            model(states(B, L, E + 1))
        try:
            model(states(B, L, E + 1))
        except AssertionError:
            model(states(B, L, E))
    assert len(traces) == 1
    assert torch.overrides._len_torch_function_stack() == 0


def test_an_interrupted_forward_is_left():
    model = encoder()

    def interrupt(module, args):
        raise KeyboardInterrupt

    hook = model.layers[1].register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt), capturing(model) as traces:
        model(states(B, L, E))
    hook.remove()
    assert torch.overrides._len_torch_function_stack() == 0
    with capturing(model) as traces:
        model(states(B, L, E))
    assert len(traces) == 1


def test_what_runs_outside_the_model_is_not_captured():
    model, other = encoder(), encoder()
    with capturing(model) as traces:
        other(states(B, L, E))
        nn.functional.scaled_dot_product_attention(*[states(1, 1, 3, 4)] * 3)
        assert not traces
        model(states(B, L, E))
    model(states(B, L, E))
    assert [len(trace) for trace in traces] == [2]


def test_two_models_at_once_and_one_inside_another():
    outer = nn.Sequential(encoder(), encoder())
    with capturing(outer) as whole, capturing(outer[1]) as part:
        outer(states(B, L, E))
        outer[1](states(B, L, E))
    assert [len(trace) for trace in whole] == [4]
    assert [len(trace) for trace in part] == [2]


def test_a_model_that_calls_another_one():
    class Caller(nn.Module):
        def __init__(self):
            super().__init__()
            self.own, self.other = encoder(), [encoder()]  # which is no part of it

        def forward(self, x):
            return self.other[0](self.own(x))

    model = Caller()
    with capturing(model) as traces, capturing(model.other[0]) as others:
        model(states(B, L, E))
    assert [layer.fidelity for layer in traces[0][:2]] == ["verified", "verified"]
    assert not others


def test_a_capture_inside_is_not_captured_again():
    model = encoder()
    with capturing(model) as traces:
        assert len(capture(model, states(B, L, E), example=1)) == 2
    assert not traces


def test_mixed_precision_is_compared_in_its_own_type():
    model = encoder()
    with capturing(model) as traces, torch.autocast("cpu", torch.bfloat16):
        model(states(B, L, E))
    [trace] = traces
    assert {layer.fidelity for layer in trace} == {Fidelity.VERIFIED}


def test_an_example_that_is_not_there_is_refused():
    model = encoder()
    with pytest.raises(ValueError, match="There is no example 2: the batch holds 2"), capturing(model, example=2):
        model(states(B, L, E))
    assert torch.overrides._len_torch_function_stack() == 0


def test_beams_have_the_tokens_of_the_text_that_each_of_them_continues():
    model, ids = llama().eval(), text()["input_ids"][:1, :6]
    with capturing(model, example=2) as traces:
        model.generate(ids, do_sample=False, num_beams=4, max_new_tokens=6, eos_token_id=-1)
    for trace in traces[1:]:
        inputs = trace[0].inputs
        alone = capture(model, torch.tensor([inputs.key_ids]))
        found = trace[0].mechanism(trace[0].inputs).weights[:, -1]
        expected = alone[0].mechanism(alone[0].inputs).weights[:, -1]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(inputs.key, alone[0].inputs.key, atol=1e-5, rtol=0)
    assert len({trace[0].inputs.key_ids[-2:] for trace in traces[2:]}) > 1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("real", [[5, 3], [4, 3], [5, 5]])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_what_an_encoder_gives_for_padding_is_what_it_gives_elsewhere(norm, real, gradients, masked):
    model = encoder().eval()
    model.norm = nn.LayerNorm(E) if norm else None
    nn.init.ones_(model.layers[0].norm1.bias)
    given = {"src_key_padding_mask": torch.arange(L) >= torch.tensor(real)[:, None]}
    if masked:
        given["mask"] = torch.zeros(L, L).bool()
    with torch.set_grad_enabled(gradients):
        expected = model(states(B, L, E), **given)
        with capturing(model) as traces:
            torch.testing.assert_close(model(states(B, L, E), **given), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(model(states(B, L, E), **given), expected)
    assert {layer.fidelity for layer in traces[0]} == {Fidelity.VERIFIED}
