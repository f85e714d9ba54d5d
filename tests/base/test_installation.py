"""The wheel and the source distribution, built here and installed where nothing of the checkout is seen.

An environment has the packages that attnviz's metadata asks for, and no others: they are links to the installed ones.
"""

import re
import socket
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attnviz import __version__
from attnviz.models.wheel import WHEELS
from docs.tools.release import distribution_problems
from tests.support.installation import LIBRARY, ROOT, USES, answer, build, environment, executed, run, serving, wheel

PAGES = """
import os
from streamlit.testing.v1 import AppTest
from attnviz.base.app_files import PACKAGE, PAGES

def opened(page, **link):
    router = PACKAGE / "ui" / "router.py"
    app = AppTest.from_file(str(router), default_timeout=60)
    app.switch_page(os.path.relpath(PAGES / f"{page}.py", router.parent))
    app.query_params |= link
    app.run()
    assert not app.exception and not app.error, (page, app.exception, app.error)
    return app

assert opened("explore").get("bidi_component")
assert "toy vectors" in opened("explore").info[0].value
assert opened("lookup", lesson="01-dictionary").toggle(key="reveal-01-dictionary-1")
assert any("A dictionary</a>" in one.body for one in opened("lessons").get("html"))
assert opened("transformer").get("bidi_component")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("built")
    build(folder)
    return folder


def needed(requirements: list[str], extra: str = "") -> dict[str, set[str]]:
    """Returns the installed packages that requirements need, directly or not, each with the extras asked for."""
    found: dict[str, set[str]] = {}
    waiting = [(Requirement(text), extra) for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        new = {"", *requirement.extras} - found.setdefault(name, set())
        found[name] |= new
        waiting += [(Requirement(text), more) for more in new for text in distribution(name).requires or ()]
    return found


def install(built: Path, folder: Path, extra: str) -> Path:
    """Makes an environment with the wheel and what it needs; returns the folder of its programs."""
    metadata = zipfile.Path(wheel(built)) / f"attnviz-{__version__}.dist-info" / "METADATA"
    requirements = message_from_bytes(metadata.read_bytes()).get_all("Requires-Dist") or []
    venv.create(folder / "environment", symlinks=True)
    programs = folder / "environment" / "bin"
    run(
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        programs / "python",
        wheel(built),
        cwd=folder,
    )
    links = folder / "needed" / "site-packages"  # Streamlit looks for this name
    links.mkdir(parents=True)
    for name in needed(requirements, extra):
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (links / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    [packages] = (folder / "environment").glob("lib/*/site-packages")
    (packages / "needed.pth").write_text(f"{links}\n")
    return programs


def test_the_wheel_has_the_package_and_the_files_of_the_app_alone(built: Path) -> None:
    names = zipfile.ZipFile(wheel(built)).namelist()
    [information] = {name.split("/")[0] for name in names} - {"attnviz"}
    assert information == f"attnviz-{__version__}.dist-info"
    package = {name.removeprefix("attnviz/") for name in names if name.startswith("attnviz/")}
    app = {name.removeprefix("app/") for name in package if name.startswith("app/")}
    assert package - {f"app/{name}" for name in app} == files(ROOT / "attnviz")
    expected = {f"{folder}/{name}" for folder in ("pages", "assets") for name in files(ROOT / folder)}
    expected -= {f"assets/{folder}/make.py" for folder in ("atlases", "samples", "start")}
    expected -= {name for name in expected if name.endswith(".png")}  # pictures of README
    assert app == expected | {"app.py", ".streamlit/config.toml"}


def files(folder: Path) -> set[str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in paths}


def test_the_distributions_can_be_published(built: Path) -> None:
    assert [*distribution_problems(built, ROOT)] == []


def test_the_version_is_said_once() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"(?m)^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text())[0] == __version__


@pytest.mark.parametrize("extra", USES)
def test_the_library_works_with_what_an_extra_brings(extra: str, built: Path, tmp_path: Path) -> None:
    programs = install(built, tmp_path, extra)
    imported = [file for file in executed(programs, LIBRARY + USES[extra], tmp_path) if "attnviz" in file.parts]
    assert imported
    assert not [file for file in imported if not file.is_relative_to(tmp_path)]
    assert (tmp_path / "picture.html").stat().st_size > 1_000_000


def test_the_command_without_the_app_says_its_version_and_what_it_needs(built: Path, tmp_path: Path) -> None:
    programs = install(built, tmp_path, "")
    variables = environment(tmp_path)
    for command in ([programs / "attnviz"], [programs / "python", "-m", "attnviz"]):
        said = subprocess.run([*command, "--version"], cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert said.stdout == f"attnviz {__version__}\n"
        refused = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert refused.returncode == 1
        # An environment without pip, from a wheel.
        line = f'uv pip install --python ./environment/bin/python "{wheel(built)}[app]"'
        assert refused.stderr.endswith(f"Install with: {line}\n")


def test_without_any_extra_it_says_what_is_missing_and_which_models(built: Path, tmp_path: Path) -> None:
    programs = install(built, tmp_path, "")

    def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = environment(tmp_path, UV=str(Path(sys.executable).with_name("uv")), UV_OFFLINE="1")
        command = [programs / "attnviz", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)

    report = run_command("doctor")
    assert report.returncode == 1, report.stderr
    assert f"attnviz {__version__}, in an environment of uv\n" in report.stdout
    assert re.search(r"\nThe app cannot start without .*\bstreamlit\b.*\[app\]\"\n$", report.stdout)
    assert tmp_path.name not in report.stdout.replace(str(wheel(built)), "")
    listed = run_command("models")
    assert listed.stdout.count("  missing  ") == sum(not wheel.is_optional for wheel in WHEELS)
    command = "./environment/bin/python -m attnviz models install"
    assert f"\nInstall what is missing with: {command}\n" in listed.stdout
    assert listed.stdout.endswith(f"\nInstall DINOv2-small, which is optional, with: {command} DINOv2-small\n")
    refused = run_command("models", "install")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "attnviz models: The package index cannot be reached." in refused.stderr


def test_the_app_runs_from_any_folder_with_its_own_settings(built: Path, tmp_path: Path) -> None:
    programs = install(built, tmp_path, "app")
    imported = executed(programs, PAGES, tmp_path)
    assert not [file for file in imported if file.is_relative_to(ROOT) and ".venv" not in file.parts]
    folder = tmp_path / "elsewhere"
    (folder / ".streamlit").mkdir(parents=True)
    (folder / ".streamlit" / "config.toml").write_text('[server]\naddress = "0.0.0.0"\nallowedHosts = ["*"]\n')
    with serving(programs, folder, tmp_path / "log") as port:
        for path in ("", "masks?mask-a=causal", "lookup?lesson=01-dictionary"):
            page = answer(port, f"/attn/{path}")
            assert (page.status, page.headers["x-content-type-options"]) == (200, "nosniff"), path
        scripts = re.findall(r'(?:src|href)="(/attn/vendor/[^"]+\.js)"', page.read().decode())
        assert len(scripts) > 2
        assert {answer(port, script).status for script in scripts} == {200}
        assert answer(port, "/attn/nothing").status == 404
        assert answer(port, "/attn/", host="evil.example").status == 403
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=5)
    assert "Without all-MiniLM-L6-v2 and" in (tmp_path / "log").read_text()
    report = subprocess.run([programs / "attnviz", "doctor"], env=environment(tmp_path), capture_output=True, text=True)
    assert report.returncode == 0, report.stdout
