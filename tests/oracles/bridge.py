"""Models with the hooks of TransformerLens, for `make oracles` and `make bench-effects`."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens.model_bridge.sources._bridge_builder import (  # type: ignore[import-not-found]
    build_bridge_from_module,
)

from tests.support.seeded_models import IDS, seeded_model


def bridge(name: str) -> Any:
    """Returns a seeded model as TransformerLens runs it."""
    return bridged(seeded_model(name), IDS)


@torch.no_grad()
def bridged(model: Any, ids: Tensor) -> Any:
    """Returns a model as TransformerLens runs it, which changes it. Its logits are checked to be the same."""
    logits = model(ids).logits
    hooked = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)
    torch.testing.assert_close(hooked(ids), logits, atol=1e-4, rtol=1e-4)
    return hooked
