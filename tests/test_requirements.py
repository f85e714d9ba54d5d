"""Every package has one version and its hashes, and what `make lock` wrote agrees with what it was written from."""

import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

FOLDER = Path(__file__).parents[1] / "requirements"
INPUTS = ("app", "cuda", "dev", "lock")
OTHERS = ("bench", "cpu", "models", "optional-models", "vision")
INSTALLED = ("app", "dev")  # where the tests run


def lines(file: str) -> list[str]:
    """The requirements in a file, each with its hashes, without comments and options for the whole file."""
    text = (FOLDER / file).read_text().replace("\\\n", " ")
    return [line for line in re.sub(r"(?m)^\s*#.*$", "", text).splitlines() if line.strip() and line[0] != "-"]


def requirements(file: str) -> dict[str, Requirement]:
    found = [Requirement(re.split(r"\s--hash", line)[0].strip()) for line in lines(file)]
    return {canonicalize_name(one.name): one for one in found}


def version(requirement: Requirement) -> Version:
    [specifier] = requirement.specifier
    assert specifier.operator == "=="
    return Version(Version(specifier.version).public)


def dependencies(name: str) -> set[str]:
    """What an installed package needs here."""
    needed = map(Requirement, distribution(name).requires or ())
    return {canonicalize_name(one.name) for one in needed if not one.marker or one.marker.evaluate({"extra": ""})}


FILES = sorted(path.name for path in FOLDER.glob("*.txt"))
PINS = {file: requirements(file) for file in FILES}


def test_each_file_is_listed_here() -> None:
    whole = (FOLDER.parent / "requirements.txt").read_text()
    assert re.findall("(?m)^[^#].*$", whole) == ["-r requirements/app.txt", "-r requirements/cuda.txt"]
    assert sorted(f"{name}.txt" for name in (*INPUTS, *OTHERS)) == FILES
    assert sorted(path.stem for path in FOLDER.glob("*.in")) == sorted(INPUTS)


@pytest.mark.parametrize("file", FILES)
def test_every_line_has_one_version_and_hashes(file: str) -> None:
    for line in lines(file):
        assert re.fullmatch(r"[\w.-]+==[^\s;*]+( ;.*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line
    assert "://" not in (FOLDER / file).read_text()


@pytest.mark.parametrize("name", INPUTS)
def test_what_is_written_agrees_with_its_input(name: str) -> None:
    written = PINS[f"{name}.txt"]
    for package, wanted in requirements(f"{name}.in").items():
        assert written[package].specifier, package
        assert wanted.specifier.contains(version(written[package])), package
    comments = re.findall(
        r"(?m)^([\w.-]+)==(?:.*\n)(?:    --hash.*\n)*((?:    #.*\n?)+)", (FOLDER / f"{name}.txt").read_text()
    )
    direct = {canonicalize_name(package) for package, why in comments if f"-r requirements/{name}.in" in why}
    assert direct == requirements(f"{name}.in").keys()


def test_a_package_has_one_version_in_all_files() -> None:
    versions: dict[str, set[Version]] = {}
    for pins in PINS.values():
        for package, pin in pins.items():
            versions.setdefault(package, set()).add(version(pin))
    assert {package: found for package, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", INSTALLED)
def test_what_is_installed_is_what_is_pinned_with_all_that_it_needs(name: str) -> None:
    pins = PINS[f"{name}.txt"]
    for package, pin in pins.items():
        if pin.marker and not pin.marker.evaluate():
            continue
        assert Version(Version(distribution(package).version).public) == version(pin), package
        assert dependencies(package) <= pins.keys() | PINS["app.txt"].keys() | PINS["cuda.txt"].keys()
