"""The command attnviz: what it passes to Streamlit, and its sentences where it cannot start."""

import pytest

from attnviz import __version__
from attnviz.base import extras
from attnviz.base.install_command import install_line
from attnviz.ui.server.command import main, streamlit_options

LOOPBACK = [f"--server.allowedHosts={name}" for name in ("localhost", "127.0.0.1", "::1")]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("", []),
        ("--port 8600 --no-browser", ["--server.port=8600", "--server.headless=true"]),
        ("--host 127.0.0.1", ["--server.address=127.0.0.1"]),
        (
            "--host 0.0.0.0 --allowed-host a.example --allowed-host b.example",
            [
                "--server.address=0.0.0.0",
                "--browser.serverAddress=a.example",
                *(f"--server.allowedHosts={name}.example" for name in "ab"),
                *LOOPBACK,
            ],
        ),
        (
            "--host :: --server.allowedHosts a",
            ["--server.address=::", "--browser.serverAddress=::", "--server.allowedHosts", "a"],
        ),
        ("--server.baseUrlPath attn --port=1", ["--server.port=1", "--server.baseUrlPath", "attn"]),
        ("-- --theme.base dark", ["--theme.base", "dark"]),
    ],
)
def test_options_are_those_of_streamlit(arguments: str, options: list[str]) -> None:
    assert streamlit_options(arguments.split()) == options


def test_an_address_for_others_needs_the_names_at_which_they_open_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"At --host 0\.0\.0\.0 .* --allowed-host attn\.example\.org\."):
        main(["--host", "0.0.0.0"])
    monkeypatch.setenv("STREAMLIT_SERVER_ALLOWED_HOSTS", "attn.example.org")
    name = "--browser.serverAddress=attn.example.org"
    assert streamlit_options(["--host", "0.0.0.0"]) == ["--server.address=0.0.0.0", name]


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "8501.5"])
def test_a_port_is_a_number_that_can_be_one(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        streamlit_options([f"--port={port}"])
    assert f"a port is a whole number from 1 to 65535; it is '{port}'" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        streamlit_options(["--version"])
    assert capsys.readouterr().out == f"attnviz {__version__}\n"


def test_without_the_packages_of_the_app_it_says_what_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert str(ended.value) == (
        "attnviz does not start. The app needs streamlit and transformers, which are not installed. "
        f"Install with: {install_line('app')}"
    )
