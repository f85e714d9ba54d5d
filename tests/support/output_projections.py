"""Tiny models whose heads are changed by hand: a head is its slice of what the output projection of attention gets."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

from tests.support.architectures import BOTH, EXPERTS, GPT, GROUPED, SLIDING, SMALL, T5
from tests.support.seeded_models import drawn

HEADS = 4
CLEAN = torch.tensor([[5, 9, 11, 7, 30, 8, 12]])
CORRUPTED = torch.tensor([[5, 9, 21, 7, 30, 18, 12]])
TARGET = torch.tensor([[0, 4, 33, 6, 50]])  # what a decoder has written


@dataclass(frozen=True)
class TinyModel:
    model: str
    sizes: Mapping[str, Any]
    projections: str  # how the names of the attention's output projections end
    mlps: str
    reads: tuple[str, str, str] | None = None  # the same of those of queries, keys and values, if they are modules
    is_decoded: bool = False

    def make(self) -> Any:
        kind = getattr(hf, self.model)
        return kind(kind.config_class(**self.sizes))

    def batch(self, ids: Tensor = CLEAN) -> dict[str, Tensor]:
        return {"input_ids": ids} | ({"decoder_input_ids": TARGET} if self.is_decoded else {})


BLOOM = {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": HEADS}
PROJ = "q_proj", "k_proj", "v_proj"
BERT = r"self\.query", r"self\.key", r"self\.value"
T5_READS = r"Attention\.q", r"Attention\.k", r"Attention\.v"
TINY = {
    "GPT-2": TinyModel("GPT2LMHeadModel", GPT | {"eos_token_id": 2}, r"attn\.c_proj", "mlp"),
    "Llama": TinyModel("LlamaForCausalLM", GROUPED, "o_proj", "mlp", PROJ),
    "Pythia": TinyModel("GPTNeoXForCausalLM", SMALL, r"attention\.dense", "mlp"),
    "Gemma 2": TinyModel("Gemma2ForCausalLM", SLIDING | {"head_dim": 8}, "o_proj", "mlp", PROJ),
    "Mixtral": TinyModel("MixtralForCausalLM", GROUPED | EXPERTS, "o_proj", "mlp", PROJ),
    "BLOOM": TinyModel("BloomForCausalLM", BLOOM, r"self_attention\.dense", "dense_4h_to_h"),
    "BERT": TinyModel("BertForMaskedLM", SMALL, r"attention\.output\.dense", r"\d\.output\.dense", BERT),
    "T5": TinyModel("T5ForConditionalGeneration", T5, r"Attention\.o", "DenseReluDense", T5_READS, is_decoded=True),
    "BART": TinyModel(
        "BartForConditionalGeneration", BOTH | {"decoder_attention_heads": HEADS}, r"attn\.out_proj", "fc2", PROJ, True
    ),
}


@cache
def tiny(name: str) -> Any:
    """Returns a model that tests do not change."""
    return drawn(TINY[name].make())


def projections(name: str, model: Any = None) -> list[nn.Module]:
    """Returns the output projections of a model's attention, in the order in which they run."""
    return named(model or tiny(name), TINY[name].projections)


def readers(name: str, what: str) -> list[nn.Module]:
    """Returns the projections of queries, keys or values in the order of the layers."""
    reads = TINY[name].reads
    assert reads is not None
    return named(tiny(name), reads[("query", "key", "value").index(what)])


def mlps(name: str) -> list[nn.Module]:
    return named(tiny(name), TINY[name].mlps)


def named(model: nn.Module, ending: str) -> list[nn.Module]:
    return [module for path, module in model.named_modules() if re.search(rf"(^|\.|[a-zA-Z_]){ending}$", path)]


def without_head(name: str, layer: int, head: int) -> Any:
    """Returns a copy of a model whose output projection has no weights for a head."""
    model = copy.deepcopy(tiny(name))
    projection = projections(name, model)[layer]
    weight = projection.get_parameter("weight").data
    by_head(weight if isinstance(projection, nn.Linear) else weight.T)[:, head] = 0
    return model


@contextmanager
def changed_input(module: nn.Module, change: Callable[[Tensor], None]) -> Iterator[None]:
    """Changes the first argument of a module in place."""

    def changed(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states = args[0].clone()
        change(states)
        return states, *args[1:]

    hook = module.register_forward_pre_hook(changed)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def changed_output(module: nn.Module, change: Callable[[Tensor], object]) -> Iterator[None]:
    """Changes what a module returns in place."""

    def changed(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        output = output.clone()
        change(output)
        return output

    hook = module.register_forward_hook(changed)
    try:
        yield
    finally:
        hook.remove()


def by_head(states: Tensor) -> Tensor:
    """Returns a view of numbers as (…, heads, width)."""
    return states.unflatten(-1, (HEADS, -1))


@contextmanager
def set_head(projection: nn.Module, head: int, value: Tensor | float) -> Iterator[None]:
    """Sets what a head writes, before the projection, to numbers (…, width)."""

    def change(states: Tensor) -> None:
        by_head(states)[..., head, :] = value

    with changed_input(projection, change):
        yield


@torch.no_grad()
def calls(name: str, batch: dict[str, Tensor], modules: list[nn.Module]) -> list[tuple[Tensor, Tensor]]:
    """Returns what each of these modules gets, and what it returns."""
    found: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    hooks = [
        module.register_forward_hook(lambda module, args, output: found.update({module: (args[0], output)}))
        for module in modules
    ]
    tiny(name)(**batch)
    for hook in hooks:
        hook.remove()
    return [found[module] for module in modules]


def outputs(name: str, batch: dict[str, Tensor]) -> list[Tensor]:
    """Returns what the heads of each layer write, before the projection: (1, positions, heads, width)."""
    return [by_head(states) for states, _written in calls(name, batch, projections(name))]
