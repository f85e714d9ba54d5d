"""The commands for the environment that attnviz runs in: one installs an extra, another starts attnviz again.

In their paths, the home folder and the name of the user are variables of the shell, so that a command can be pasted in
a bug report. Those of a hosted app, which its visitors may read, have no paths.
"""

import json
import re
import shutil
import sys
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from attnviz.base.app_files import PACKAGE_PARENT
from attnviz.base.settings import is_hosted


class Environment(StrEnum):
    """What made the environment: pip or uv, or a runner of commands, for one run (uvx, pipx run) or for good."""

    PIP = "pip"
    UV = "uv"
    UV_TOOL = "uv tool"
    UVX = "uvx"
    PIPX = "pipx"
    PIPX_RUN = "pipx run"


def environment() -> Environment:
    """Returns the kind of the environment that this process runs in."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").is_file():
        return Environment.UV_TOOL
    if (prefix / "pipx_metadata.json").is_file():
        return Environment.PIPX if prefix.parent.name == "venvs" else Environment.PIPX_RUN
    if prefix.parent.name.startswith(("archive-v", "environments-v")):  # in the cache of uv
        return Environment.UVX
    return Environment.PIP if find_spec("pip") else Environment.UV


def install_line(extra: str) -> str:
    """Returns the command that installs an extra into this environment.

    Those that make an environment anew bring all extras, so that none is lost.
    """
    if is_hosted():
        return f'pip install "attnviz[{extra}]"'
    match environment():
        case Environment.PIP:
            pip = "pip" if _is_on_path("pip") else f"{_python()} -m pip"
            return f"{pip} install {_source(extra)}"
        case Environment.UV:
            return f"uv pip install --python {_python()} {_source(extra)}"
        case Environment.UV_TOOL:
            return f"uv tool install --force {_source(_all_and(extra))}"
        case Environment.PIPX:
            return f"pipx install --force {_source(_all_and(extra))}"
        case _:
            return start_line(extra)


def start_line(extra: str = "all") -> str:
    """Returns the command that starts attnviz as it was started now, to be followed by the name of a subcommand."""
    if is_hosted():
        return "attnviz"
    match environment():
        case Environment.UVX:
            return f"uvx --from {_source(_all_and(extra))} attnviz"
        case Environment.PIPX_RUN:
            return f"pipx run --spec {_source(_all_and(extra))} attnviz"
        case _:
            return "attnviz" if _is_on_path("attnviz") else f"{_python()} -m attnviz"


def shell_path(path: Path) -> str:
    """Returns a path as it may stand in double quotes in a shell: relative below the current folder, and without the
    name of the user."""
    path, here, home = path.absolute(), Path.cwd(), Path.home()
    bases = {".": here, "$HOME": home} if here.is_relative_to(home) else {"$HOME": home, ".": here}
    start, base = next(((start, base) for start, base in bases.items() if path.is_relative_to(base)), ("", Path("/")))
    parts = ("$USER" if part == home.name else part for part in path.relative_to(base).parts)
    return "/".join((start, *parts))


def _source(extra: str) -> str:
    """Returns the requirement of attnviz with an extra, in quotes: from where it was installed, or by its name."""
    try:
        recorded = distribution("attnviz").read_text("direct_url.json")
    except PackageNotFoundError:  # in a checkout
        return f'"{shell_path(PACKAGE_PARENT)}[{extra}]"'
    record = json.loads(recorded) if recorded else {}
    url = urlsplit(record.get("url", ""))
    path = Path(url2pathname(url.path))
    if url.scheme != "file" or not path.exists():
        return f'"attnviz[{extra}]"'
    option = "-e " if record.get("dir_info", {}).get("editable") else ""
    return f'{option}"{shell_path(path)}[{extra}]"'


def _all_and(extra: str) -> str:
    return ",".join(dict.fromkeys(("all", extra)))


def _is_on_path(program: str) -> bool:
    """Returns whether the shell starts the program of this environment by its name alone."""
    file = shutil.which(program)
    return file is not None and Path(file).resolve().parent == Path(sys.prefix, "bin").resolve()


def _python() -> str:
    path = shell_path(Path(sys.executable))
    return path if re.fullmatch(r"[\w./-]+", path) else f'"{path}"'
