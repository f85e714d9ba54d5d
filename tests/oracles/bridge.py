"""The seeded models with the hooks of TransformerLens, for `make oracles`."""

from typing import Any

import torch
from transformer_lens.model_bridge.sources._bridge_builder import (  # type: ignore[import-not-found]
    build_bridge_from_module,
)

from tests.support.seeded_models import IDS, seeded_model


def bridge(name: str) -> Any:
    """Returns a seeded model as TransformerLens runs it, whose logits are those of the model itself."""
    model = seeded_model(name)
    logits = model(IDS).logits
    hooked = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)
    torch.testing.assert_close(hooked(IDS), logits, atol=1e-5, rtol=1e-5)
    return hooked
