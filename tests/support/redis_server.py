"""A Redis server of the tests, on a port of its own, whose data are in a temporary folder."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
import yaml

from tests.support.browser import ROOT
from tests.support.ports import free_port

SERVER = shutil.which("redis-server", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin") or shutil.which(
    "valkey-server"
)


def hosted_options() -> list[str]:
    """The options with which deploy/compose.yaml starts the server of classes."""
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    return services["classes"]["command"][1:]


@dataclass
class RedisServer:
    port: int
    process: subprocess.Popen

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


@contextmanager
def redis_server(folder: Path, port: int | None = None) -> Iterator[RedisServer]:
    """Yields a server with the options of deploy/compose.yaml, which keeps each write on the disk."""
    assert SERVER, "redis-server is not installed; .ci/debian redis-server installs it"
    port = port or free_port()
    here = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    command = [SERVER, *hosted_options(), *here]
    with (folder / "log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait(port, process)
            yield RedisServer(port, process)
        finally:
            process.terminate()
            process.wait(20)


def _wait(port: int, process: subprocess.Popen) -> None:
    end = time.monotonic() + 20
    with redis.Redis(port=port) as client:
        while True:
            assert process.poll() is None, "redis-server ended"
            try:
                client.ping()
            except redis.ConnectionError:
                assert time.monotonic() < end, "redis-server does not answer"
                time.sleep(0.02)
            else:
                return
