"""Small language models whose weights are the same with all versions of transformers."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

WORDS, WIDTH, HEADS, LAYERS = 61, 32, 4, 3
IDS = torch.tensor([[3, 17, 42, 5, 17, 42, 9, 28]])
TOKEN, OTHER = 5, 9  # whose logits are compared
CORRUPTED = torch.tensor([[3, 17, 33, 5, 17, 42, 50, 28]])
PAIRS = (  # clean and corrupted texts
    (IDS, CORRUPTED),
    (torch.tensor([[3, 30, 12, 44, 8, 30]]), torch.tensor([[3, 30, 51, 44, 8, 19]])),
    (torch.tensor([[3, 7, 25, 33, 7, 25, 33]]), torch.tensor([[3, 7, 25, 33, 58, 25, 33]])),
)
CIRCUIT = ("mlp", 0, 0), ("output", 1, 2), ("output", 0, 3), ("mlp", 2, 0), ("output", 2, 1)  # in this order
TEXTS = torch.tensor([[3, 8, 42, 11, 25]]), torch.tensor([[3, 17, 60, 4, 31, 54, 9, 28, 40, 12]])
SOURCE = 0, 1  # the layer and the head from which paths are patched
PROMPTS = 50  # of 5 to 10 tokens
PROMPT_SEED = 30  # with which the logits of no pair are about the same
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2_SIZES = {
    "vocab_size": WORDS,
    "n_embd": WIDTH,
    "n_inner": 2 * WIDTH,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEEDED: dict[str, Callable[[], Any]] = {
    "GPT-2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2_SIZES)),
    "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, num_key_value_heads=2, rms_norm_eps=1e-5)),
    "Pythia": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SIZES, rotary_pct=0.25)),
}


def seeded_model(name: str) -> Any:
    """Returns a model with drawn weights."""
    return drawn(SEEDED[name]())


def prompts(seed: int = PROMPT_SEED) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns pairs of a clean and a corrupted text that are drawn and have their first and last token in common."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for number in range(PROMPTS):
        clean = torch.randint(3, WORDS, (1, 5 + number % 6), generator=generator)
        corrupted = torch.randint(3, WORDS, clean.shape, generator=generator)
        corrupted[0, [0, -1]] = clean[0, [0, -1]]
        pairs.append((clean, corrupted))
    return pairs


def drawn(model: Any) -> Any:
    """Returns a model with weights that are drawn, large enough for its attention to matter; the scales of norms are
    drawn around 1."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            is_scale = weight.ndim == 1 and not parameter.endswith("bias")
            weight.copy_(1 + 0.2 * noise if is_scale else 0.25 * noise)
    return model.eval()
