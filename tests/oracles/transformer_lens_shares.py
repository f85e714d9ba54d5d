"""Direct logit attribution by TransformerLens: `make oracles` runs this in an environment of its own.

It writes the shares at the last position into a file, which the tests of attributions read.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from tests.oracles.bridge import bridge
from tests.support.seeded_models import IDS, OTHER, SEEDED, TOKEN


@torch.no_grad()
def shares(name: str) -> dict[str, Any]:
    """Returns the shares of each head, MLP and embedding in the difference of two logits."""
    hooked = bridge(name)
    logits, cache = hooked.run_with_cache(IDS)
    direction = hooked.ln_final.weight * (hooked.W_U[:, TOKEN] - hooked.W_U[:, OTHER])
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
