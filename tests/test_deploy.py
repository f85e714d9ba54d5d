"""The files of deploy/ hold together."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
SCRIPTS = sorted(DEPLOY.glob("*.sh"))


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
    python.write_text('#!/bin/sh\necho "ARGUMENTS=$*"\nexec env\n')
    python.chmod(0o755)
    ended = subprocess.run(
        ["/bin/sh", folder / "deploy" / "start.sh", "--port", "8600"],
        capture_output=True, text=True, check=True, timeout=60, env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip
    return dict(line.split("=", 1) for line in ended.stdout.splitlines())


def test_it_starts_with_the_options_and_settings_of_its_owner(tmp_path: Path) -> None:
    variables = started(tmp_path, ATTNVIZ_MODELS="org/a")
    assert variables["ARGUMENTS"] == "-m attnviz --no-browser --port 8600"
    named = {name: value for name, value in variables.items() if name.startswith(("ATTNVIZ_", "STREAMLIT_"))}
    assert named == {"ATTNVIZ_MODELS": "org/a", "ATTNVIZ_CACHE": f"{variables['PWD']}/cache"}
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
    front_matter = yaml.safe_load((DEPLOY / "space" / "README.md").read_text().split("---")[1])
    assert (front_matter["sdk"], front_matter["app_port"]) == ("docker", 7860)
