"""Tiny models whose heads are changed by hand: a head is its slice of what the output projection of attention gets."""

import copy
import re
from collections.abc import Callable, Iterator
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
    make: Callable[[], Any]
    projections: str  # how the names of the attention's output projections end
    mlps: str
    reads: tuple[str, str, str] | None = None  # the same of those of queries, keys and values, if they are modules
    is_decoded: bool = False

    def batch(self, ids: Tensor = CLEAN) -> dict[str, Tensor]:
        return {"input_ids": ids} | ({"decoder_input_ids": TARGET} if self.is_decoded else {})


PROJ = "q_proj", "k_proj", "v_proj"
TINY = {
    "GPT-2": TinyModel(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)), r"attn\.c_proj", "mlp"),
    "Llama": TinyModel(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)), "o_proj", "mlp", PROJ),
    "Pythia": TinyModel(lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SMALL)), r"attention\.dense", "mlp"),
    "Gemma 2": TinyModel(lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**SLIDING, head_dim=8)), "o_proj", "mlp", PROJ),
    "Mixtral": TinyModel(lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**GROUPED, **EXPERTS)), "o_proj", "mlp", PROJ),
    "BLOOM": TinyModel(
        lambda: hf.BloomForCausalLM(hf.BloomConfig(vocab_size=97, hidden_size=32, n_layer=2, n_head=HEADS)),
        r"self_attention\.dense", "dense_4h_to_h",
    ),
    "BERT": TinyModel(
        lambda: hf.BertForMaskedLM(hf.BertConfig(**SMALL)),
        r"attention\.output\.dense", r"\d\.output\.dense", (r"self\.query", r"self\.key", r"self\.value"),
    ),
    "T5": TinyModel(
        lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)),
        r"Attention\.o", "DenseReluDense", (r"Attention\.q", r"Attention\.k", r"Attention\.v"), is_decoded=True,
    ),
    "BART": TinyModel(
        lambda: hf.BartForConditionalGeneration(hf.BartConfig(**BOTH | {"decoder_attention_heads": HEADS})),
        r"attn\.out_proj", "fc2", PROJ, is_decoded=True,
    ),
}  # fmt: skip


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
    weight = projection.weight.data if isinstance(projection, nn.Linear) else projection.weight.data.T
    weight.unflatten(1, (HEADS, -1))[:, head] = 0
    return model


@contextmanager
def set_head(projection: nn.Module, head: int, value: Tensor | float) -> Iterator[None]:
    """Sets what a head writes, before the projection, to numbers (…, width)."""

    def change(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        heads = args[0].unflatten(-1, (HEADS, -1)).clone()
        heads[..., head, :] = value
        return (heads.flatten(-2),)

    hook = projection.register_forward_pre_hook(change)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def changed_output(module: nn.Module, change: Callable[[Tensor], None]) -> Iterator[None]:
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


@torch.no_grad()
def kept(name: str, batch: dict[str, Tensor], modules: list[nn.Module]) -> list[Tensor]:
    """Returns what each of these modules returns."""
    outputs: dict[nn.Module, Tensor] = {}
    hooks = [module.register_forward_hook(lambda *call: outputs.update({call[0]: call[-1]})) for module in modules]
    tiny(name)(**batch)
    for hook in hooks:
        hook.remove()
    return [outputs[module] for module in modules]


@torch.no_grad()
def outputs(name: str, batch: dict[str, Tensor]) -> list[Tensor]:
    """Returns what the heads of each layer write, before the projection: (1, positions, heads, width)."""
    written: list[Tensor] = []
    hooks = [
        projection.register_forward_pre_hook(lambda module, args: written.append(args[0].unflatten(-1, (HEADS, -1))))
        for projection in projections(name)
    ]
    tiny(name)(**batch)
    for hook in hooks:
        hook.remove()
    return written
