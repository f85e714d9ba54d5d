"""Folders of converted models in the user's cache folder: written once, whole or not at all, and checked before use.

Their weights are mapped from the file, so that all processes on a computer share its memory. Somebody else may be able
to write in the cache folder: only folders and regular files of this user, or of root, are opened, and no links are
followed.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from attnviz.base.bounded_json import CONFIG_BYTES
from attnviz.base.formatting import quoted
from attnviz.base.language import _, value_error
from attnviz.base.settings import cache_folder

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
            os.utime(folder / MANIFEST, follow_symlinks=False)
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
                _remove(folder)
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def unwritable_cache(name: str, error: OSError) -> ValueError:
    """Returns the error for a model that cannot be converted, because `converted_folder` has failed."""
    return value_error(
        "{name} cannot be converted, because the cache folder cannot be written. The reason given is: "
        "{reason}. Free some space, or set ATTNVIZ_CACHE to a folder that can be written.",
        name=quoted(name),
        reason=quoted(str(error)),
    )


def _is_whole(folder: Path) -> bool:
    """Returns whether a folder has the files that its manifest names, with their digests, and no others."""
    try:
        _check_own(folder, stat.S_ISDIR)
        with _opened(folder / MANIFEST) as manifest:
            digests = json.loads(manifest.read(CONFIG_BYTES))
        return digests == {file.name: _digest(file) for file in folder.iterdir() if file.name != MANIFEST}
    except (OSError, ValueError, RecursionError):
        return False


def _digest(file: Path) -> str:
    with _opened(file) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextmanager
def _opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[BufferedReader]:
    """Opens a regular file. Raises OSError for anything else: a device has no end, and a pipe waits for somebody."""
    with suppress(FileNotFoundError):
        _check_own(path, stat.S_ISREG)
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with open(number, "rb") as file:
        _check_own(path, stat.S_ISREG, number)  # again, of what was opened
        yield file


def _check_own(path: Path, is_kind: Callable[[int], bool], number: int | None = None) -> None:
    """Raises OSError if a file, or the open file with this number, is of another kind or belongs to somebody else."""
    status = os.lstat(path) if number is None else os.fstat(number)
    if not is_kind(status.st_mode):
        raise OSError(errno.EINVAL, _("It is a link, or of another kind than attnviz has written"), str(path))
    if status.st_uid not in (os.geteuid(), 0):
        raise OSError(errno.EPERM, _("It belongs to somebody else"), str(path))


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Waits until no other process has the lock; goes on without it where the file system has no locks."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove(path: Path) -> None:
    """Removes what is in the place of a folder: a damaged one, a file, or a link, but not what it leads to. Raises
    OSError if it cannot be removed, or belongs to somebody else."""
    with suppress(FileNotFoundError):
        _check_own(path, lambda _mode: True)
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()


def _remove_old(parent: Path, key: str) -> None:
    """Removes what conversions left that were ended from outside, and folders that were not used for long."""
    for folder in parent.glob(f".{key}-*"):
        _remove_after(UNFINISHED_SECONDS, folder, folder)
    for manifest in parent.glob(f"*/{MANIFEST}"):
        _remove_after(UNUSED_SECONDS, manifest, manifest.parent)


def _remove_after(seconds: int, file: Path, folder: Path) -> None:
    with suppress(FileNotFoundError):  # removed by another process meanwhile
        if time.time() - file.lstat().st_mtime > seconds:
            shutil.rmtree(folder, ignore_errors=True)
