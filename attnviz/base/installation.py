"""What is installed of attnviz and of the packages that it uses, and whether the app can start with it.

Everything is read from metadata and files: no package is imported, so that a damaged one is reported, too.
"""

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from attnviz.base.app_files import PACKAGE_PARENT

LIBRARY = ""  # in place of the name of an extra
# What needs the packages of each extra.
EXTRAS = {
    LIBRARY: "attnviz",
    "models": "every trained model: Explore, Write, Why, Effects, attnviz capture",
    "app": "the app",
    "notebook": "a viewer in a notebook that Python reads and changes",
    "pdf": "a picture as a PDF file",
    "redis": "a store of classes in Redis",
    "ray": "maps and captures on a Ray cluster",
}
APP = (LIBRARY, "models", "app")  # without which the app does not start


@dataclass(frozen=True)
class Package:
    """A package that attnviz uses: the versions that it supports, and the one that is installed, if any."""

    name: str
    supported: SpecifierSet
    version: str | None
    build: str = ""  # of torch

    @property
    def is_supported(self) -> bool:
        return self.version is not None and self.supported.contains(self.version, prereleases=True)


def extra_packages() -> dict[str, list[Package]]:
    """Returns the packages of each extra, and those of the library under LIBRARY."""
    packages: dict[str, list[Package]] = {extra: [] for extra in EXTRAS}
    names = {"attnviz"}
    for extra, requirement in sorted(_requirements(), key=lambda entry: [*EXTRAS, entry[0]].index(entry[0])):
        if extra in packages and requirement.name not in names:  # a wheel's metadata repeats those that others need
            packages[extra].append(_package(requirement))
            names.add(requirement.name)
    return packages


def supported_python() -> SpecifierSet:
    """Returns the versions of Python that attnviz supports."""
    try:
        return SpecifierSet(metadata("attnviz")["Requires-Python"])
    except PackageNotFoundError:
        return SpecifierSet(_project()["requires-python"])


def _requirements() -> Iterator[tuple[str, Requirement]]:
    """Yields the requirements of attnviz, each with its extra: from its metadata, or those of the checkout."""
    try:
        for requirement in map(Requirement, distribution("attnviz").requires or ()):
            for extra in EXTRAS:
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    yield extra, requirement
                    break
    except PackageNotFoundError:
        project = _project()
        for extra, texts in ((LIBRARY, project["dependencies"]), *project["optional-dependencies"].items()):
            yield from ((extra, Requirement(text)) for text in texts)


def _project() -> dict[str, Any]:
    return tomllib.loads((PACKAGE_PARENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _package(requirement: Requirement) -> Package:
    try:
        installed = distribution(requirement.name)
    except PackageNotFoundError:
        return Package(requirement.name, requirement.specifier, None)
    build = _torch_build(installed) if requirement.name == "torch" else ""
    return Package(requirement.name, requirement.specifier, installed.version, build)


def _torch_build(torch: Distribution) -> str:
    """Returns what torch was built for, out of the file in which it says so."""
    try:
        text = Path(str(torch.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    except OSError:
        return "damaged: it has no torch/version.py"
    platform = re.search(r"(?m)^(cuda|hip|xpu)\b[^=\n]*= *'([^']+)'", text)
    return f"built for {platform[1].upper()} {platform[2]}" if platform else "built without CUDA"


def memory_bytes() -> int:
    """Returns the memory of this computer in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
