"""The commands for each kind of environment: they are pasted in a shell, and have no name of a user."""

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from attnviz.base import install_command
from attnviz.base.install_command import Environment, environment, install_line, shell_path, start_line


class Installed:
    """The metadata of attnviz installed from an address."""

    def __init__(self, url: str, **information: object) -> None:
        self.record = json.dumps({"url": url} | information) if url else None

    def read_text(self, name: str) -> str | None:
        return self.record


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of Ada, below the current folder, where no program of the environment is on the path."""
    folder = tmp_path / "ada"
    (folder / "attnviz").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "home", lambda: folder)
    monkeypatch.setenv("PATH", "/nowhere")
    return folder


def installed(monkeypatch: pytest.MonkeyPatch, prefix: Path, url: str = "", **information: object) -> None:
    """Lets attnviz be installed in a folder, from an address or, by default, from an index."""
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "executable", str(prefix / "bin" / "python"))
    monkeypatch.setattr(install_command, "distribution", lambda name: Installed(url, **information))


@pytest.mark.parametrize(
    ("prefix", "file", "kind", "install", "start"),
    [
        (
            "env",
            "bin/pip",
            Environment.PIP,
            '"$HOME/env/bin/python" -m pip install "attnviz[ray]"',
            '"$HOME/env/bin/python" -m attnviz',
        ),
        (
            ".cache/uv/archive-v0/X",
            "pyvenv.cfg",
            Environment.UVX,
            'uvx --from "attnviz[all,ray]" attnviz',
            'uvx --from "attnviz[all]" attnviz',
        ),
        (
            ".cache/pipx/5cc",
            "pipx_metadata.json",
            Environment.PIPX_RUN,
            'pipx run --spec "attnviz[all,ray]" attnviz',
            'pipx run --spec "attnviz[all]" attnviz',
        ),
        (
            "pipx/venvs/attnviz",
            "pipx_metadata.json",
            Environment.PIPX,
            'pipx install --force "attnviz[all,ray]"',
            '"$HOME/pipx/venvs/attnviz/bin/python" -m attnviz',
        ),
        (
            "uv/tools/attnviz",
            "uv-receipt.toml",
            Environment.UV_TOOL,
            'uv tool install --force "attnviz[all,ray]"',
            '"$HOME/uv/tools/attnviz/bin/python" -m attnviz',
        ),
    ],
)
def test_each_kind_of_environment_has_its_commands(
    prefix: str, file: str, kind: str, install: str, start: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / prefix / file).parent.mkdir(parents=True)
    (home / prefix / file).touch()
    installed(monkeypatch, home / prefix)
    assert (environment(), install_line("ray"), start_line()) == (kind, install, start)


def test_an_environment_without_pip_is_installed_into_by_uv(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, home / "env")
    monkeypatch.setattr(install_command, "find_spec", lambda name: None)
    assert install_line("app") == 'uv pip install --python "$HOME/env/bin/python" "attnviz[app]"'


def test_programs_on_the_path_are_called_by_their_names(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "env" / "bin"
    folder.mkdir(parents=True)
    for name in ("pip", "attnviz"):
        (folder / name).touch(0o755)
    monkeypatch.setenv("PATH", str(folder))
    installed(monkeypatch, home / "env")
    assert (install_line("app"), start_line()) == ('pip install "attnviz[app]"', "attnviz")
    installed(monkeypatch, home / "other")
    assert (install_line("app"), start_line()) == (
        '"$HOME/other/bin/python" -m pip install "attnviz[app]"',
        '"$HOME/other/bin/python" -m attnviz',
    )


def test_the_source_is_where_attnviz_was_installed_from(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix, url = home / "archive-v0" / "X", (home / "attnviz").as_uri()
    for source, information, expected in (
        (url, {"dir_info": {}}, '"$HOME/attnviz[all]"'),
        (url, {"dir_info": {"editable": True}}, '-e "$HOME/attnviz[all]"'),
        ((home / "removed").as_uri(), {}, '"attnviz[all]"'),
        ("https://example.org/attnviz", {"vcs_info": {}}, '"attnviz[all]"'),
    ):
        installed(monkeypatch, prefix, source, **information)
        assert start_line() == f"uvx --from {expected} attnviz"


def test_a_checkout_that_is_not_installed_is_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Installed:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(install_command, "distribution", missing)
    monkeypatch.chdir(install_command.PACKAGE_PARENT)
    assert install_line("app").endswith('install ".[app]"')


def test_paths_do_not_name_the_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell_path(home / "a b" / "c") == "$HOME/a b/c"
    assert shell_path(Path("/data/ada/adapter")) == "/data/$USER/adapter"
    monkeypatch.chdir(home)
    assert (shell_path(home), shell_path(home / "dist" / "x.whl")) == (".", "./dist/x.whl")


def test_visitors_of_a_hosted_app_read_no_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, home / "env", (home / "attnviz").as_uri())
    monkeypatch.setenv("ATTNVIZ_HOSTED", "1")
    assert (install_line("ray"), start_line()) == ('pip install "attnviz[ray]"', "attnviz")
