"""Settings from environment variables, read on each call."""

import os

from attnviz.formatting import quoted

MB = 1 << 20


def upload_bytes() -> int:
    """Returns the largest size of an uploaded file in bytes: ATTNVIZ_UPLOAD_MB, 64 MB by default."""
    return _positive("ATTNVIZ_UPLOAD_MB", 64, "megabytes") * MB


def unpacked_bytes() -> int:
    """Returns the largest size of an uploaded file in memory in bytes: ATTNVIZ_UNPACKED_MB, 256 MB by default."""
    return _positive("ATTNVIZ_UNPACKED_MB", 256, "megabytes") * MB


def model_bytes() -> int:
    """Returns the memory for all models together in bytes: ATTNVIZ_MODEL_MB, 4,096 MB by default."""
    return _positive("ATTNVIZ_MODEL_MB", 4_096, "megabytes") * MB


def kept_models() -> int:
    """Returns the number of models that stay in memory: ATTNVIZ_MODELS_KEPT, 3 by default."""
    return _positive("ATTNVIZ_MODELS_KEPT", 3, "models")


def listed_models() -> tuple[str, ...] | None:
    """Returns the models that may be named: ATTNVIZ_MODELS, ids separated by commas; None, any model and any folder,
    by default and for *."""
    text = os.environ.get("ATTNVIZ_MODELS", "*").strip()
    return None if text == "*" else tuple(name.strip() for name in text.split(",") if name.strip())


def _positive(name: str, default: int, unit: str) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number of {unit}, 1 or more; it is {quoted(text)}.")
    return int(text)
