"""Optional support of transformers, if the program uses it."""

import sys
from types import ModuleType

from torch import nn


def transformers_models() -> ModuleType | None:
    """Returns the module for transformers models, or None if none can exist: nothing has imported their base class."""
    if "transformers.modeling_utils" not in sys.modules:
        return None
    from attnviz.tracing import transformers_models

    return transformers_models


def is_encoder_decoder(model: nn.Module) -> bool:
    """Returns whether a model has an encoder and a decoder."""
    transformers = transformers_models()
    parts = transformers.models_in(model) if transformers else ()
    is_of_torch = any(isinstance(module, nn.Transformer) for module in model.modules())
    return is_of_torch or any(getattr(part.config, "is_encoder_decoder", False) for part in parts)
