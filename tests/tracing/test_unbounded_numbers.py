"""Models that compute NaN or infinity: the layers before are shown, and the module where it begins is named."""

import pytest
import torch
import transformers as hf
from torch import nn

from attnviz.tracing import capture, capturing
from tests.support.architectures import GROUPED, SMALL

LAYERS = 6
IDS = torch.tensor([[3, 4, 5, 6]])


def llama(**options):
    torch.manual_seed(0)
    return hf.LlamaModel(hf.LlamaConfig(**GROUPED | {"num_hidden_layers": LAYERS} | options)).eval()


def bert():
    torch.manual_seed(0)
    # Of scores that are NaN, sdpa makes finite numbers, and the layers above are what they are.
    return hf.BertModel(hf.BertConfig(**SMALL | {"num_hidden_layers": LAYERS}, attn_implementation="eager")).eval()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize(
    ("make", "module", "first"),
    [
        (llama, "layers.3.mlp.down_proj", 4),
        (llama, "layers.3.self_attn.q_proj", 3),
        (llama, "layers.3.self_attn.v_proj", 3),
        (llama, "layers.2.post_attention_layernorm", 3),
        (llama, "embed_tokens", 0),
        (bert, "encoder.layer.3.output.dense", 4),
        (bert, "encoder.layer.4.attention.self.key", 4),
    ],
)
def test_the_module_whose_weights_hold_it_is_named(make, module, first, value):
    model = make()
    part = model.get_submodule(module)
    with torch.no_grad():
        part.weight[3 if module == "embed_tokens" else 0] = value
    trace = capture(model, IDS)
    assert len(trace) == first
    assert len(trace.missing) == LAYERS - first
    assert trace.layer_count == LAYERS
    for i, sentence in enumerate(trace.missing, first):
        assert f"r {i} is not shown: it computes with " in sentence
        assert sentence.endswith(
            f", which comes from the weights of {module} ({type(part).__name__}). "
            "Check the files that they were loaded from."
        )


def test_a_model_in_16_bits_that_overflows():
    model = llama().half()
    with torch.no_grad():
        model.layers[2].post_attention_layernorm.weight.fill_(6e4)
    trace = capture(model, IDS)
    assert len(trace) == 3
    assert trace.missing[0] == (
        "layer 3 is not shown: it computes with NaN, which layers.2.post_attention_layernorm (LlamaRMSNorm) is the "
        "first to return. Check what goes into the model, or compute in float32."
    )


def test_numbers_that_are_too_large_without_infinity():
    model = llama()
    with torch.no_grad():
        model.layers[2].self_attn.k_proj.weight *= 1e14
    assert "it computes with numbers beyond 1e+12. Check" in capture(model, IDS).missing[0]


def test_weights_of_a_models_own_softmax():
    class Attention(nn.Module):
        num_heads = 1

        def forward(self, x):
            return ((x @ x.mT)[:, None].softmax(-1) @ x[:, None])[:, 0]

    model = nn.Sequential(Attention(), nn.Linear(4, 4), Attention())
    nn.init.constant_(model[1].weight, torch.nan)
    trace = capture(model, torch.randn(1, 3, 4))
    assert len(trace) == 1
    assert trace.missing[0].endswith(
        "it computes with NaN, which comes from the weights of 1 (Linear). Check the files that they were loaded from."
    )


def test_while_code_runs_by_itself():
    model = llama()
    model.layers[1].mlp.down_proj.weight.data[0] = torch.nan
    with capturing(model) as traces, torch.no_grad():
        model(IDS)
    assert len(traces[0]) == 2
    assert traces[0].missing[0] == (
        "layer 2 is not shown: it computes with NaN. Check the weights and inputs of the model, or compute in float32."
    )
