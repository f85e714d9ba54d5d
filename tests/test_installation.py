"""The wheel and the source distribution, built here and installed where nothing of the checkout is seen.

An environment has the packages that attnviz's metadata asks for, and no others: they are links to the installed ones.
"""

import http.client
import os
import re
import socket
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attnviz import __version__

ROOT = Path(__file__).parents[1]
LIBRARY = """
import attnviz
from attnviz.figures import mosaic
from attnviz.sources import Toy
from attnviz.translator import load
[layer] = Toy("a b c").layers()
mosaic(layer.mechanism(layer.inputs))
load().translate("the small cat sleeps .").layers()
attnviz.show(layer).to_html("picture.html")
"""
USES = {
    "": "",
    "notebook": """
from attnviz.notebook.widget import AttentionWidget
assert isinstance(attnviz.show(layer), AttentionWidget)
""",
    "models": """
import torch
import transformers
from attnviz.models import model_cache
sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
model = transformers.BertModel(transformers.BertConfig(vocab_size=9, **sizes))
[layer] = attnviz.capture(model.eval(), torch.tensor([[1, 2, 3]]))
assert layer.fidelity == "verified", layer.fidelity
""",
}
PAGES = """
import os
from streamlit.testing.v1 import AppTest
from attnviz.app_files import PACKAGE, PAGES

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
MODULES = "\nimport sys\nprint(*sorted(getattr(m, '__file__', None) or '' for m in [*sys.modules.values()]), sep='\\n')"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("built")
    run("hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def run(module: str, *arguments: object, cwd: Path) -> str:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel(folder: Path) -> Path:
    [file] = folder.glob("*.whl")
    return file


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
    run("uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", programs / "python", wheel(built),
        cwd=folder)  # fmt: skip
    links = folder / "needed" / "site-packages"  # Streamlit looks for this name
    links.mkdir(parents=True)
    for name in needed(requirements, extra):
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (links / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    [packages] = (folder / "environment").glob("lib/*/site-packages")
    (packages / "needed.pth").write_text(f"{links}\n")
    return programs


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Returns the variables of a process that knows nothing of this one's Python, and asks no hub."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STREAMLIT", "ATTN"))}
    return kept | {"HOME": str(home), "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"} | variables


def executed(programs: Path, program: str, folder: Path) -> list[Path]:
    """Runs a program in an environment and a folder; returns the files of the modules that it imported."""
    command = [programs / "python", "-c", program + MODULES]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines() if line]


def test_the_wheel_has_the_package_and_the_files_of_the_app_alone(built: Path) -> None:
    names = zipfile.ZipFile(wheel(built)).namelist()
    [information] = {name.split("/")[0] for name in names} - {"attnviz"}
    assert information == f"attnviz-{__version__}.dist-info"
    package = {name.removeprefix("attnviz/") for name in names if name.startswith("attnviz/")}
    app = {name.removeprefix("app/") for name in package if name.startswith("app/")}
    assert package - {f"app/{name}" for name in app} == files(ROOT / "attnviz")
    expected = {f"{folder}/{name}" for folder in ("pages", "assets") for name in files(ROOT / folder)}
    expected -= {"assets/samples/make.py"}
    expected -= {name for name in expected if name.endswith(".png")}  # pictures of README
    assert app == expected | {"app.py", ".streamlit/config.toml"}


def files(folder: Path) -> set[str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in paths}


def test_the_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)
    [folder] = tmp_path.iterdir()
    run("hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=folder)
    assert wheel(tmp_path / "again").read_bytes() == wheel(built).read_bytes()


def test_the_metadata_can_be_published(built: Path) -> None:
    assert run("twine", "check", "--strict", *built.iterdir(), cwd=built).count("PASSED") == 2


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
        assert refused.stderr.endswith('Install with: pip install "attnviz[app]"\n')


def test_the_app_runs_from_any_folder_with_its_own_settings(built: Path, tmp_path: Path) -> None:
    programs = install(built, tmp_path, "app")
    imported = executed(programs, PAGES, tmp_path)
    assert not [file for file in imported if file.is_relative_to(ROOT) and ".venv" not in file.parts]
    folder = tmp_path / "elsewhere"
    (folder / ".streamlit").mkdir(parents=True)
    (folder / ".streamlit" / "config.toml").write_text('[server]\naddress = "0.0.0.0"\nallowedHosts = ["*"]\n')
    for port in serving(programs, folder, tmp_path / "log"):
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


def serving(programs: Path, folder: Path, log: Path) -> Iterator[int]:
    """Starts the command; gives its port, which it has from the environment, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [programs / "attnviz", "--no-browser", "--server.fileWatcherType=none", "--server.baseUrlPath=attn"]
    variables = environment(folder, STREAMLIT_SERVER_PORT=str(port))
    with log.open("wb") as out, subprocess.Popen(command, cwd=folder, env=variables, stdout=out, stderr=out) as server:
        try:
            deadline = time.monotonic() + 60
            while not answers(port):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, f"no answer in a minute: {log.read_text()}"
                time.sleep(0.1)
            yield port
        finally:
            server.terminate()
            server.wait(20)
    assert "Traceback" not in log.read_text()


def answers(port: int) -> bool:
    try:
        return answer(port, "/attn/_stcore/health").status == 200
    except OSError:
        return False


def answer(port: int, path: str, host: str = "localhost") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": host, "Connection": "close"})
    return connection.getresponse()
