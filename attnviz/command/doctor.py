"""attnviz doctor: what is installed, what is missing and the command that installs it, as text for a bug report."""

import os
import platform
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path

from attnviz import __version__
from attnviz.base.formatting import byte_size, enumeration
from attnviz.base.install_command import environment, install_line, shell_path
from attnviz.base.installation import APP, EXTRAS, Package, cores, extra_packages, memory_bytes, supported_python
from attnviz.base.settings import cache_folder, check_values
from attnviz.command.models import model_table

PORT = 8501  # the first that Streamlit tries


def main(arguments: Sequence[str]) -> None:
    """Prints the report; the exit status is 0 if the app can start, else 1."""
    ArgumentParser(
        "attnviz doctor",
        description="Prints what is installed, what is missing and the command that installs it. The text can be "
        "pasted in a bug report: it has no name of a user or a computer. The exit status is 0 if the app can start, "
        "else 1.",
    ).parse_args(arguments)
    try:
        obstacles = list(app_obstacles())
        lines = list(report())
    except ValueError as problem:  # of a setting on which the commands depend
        sys.exit(f"attnviz doctor: {problem}")
    print(*lines, "", *obstacles or ("The app can start.",), sep="\n")
    sys.exit(1 if obstacles else 0)


def app_obstacles() -> Iterator[str]:
    """Yields a sentence for each reason why the app cannot start."""
    if not supported_python().contains(platform.python_version(), prereleases=True):
        yield f"The app cannot start: Python {platform.python_version()} is not {supported_python()}."
    packages = extra_packages()
    if missing := [package.name for extra in APP for package in packages[extra] if package.version is None]:
        yield f"The app cannot start without {enumeration(missing)}. Install with: {install_line('app')}"
    try:
        check_values()
    except ValueError as error:
        yield f"The app cannot start. {error}"


def report() -> Iterator[str]:
    """Yields the lines of the report, without names of a user or a computer."""
    yield f"attnviz {__version__}, in an environment of {environment()}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}), {_system()}"
    yield f"{cores()} cores, {byte_size(memory_bytes())} of memory"
    packages = extra_packages()
    yield "\nPackages"
    for package in [package for several in packages.values() for package in several if package.version]:
        yield f"  {package.name} {package.version}{_remark(package)}"
    yield from _missing(packages)
    yield "\nModels"
    yield from (f"  {line}" for line in model_table().splitlines())
    yield f"\nCache folder {_shown(cache_folder())}: {byte_size(_size(cache_folder()))}, {_access(cache_folder())}"
    yield f"Port {PORT} is {'free' if _is_free(PORT) else 'in use; the app opens at the next one that is free'}."
    if names := sorted(name for name in os.environ if name.startswith(("ATTNVIZ_", "STREAMLIT_"))):
        yield f"Settings: {', '.join(names)}"


def _missing(packages: dict[str, list[Package]]) -> Iterator[str]:
    """Yields what is missing, for each extra what it costs, and the command that installs it."""
    for extra, purpose in EXTRAS.items():
        if missing := [package.name for package in packages[extra] if package.version is None]:
            yield f"\nMissing: {', '.join(missing)}, needed for {purpose}"
            yield f"  {install_line(extra or 'app')}"


def _remark(package: Package) -> str:
    build = f", {package.build}" if package.build else ""
    return build if package.is_supported else f"{build}: not supported, attnviz needs {package.supported}"


def _system() -> str:
    system = f"macOS {platform.mac_ver()[0]}" if sys.platform == "darwin" else platform.system()
    return f"{system} {platform.machine()} {' '.join(platform.libc_ver())}".strip()


def _shown(folder: Path) -> str:
    return shell_path(folder).replace("$HOME", "~")


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def _access(folder: Path) -> str:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return "can be written" if existing.is_dir() and os.access(existing, os.W_OK) else "cannot be written"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
