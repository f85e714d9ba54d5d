"""timm's vision transformers, fused and not, against the weights of their own unfused attention."""

import pytest
import torch

from attnviz.layer import Fidelity
from attnviz.tracing import capture, capturing
from tests.support.timm_models import import_timm

SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4, "num_classes": 3}


@pytest.fixture(scope="module")
def timm():
    return import_timm()


@pytest.fixture
def make(timm):
    """A function that makes a small model, whose rows of attention are far from uniform."""

    def make_model(name="vit_tiny_patch16_224", fused=True, **options):
        torch.manual_seed(0)
        model = timm.create_model(name, **SMALL | options).eval()
        for module in model.modules():
            if hasattr(module, "fused_attn"):
                module.fused_attn = fused
            if hasattr(module, "qkv"):
                module.qkv.weight.data.normal_(std=0.3)
        return model

    return make_model


def pictures():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def own_weights(model):
    """The weights that the dropout of each unfused attention gets."""
    seen, modules = [], [module for module in model.modules() if hasattr(module, "fused_attn")]
    hooks = [one.attn_drop.register_forward_pre_hook(lambda module, args: seen.append(args[0])) for one in modules]
    with torch.no_grad():
        model(pictures())
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("example", [0, 1])
@pytest.mark.parametrize(
    "options", [{}, {"qk_norm": True}, {"reg_tokens": 2}, {"class_token": False, "global_pool": "avg"}]
)
def test_every_head_has_the_models_own_weights(make, example, options):
    layers = capture(make(**options), pictures(), example=example)
    assert [layer.name for layer in layers] == ["layer 0", "layer 1"]
    for layer, weights in zip(layers, own_weights(make(fused=False, **options)), strict=True):
        assert (layer.kind, layer.fidelity) == ("self", Fidelity.VERIFIED)
        torch.testing.assert_close(layer.mechanism(layer.inputs).weights, weights[example], atol=1e-5, rtol=0)
        assert weights.amax(-1).mean() > 0.2


def test_an_unfused_model_is_shown(make):
    model = make(fused=False)
    layers, weights = capture(model, pictures(), example=1), own_weights(model)
    for layer, own in zip(layers, weights, strict=True):
        torch.testing.assert_close(layer.mechanism(layer.inputs).weights, own[1], atol=1e-5, rtol=0)
        assert layer.inputs.query_tokens[1] == "0·0"


def test_a_classifier_in_training(make):
    model = make().train()
    with capturing(model) as traces:
        model(pictures()).sum().backward()
    assert [len(trace) for trace in traces] == [2]
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_attention_that_pools_has_the_name_of_its_module(make):
    model = make("vit_base_patch16_siglip_224", num_classes=0, class_token=False)
    *_, last = capture(model, pictures(), example=0)
    assert (last.name, last.kind) == ("layer attn_pool", "cross")
