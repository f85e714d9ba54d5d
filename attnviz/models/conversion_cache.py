"""Folders of converted models in the user's cache folder: written once, whole or not at all, and checked before use.

Their weights are mapped from the file, so that all processes on a computer share its memory.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnviz.bounded_json import CONFIG_BYTES, read_object
from attnviz.settings import cache_folder

MANIFEST = "manifest.json"  # the digests of the other files
UNFINISHED_SECONDS = 3_600  # after which a folder that was not finished is removed
UNUSED_SECONDS = 30 * 86_400  # after which a folder is removed, such as that of an older version


def converted_folder(key: str, write: Callable[[Path], None]) -> Path:
    """Returns the folder of the converted model with this key; `write` writes it if it is not there, or damaged.

    Processes that ask together convert once. Raises OSError if the folder cannot be written.
    """
    parent = cache_folder() / "models"
    folder = parent / key
    if _is_whole(folder):  # even where nothing can be written
        with suppress(OSError):
            os.utime(folder / MANIFEST)
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    with _lock(parent / f"{key}.lock"):
        if _is_whole(folder):  # written by another process meanwhile
            return folder
        _remove_old(parent, key)
        unfinished = parent / f".{key}-{secrets.token_hex(8)}"
        unfinished.mkdir()
        try:
            write(unfinished)
            digests = {file.name: _digest(file) for file in unfinished.iterdir()}
            (unfinished / MANIFEST).write_text(json.dumps(digests, indent=2), encoding="utf-8")
            if not _is_whole(folder):  # as it may be where there are no locks
                shutil.rmtree(folder, ignore_errors=True)
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _is_whole(folder: Path) -> bool:
    """Returns whether a folder has the files that its manifest names, with their digests, and no others."""
    try:
        digests = read_object(folder / MANIFEST, CONFIG_BYTES)
        return digests == {file.name: _digest(file) for file in folder.iterdir() if file.name != MANIFEST}
    except (OSError, ValueError):
        return False


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Waits until no other process has the lock; goes on without it where the file system has no locks."""
    with path.open("w") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_old(parent: Path, key: str) -> None:
    """Removes what conversions left that were ended from outside, and folders that were not used for long."""
    for folder in parent.glob(f".{key}-*"):
        _remove_after(UNFINISHED_SECONDS, folder, folder)
    for manifest in parent.glob(f"*/{MANIFEST}"):
        _remove_after(UNUSED_SECONDS, manifest, manifest.parent)


def _remove_after(seconds: int, file: Path, folder: Path) -> None:
    with suppress(FileNotFoundError):  # removed by another process meanwhile
        if time.time() - file.stat().st_mtime > seconds:
            shutil.rmtree(folder, ignore_errors=True)
