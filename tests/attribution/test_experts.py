"""Mixtures of experts, by their experts."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import silu

from attnviz.attribution import Activation, attribute
from tests.support.architectures import ZOO, text

POSITION = 6
BATCH = {"input_ids": text()["input_ids"][:1]}
SHARED = {  # parts of other kinds than experts that a router has chosen
    "DeepSeek-V3": ["shared_experts"],
    "DeepSeek-V3.2": ["shared_experts"],
    "Llama 4": ["shared_expert", "experts"],
}


def zoo_model(name: str) -> nn.Module:
    return next(each for each in ZOO if each.name == name).model()


def keep_arguments(kept: list, module: nn.Module, args: tuple) -> None:
    kept.append(args)


@pytest.mark.parametrize(("name", "layer"), [("Mixtral", 0), ("DeepSeek-V3", 1)])
@pytest.mark.parametrize("implementation", ["eager", "grouped_mm"])
def test_shares_of_experts_are_those_of_their_matrices(name: str, layer: int, implementation: str) -> None:
    model, direction, calls = zoo_model(name), torch.randn(32, generator=torch.Generator().manual_seed(0)), []
    model.set_experts_implementation(implementation)
    model.norm = nn.Identity()  # of the last state, so that a direction in it is one of the MLP's output
    experts = model.layers[layer].mlp.experts
    found = attribute(model, BATCH | {"output_hidden_states": True}, Activation(layer + 1, POSITION, direction))
    with experts.register_forward_pre_hook(partial(keep_arguments, calls)), torch.no_grad():
        model(**BATCH)
    [(states, chosen, weights)] = [[tensor[POSITION] for tensor in call] for call in calls]
    shares = found.experts(layer, POSITION)
    for expert, weight in zip(chosen.tolist(), weights, strict=True):
        gate, up = (experts.gate_up_proj[expert] @ states).chunk(2)
        written = experts.down_proj[expert] @ (silu(gate) * up) * weight
        assert shares[expert] == pytest.approx(float(written @ direction), abs=1e-5)
    assert set(shares) == {*chosen.tolist(), *SHARED.get(name, ())}
    assert sum(shares.values()) == pytest.approx(float(found.mlps[layer, POSITION]), abs=1e-5)


@pytest.mark.parametrize("name", ["gpt-oss", "Llama 4", "Jamba", "DeepSeek-V3.2", "MiMo-V2-Flash", "Privacy filter"])
def test_shares_of_experts_add_up(name: str) -> None:
    model, direction = zoo_model(name), torch.randn(32, generator=torch.Generator().manual_seed(0))
    found = attribute(model, BATCH | {"output_hidden_states": True}, Activation(2, POSITION, direction))
    last = len(found.mlps) - 1
    assert last == (2 if name == "Jamba" else 1)  # with its Mamba
    shares = found.experts(last, POSITION)
    assert len(shares) >= 2
    assert sum(shares.values()) == pytest.approx(float(found.mlps[last, POSITION]), abs=1e-5)
    assert [part for part in shares if isinstance(part, str)] == SHARED.get(name, [])


def test_an_mlp_without_experts_is_refused() -> None:
    model = zoo_model("DeepSeek-V3")  # whose first MLP is one map
    found = attribute(model, BATCH | {"output_hidden_states": True}, Activation(2, POSITION, torch.ones(32)))
    with pytest.raises(ValueError, match="No router chooses the experts of MLP 0"):
        found.experts(0, POSITION)
    with pytest.raises(ValueError, match="several maps of hidden units"):
        found.neurons(1, POSITION)
    with pytest.raises(ValueError, match="There is no MLP 2: there are 2"):
        found.experts(2, POSITION)
    with pytest.raises(ValueError, match="There is no position 14: there are 14"):
        found.experts(1, 14)
