"""The files of models that are installed as wheels: found without importing anything, and checked by digest."""

import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path

from attnviz.language import _


@lru_cache  # every run of a page asks
def package_folder(package: str) -> Path | None:
    """Returns the folder of an installed package, or None."""
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def check_digest(file: Path, sha256: str, name: str) -> None:
    """Raises RuntimeError if a file of the model called `name` has another digest."""
    with file.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() != sha256:
            raise RuntimeError(
                _("The weights of {name} are not the published ones. Install the model again.", name=name)
            )
