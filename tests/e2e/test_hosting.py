"""What a server answers to other hosts and addresses."""

import subprocess
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.support.browser import ROOT


def answer(address: str, path: str, **headers: str) -> int:
    """The status of a response; of a websocket that is opened, 101."""
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request("GET", url.path + path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("path", ["/", "/_stcore/stream"])
def test_another_host_name_is_refused_though_its_origin_is_the_same(address: str, path: str) -> None:
    """As after DNS rebinding: the page of another host finds its own name led to this server."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    more = upgrade if path.endswith("stream") else {}
    own = urlsplit(address).netloc
    assert answer(address, path, **more, Host=own, Origin=f"http://{own}") == (101 if more else 200)
    for host in ("evil.example", "evil.example:80"):
        assert answer(address, path, **more, Host=host, Origin=f"http://{host}") == 403


def test_a_start_that_would_be_too_open_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_HOSTED", "1")
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", "--server.port=0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.startswith("attnviz does not start. ATTNVIZ_HOSTED=1 needs the names at which people open")
    assert ended.stderr.count("\n") == 1
