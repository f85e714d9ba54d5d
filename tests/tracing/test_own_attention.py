"""What is captured is what a model computes when nobody captures it, in its own attention implementation."""

import pytest
import torch
import transformers as hf
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._pytree import tree_leaves

from attnviz import capture, capturing
from tests.support.architectures import GROUPED, SMALL, ZOO

IDS = torch.tensor([[5, 9, 11, 7, 3, 8]])
N = IDS.shape[1]
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()[None, None]
EMPTY_ROWS = CAUSAL & (torch.arange(N) > 1)  # the first two queries are allowed no key
LEAST = torch.finfo(torch.float32).min
GIVEN = {
    "none": {},
    "booleans": {"attention_mask": CAUSAL},
    "booleans that allow rows no key": {"attention_mask": EMPTY_ROWS},
    "integers": {"attention_mask": CAUSAL.long()},
    "numbers": {"attention_mask": torch.zeros(1, 1, N, N).masked_fill(~CAUSAL, LEAST)},
    "numbers of another type": {"attention_mask": torch.zeros(1, 1, N, N).masked_fill(~CAUSAL, -1e4).half()},
    "padding on the left": {"attention_mask": torch.tensor([[0, 0, 1, 1, 1, 1]])},
    "padding on the right": {"attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0.0]])},
    "packed texts": {"position_ids": torch.tensor([[0, 1, 2, 0, 1, 2]])},
    "not causal": {"is_causal": False},
    "a cache": {"use_cache": True},
    "attentions": {"output_attentions": True},
}
MODELS = {
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(**GROUPED)),
    "mistral": lambda: hf.MistralModel(hf.MistralConfig(**GROUPED, sliding_window=3)),
    "bert": lambda: hf.BertModel(hf.BertConfig(**SMALL)),
}


def sharp(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for one in model.parameters():
        nn.init.normal_(one, std=0.3)
    return model.eval()


def ran(model, given, run):
    """Returns the weights and the last states of a run, or the error that it ends in."""
    seen, states = [], []

    def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        every = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        scores = query @ every.mT * (more.get("scale") or query.shape[-1] ** -0.5)
        mask = torch.ones_like(scores, dtype=torch.bool).tril() if is_causal else attn_mask
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        seen.append(scores.softmax(-1).nan_to_num(0)[0])
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **more)

    hook = model.register_forward_hook(lambda _, __, result: states.append(result.last_hidden_state))
    try:
        with torch.no_grad():
            found = run(attend)
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error)
    finally:
        hook.remove()
    return (seen or found), states[0]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_are_those_without_a_capture(name, implementation, given, monkeypatch):
    model, batch = sharp(MODELS[name]()), {"input_ids": IDS, **GIVEN[given]}
    model.set_attn_implementation(implementation)

    def alone(attend):
        if implementation == "eager":
            return [one[0] for one in model(**batch | {"output_attentions": True}).attentions]
        with monkeypatch.context() as patched:
            patched.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
            model(**batch)

    def captured(_):
        return capture(model, batch)

    def observed(_):
        with capturing(model) as traces:
            model(**batch)
        return traces[0]

    expected = ran(model, batch, alone)
    for run in (captured, observed):
        found = ran(model, batch, run)
        if isinstance(expected, type):
            assert found is expected
            continue
        trace, states = found
        torch.testing.assert_close(states, expected[1], atol=1e-5, rtol=1e-5)
        assert len(trace) == len(expected[0]) == 2
        for layer, weights in zip(trace, expected[0], strict=True):
            assert layer.fidelity == "verified"
            shown = layer.maps()
            rows = ~shown.isnan().all(-1)  # of those that are allowed no key, none are shown
            assert rows.sum() >= 4 * rows.shape[0]
            torch.testing.assert_close(shown.nan_to_num(0)[rows], weights[rows], atol=1e-5, rtol=0)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("architecture", ZOO, ids=lambda one: one.name)
def test_a_model_gives_what_it_gives_without_a_capture(architecture, implementation):
    model = architecture.model()
    try:
        model.set_attn_implementation(implementation)
    except ValueError:
        pytest.skip("has no such implementation")
    batch, results = architecture.given(), []
    model.register_forward_hook(lambda _, __, result: results.append(result))
    with torch.no_grad():
        model(**batch)
        capture(model, batch, example=0)
        with capturing(model, example=0):
            model(**batch)
    first, *others = ([one for one in tree_leaves(dict(result)) if torch.is_tensor(one)] for result in results)
    assert len(others) == 2
    for other in others:
        for own, one in zip(first, other, strict=True):
            torch.testing.assert_close(one, own, atol=1e-4, rtol=1e-4, equal_nan=True)
