"""attnviz as a stranger has it first: by uvx, uv tool or pipx, with an empty home, from this checkout or its wheel.

`make try-install` needs the network, and prints the seconds of each step. Variables such as UV_CONSTRAINT and
UV_FIND_LINKS are passed on.
"""

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_port

ROOT = Path(__file__).parents[1]
UV = str(Path(sys.executable).with_name("uv"))
PIPX = [UV, "tool", "run", "pipx"]
SOURCES = ("checkout", "wheel")
RUNNERS = ("uvx", "uv tool", "pipx run", "pipx")
PATIENCE = 120  # seconds for the app to answer


def main(names: list[str]) -> None:
    """Tries each way to run attnviz, or those that are named; ends with the first that fails."""
    for runner in RUNNERS:
        for source in SOURCES:
            name = f"{runner} from {source}"
            if not names or runner in names:
                with TemporaryDirectory() as home:
                    print(f"{name}: " + ", ".join(_steps(runner, source, Path(home))), flush=True)


def _steps(runner: str, source: str, home: Path) -> list[str]:
    """Returns what was done and how long it took."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ATTNVIZ", "XDG"))}
    variables = kept | {"HOME": str(home), "PATH": os.pathsep.join(["/usr/bin", "/bin", str(home / ".local" / "bin")])}
    requirement = f"{_source(source, home)}[all]"
    steps = []

    def run(title: str, command: list[str]) -> str:
        start = time.monotonic()
        done = subprocess.run(command, cwd=home, env=variables, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{title} ended with {done.returncode}.\n{done.stdout}{done.stderr}")
        steps.append(f"{title} {time.monotonic() - start:.0f} s")
        return done.stdout

    match runner:
        case "uvx":
            attnviz = [UV, "tool", "run", "--from", requirement, "attnviz"]
        case "pipx run":
            attnviz = [*PIPX, "run", "--spec", requirement, "attnviz"]
        case _:
            attnviz = [str(home / ".local" / "bin" / "attnviz")]
            run("install", [*([UV, "tool"] if runner == "uv tool" else PIPX), "install", requirement])
    report = run("doctor", [*attnviz, "doctor"])
    assert f"in an environment of {runner}\n" in report, report
    assert str(home) not in report, report
    assert report.count("  missing  ") == 2, report
    run("models install", [*attnviz, "models", "install"])
    assert run("models", [*attnviz, "models"]).count("  installed  ") == 2
    return [*steps, f"app {_seconds_to_ready(attnviz, home, variables):.0f} s"]


def _source(source: str, home: Path) -> str:
    if source == "checkout":
        return str(ROOT)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", home / "dist"]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = (home / "dist").glob("*.whl")
    return str(wheel)


def _seconds_to_ready(attnviz: list[str], home: Path, variables: dict[str, str]) -> float:
    """Starts the app, and returns the seconds until it is ready, with its default model; then stops it."""
    start, port = time.monotonic(), free_port()
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [*attnviz, "--no-browser", "--port", str(port)], cwd=home, env=variables, stdout=log, stderr=log
        )
        try:
            while not _is_ready(port):
                if server.poll() is not None or time.monotonic() - start > PATIENCE:
                    sys.exit(f"The app is not ready.\n{(home / 'log').read_text()}")
                time.sleep(0.1)
            return time.monotonic() - start
        finally:
            server.terminate()
            server.wait(20)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://localhost:{port}/readyz", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1:])
