"""Optional support of transformers, if the program uses it."""

import sys
from types import ModuleType


def transformers_models() -> ModuleType | None:
    """Returns the module for transformers models, or None if none can exist: nothing has imported their base class."""
    if "transformers.modeling_utils" not in sys.modules:
        return None
    from attnviz.tracing import transformers_models

    return transformers_models
