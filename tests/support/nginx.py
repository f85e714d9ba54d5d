"""nginx with the configuration of deploy/."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from tests.support.browser import ROOT, running
from tests.support.ports import free_port

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


class HasAddress(Protocol):
    address: str


def configuration(folder: Path, port: int, replicas: Sequence[HasAddress]) -> Path:
    values = {
        "REPLICAS": "".join(
            f"server {urlsplit(one.address).netloc} max_fails=1 fail_timeout=10s; " for one in replicas
        ),
        "LISTEN": f"127.0.0.1:{port}",
        "BASE_PATH": "/attn",
        "FOLDER": str(folder),
        "UPLOAD": "9m",
        "PROXY": "127.0.0.2",
        "COOKIE": "SameSite=Lax",
    }
    template = (ROOT / "deploy" / "nginx.conf.template").read_text()
    path = folder / "nginx.conf"
    path.write_text(re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], template))
    return path


@contextmanager
def nginx_before(replicas: Sequence[HasAddress], folder: Path, ready: str) -> Iterator[str]:
    """nginx in front of replicas, from when it answers at a path."""
    port = free_port()
    assert NGINX, "nginx is not installed; .ci/debian nginx-light installs it"
    as_user = "user root; " if os.geteuid() == 0 else ""  # who owns the folder
    command = [NGINX, "-p", str(folder), "-e", "stderr", "-c", str(configuration(folder, port, replicas))]
    checked = subprocess.run([*command, "-t", "-g", as_user], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    assert not re.search(r"\[(warn|error|emerg)\]", checked.stderr), checked.stderr
    address = f"http://127.0.0.1:{port}/attn"
    with running([*command, "-g", f"{as_user}daemon off;"], folder / "log", f"{address}/{ready}"):
        yield address
