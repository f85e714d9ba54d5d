"""The files of deploy/ hold together, and those of .devcontainer/."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DEVCONTAINER = ROOT / ".devcontainer"
SCRIPTS = [*sorted(DEPLOY.rglob("*.sh")), DEVCONTAINER / "run"]
SPACE_COLORS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}  # that its front matter may name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_can_be_read_and_run(script: Path) -> None:
    shell = script.read_text().splitlines()[0].removeprefix("#!")
    assert os.access(script, os.X_OK)
    checked = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_what_the_container_does_is_in_the_scripts() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    commands = re.findall(r"(?m)^(?:RUN|ENTRYPOINT|HEALTHCHECK .* CMD) (.*)$", text)
    assert commands == [
        "useradd --uid 1000 --home-dir /tmp --shell /usr/sbin/nologin attnviz",
        "/source/deploy/build.sh /opt/attnviz && rm -rf /source /var/lib/apt/lists/*",
        '["/opt/attnviz/deploy/check.sh"]',
        '["/opt/attnviz/deploy/start.sh"]',
    ]
    assert "\nUSER attnviz\n" in text
    build = (DEPLOY / "build.sh").read_text()
    assert build.count('bin/pip" install') == 1
    assert 'bin/pip" install --quiet --no-deps --require-hashes "$@"' in build


def test_what_the_container_holds_is_what_is_installed() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    sent = {line.removeprefix("!") for line in lines[1:]}
    [copied] = re.findall(r"for part in ([^;]*); do", (DEPLOY / "build.sh").read_text())
    assert sent == {*copied.split(), "requirements", ".ci/debian"}
    assert all((ROOT / part).exists() for part in sent)


def test_all_variables_of_nginx_have_values() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    used = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "nginx.conf.template").read_text()))
    assert used == set(services["nginx"]["environment"]) - {"NGINX_ENVSUBST_OUTPUT_DIR"}
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


def started(folder: Path, **environment: str) -> dict[str, str]:
    """The variables and the arguments with which deploy/start.sh starts Python."""
    (folder / "deploy").mkdir()
    (folder / "deploy" / "start.sh").write_text((DEPLOY / "start.sh").read_text())
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    return recorded(python, [folder / "deploy" / "start.sh", "--port", "8600"], environment)


def recorded(program: Path, script: list[object], environment: dict[str, str]) -> dict[str, str]:
    """The variables and the arguments with which a script starts a program, which is written here."""
    program.write_text('#!/bin/sh\necho "ARGUMENTS=$*"\nexec env\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["/bin/sh", *map(str, script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": path, **environment},
    )
    return dict(line.split("=", 1) for line in ended.stdout.splitlines())


def test_it_starts_with_the_options_and_settings_of_its_owner(tmp_path: Path) -> None:
    variables = started(tmp_path, ATTNVIZ_MODELS="org/a")
    assert variables["ARGUMENTS"] == "-m attnviz --no-browser --port 8600"
    named = {name: value for name, value in variables.items() if name.startswith(("ATTNVIZ_", "STREAMLIT_"))}
    assert named == {
        "ATTNVIZ_MODELS": "org/a",
        "ATTNVIZ_CACHE": f"{variables['PWD']}/cache",
        "STREAMLIT_LOGGER_HIDE_WELCOME_MESSAGE": "true",
    }
    (tmp_path / "other").mkdir()
    assert started(tmp_path / "other", ATTNVIZ_CACHE="/elsewhere")["ATTNVIZ_CACHE"] == "/elsewhere"


def test_the_language_model_is_converted_where_it_is_looked_for(tmp_path: Path) -> None:
    build = (DEPLOY / "build.sh").read_text()
    [command] = re.findall(r"(?m)^\(cd \"\$to\" && ATTNVIZ_CACHE=\"\$to/cache\" \.venv/bin/python -c '(.*)'\)$", build)
    subprocess.run([sys.executable, "-c", command], check=True, cwd=ROOT, env=os.environ | {"ATTNVIZ_CACHE": tmp_path})
    assert len([*tmp_path.glob("models/*/model.safetensors")]) == 1
    assert build.index(command) < build.index("chmod -R go=rX")


def test_a_space_answers_at_its_own_name(tmp_path: Path) -> None:
    variables = started(tmp_path, SPACE_HOST="somebody-attnviz.hf.space")
    assert variables["STREAMLIT_SERVER_ALLOWED_HOSTS"] == "somebody-attnviz.hf.space"
    assert variables["STREAMLIT_SERVER_PORT"] == "7860"
    assert variables["ATTNVIZ_HOSTED"] == variables["ATTNVIZ_TLS"] == "1"
    assert variables["ATTNVIZ_EMBED"] == "https://huggingface.co"
    assert variables["ATTNVIZ_PROXY"] == "10.0.0.0/8"


def test_the_repository_of_a_space_has_what_its_container_is_built_from(tmp_path: Path) -> None:
    space = tmp_path / "space"
    subprocess.run([DEPLOY / "space" / "assemble.sh", space], check=True, timeout=60)
    lines = (space / ".dockerignore").read_text().splitlines()
    parts = {line.removeprefix("!").split("/")[0] for line in lines[1:]}
    assert {path.name for path in space.iterdir()} == {*parts, "README.md", "Dockerfile", ".dockerignore"}
    listing = ["git", "ls-tree", "-r", "--name-only", "HEAD", *parts]
    tracked = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    moved = {f"deploy/{name}" for name in ("Dockerfile", "Dockerfile.dockerignore", "space/README.md")}
    expected = {name for name in tracked.stdout.splitlines() if not name.startswith(".ci/")} | {".ci/debian"}
    written = {path.relative_to(space).as_posix() for path in space.rglob("*") if path.is_file()}
    assert written == expected - moved | {"README.md", "Dockerfile", ".dockerignore"}
    front_matter = yaml.safe_load((space / "README.md").read_text().split("---")[1])
    assert (front_matter["sdk"], front_matter["app_port"]) == ("docker", 7860)
    assert {front_matter["colorFrom"], front_matter["colorTo"]} <= SPACE_COLORS
    assert len(front_matter["short_description"]) <= 60
    again = subprocess.run([DEPLOY / "space" / "assemble.sh", space], capture_output=True, text=True, timeout=60)
    assert "File exists" in again.stderr


def test_a_development_container_installs_and_opens_the_app(tmp_path: Path) -> None:
    container = json.loads((DEVCONTAINER / "devcontainer.json").read_text())
    requirement = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    [python] = re.findall(r"python:([\d.]+)-", container["image"])
    assert python in requirement
    [node] = [value for name, value in container["features"].items() if "/node:" in name]
    assert int(node["version"]) >= 18  # of .ci/node
    [target] = re.findall(r"^make (\w+)$", container["postCreateCommand"])
    assert re.search(rf"(?m)^{target}:", (ROOT / "Makefile").read_text())
    assert container["postAttachCommand"] == ".devcontainer/run"
    assert container["forwardPorts"] == [8501]
    assert all((ROOT / name).exists() for name in container["customizations"]["codespaces"]["openFiles"])
    script = [DEVCONTAINER / "run"]
    plain = recorded(tmp_path / "make", script, {})
    assert plain["ARGUMENTS"] == "run"
    assert not [name for name in plain if name.startswith(("ATTNVIZ_", "STREAMLIT_"))]
    variables = recorded(tmp_path / "make", script, {"CODESPACE_NAME": "a-b"})
    assert variables["STREAMLIT_SERVER_ALLOWED_HOSTS"].split()[0] == "a-b-8501.app.github.dev"
    assert "https://a-b-8501.app.github.dev" in variables["STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS"].split()
