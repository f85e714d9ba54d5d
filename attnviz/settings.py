"""Settings from the environment. Each is read when it is asked for, so that a change counts from then on."""

import os

from attnviz.formatting import quoted

MB = 1 << 20


def upload_bytes() -> int:
    """Returns how many bytes an uploaded file may have: ATTNVIZ_UPLOAD_MB, 64 MB unless set."""
    return _positive("ATTNVIZ_UPLOAD_MB", 64, "megabytes") * MB


def unpacked_bytes() -> int:
    """Returns how many bytes an uploaded file may become in memory: ATTNVIZ_UNPACKED_MB, 256 MB unless set."""
    return _positive("ATTNVIZ_UNPACKED_MB", 256, "megabytes") * MB


def model_bytes() -> int:
    """Returns how much memory models may take together: ATTNVIZ_MODEL_MB, 4,096 MB unless set."""
    return _positive("ATTNVIZ_MODEL_MB", 4_096, "megabytes") * MB


def kept_models() -> int:
    """Returns how many models stay in memory: ATTNVIZ_MODELS_KEPT, 3 unless set."""
    return _positive("ATTNVIZ_MODELS_KEPT", 3, "models")


def listed_models() -> tuple[str, ...] | None:
    """Returns the models that a hosted instance shows: ATTNVIZ_MODELS, ids with commas between them; None if unset."""
    text = os.environ.get("ATTNVIZ_MODELS")
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _positive(name: str, default: int, unit: str) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number of {unit}, 1 or more; it is {quoted(text)}.")
    return int(text)
