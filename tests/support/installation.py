"""Builds the wheel, and uses it where it is installed: for the tests of the installation and for `make release`."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 180  # seconds that a server may take on a busy machine
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
MODULES = "\nimport sys\nprint(*sorted(getattr(m, '__file__', None) or '' for m in [*sys.modules.values()]), sep='\\n')"


def build(folder: Path) -> None:
    """Builds the wheel and the source distribution of the checkout in a folder."""
    run("hatchling", "build", "-d", folder, cwd=ROOT)


def rebuild(built: Path, folder: Path) -> Path:
    """Builds the wheel anew from the source distribution of a folder, in another folder; returns its file."""
    [archive] = built.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    [source] = folder.iterdir()
    run("hatchling", "build", "-t", "wheel", "-d", folder / "again", cwd=source)
    return wheel(folder / "again")


def run(module: str, *arguments: object, cwd: Path) -> str:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel(folder: Path) -> Path:
    [file] = folder.glob("*.whl")
    return file


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


@contextmanager
def serving(programs: Path, folder: Path, log: Path) -> Iterator[int]:
    """Starts the command in a folder; gives its port, which it has from the environment, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [programs / "attnviz", "--no-browser", "--server.fileWatcherType=none", "--server.baseUrlPath=attn"]
    variables = environment(folder, STREAMLIT_SERVER_PORT=str(port))
    with log.open("wb") as out, subprocess.Popen(command, cwd=folder, env=variables, stdout=out, stderr=out) as server:
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(port):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, f"no answer in {PATIENCE} seconds: {log.read_text()}"
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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Host": host, "Connection": "close"})
    return connection.getresponse()
