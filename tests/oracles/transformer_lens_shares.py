"""Direct logit attribution by TransformerLens: `make oracles` runs this in an environment of its own.

It writes the shares at the last position into a file, which the tests of attributions read.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig  # type: ignore[import-not-found]
from transformer_lens.pretrained.weight_conversions import (  # type: ignore[import-not-found]
    convert_gpt2_weights,
    convert_llama_weights,
    convert_neox_weights,
)

from tests.support.seeded_models import HEADS, IDS, LAYERS, OTHER, SEEDED, TOKEN, WIDTH, WORDS, seeded_model

D_HEAD = WIDTH // HEADS
ROTARY = {"positional_embedding_type": "rotary"}
SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "GPT-2": (convert_gpt2_weights, {"normalization_type": "LN", "act_fn": "gelu_new"}),
    "Llama": (
        convert_llama_weights,
        ROTARY | {"normalization_type": "RMS", "act_fn": "silu", "gated_mlp": True, "final_rms": True}
        | {"rotary_dim": D_HEAD, "n_key_value_heads": 2},
    ),
    "Pythia": (
        convert_neox_weights,
        ROTARY | {"normalization_type": "LN", "act_fn": "gelu", "parallel_attn_mlp": True, "rotary_dim": D_HEAD // 4},
    ),
}  # fmt: skip


@torch.no_grad()
def shares(name: str) -> dict[str, Any]:
    """Returns the shares of each head, MLP and embedding in the difference of two logits."""
    model, (convert, shape) = seeded_model(name), SHAPES[name]
    config = HookedTransformerConfig(
        n_layers=LAYERS, d_model=WIDTH, n_heads=HEADS, d_head=D_HEAD, d_mlp=2 * WIDTH, n_ctx=64, d_vocab=WORDS,
        eps=1e-5, original_architecture=type(model).__name__, **shape,
    )  # fmt: skip
    hooked = HookedTransformer(config)
    hooked.load_state_dict(convert(model, config), strict=False)  # without its buffers
    logits, cache = hooked.eval().run_with_cache(IDS)
    torch.testing.assert_close(logits, model(IDS).logits, atol=1e-5, rtol=1e-5)
    direction = hooked.ln_final.w * (hooked.W_U[:, TOKEN] - hooked.W_U[:, OTHER])
    heads = cache.stack_head_results(layer=-1, pos_slice=-1)
    parts, labels = cache.decompose_resid(layer=-1, pos_slice=-1, return_labels=True)

    def projected(stack: torch.Tensor) -> list[float]:
        scaled = cache.apply_ln_to_stack(stack.clone(), layer=-1, pos_slice=-1)[:, 0]
        return [round(float(share), 6) for share in scaled @ direction]

    by_label = dict(zip(labels, projected(parts), strict=True))
    return {
        "total": round(float(logits[0, -1, TOKEN] - logits[0, -1, OTHER]), 6),
        "heads": projected(heads),
        "mlps": [share for label, share in by_label.items() if label.endswith("mlp_out")],
        "embeddings": [share for label, share in by_label.items() if label.endswith("embed")],
    }


if __name__ == "__main__":
    lines = (f'  "{name}": {json.dumps(shares(name))}' for name in SEEDED)
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
