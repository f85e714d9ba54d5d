"""What a server answers to other hosts and addresses."""

import gzip
import socket
import struct
import subprocess
import sys
from http.client import HTTPConnection, HTTPResponse
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
import streamlit

from tests.support.browser import PATIENCE, ROOT, serving


def answer(address: str, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
    """A response; of a websocket that is opened, its status is 101."""
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE)
    connection.request(method, url.path + path, headers=headers)
    response = connection.getresponse()
    connection.close()
    return response


@pytest.mark.parametrize("path", ["/", "/_stcore/stream"])
def test_another_host_name_is_refused_though_its_origin_is_the_same(address: str, path: str) -> None:
    """As after DNS rebinding: the page of another host finds its own name led to this server."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    more = upgrade if path.endswith("stream") else {}
    own = urlsplit(address).netloc
    assert answer(address, path, **more, Host=own, Origin=f"http://{own}").status == (101 if more else 200)
    if more:
        port = int(own.rpartition(":")[2])
        for origin in (f"http://localhost:{port + 1}", f"http://127.0.0.1:{port + 1}", "http://localhost", "null"):
            assert answer(address, path, **more, Host=own, Origin=origin).status == 403
    for host in ("evil.example", "evil.example:80"):
        assert answer(address, path, **more, Host=host, Origin=f"http://{host}").status == 403


def test_a_start_that_would_be_too_open_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_HOSTED", "1")
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", "--server.port=0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.startswith("attnviz does not start. ATTNVIZ_HOSTED=1 needs the names at which people open")
    assert ended.stderr.count("\n") == 1


def test_a_hosted_instance_keeps_its_metrics_and_its_visitors_to_https(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = answer(address, "/_stcore/metrics")
    assert (own.status, own.headers["strict-transport-security"]) == (200, None)
    monkeypatch.setenv("ATTNVIZ_HOSTED", "1")
    monkeypatch.setenv("ATTNVIZ_TLS", "1")
    monkeypatch.setenv("ATTNVIZ_EMBED", "https://course.example.org")
    names = [f"--server.allowedHosts={name}" for name in ("127.0.0.1", "attn.example.org")]
    with serving(tmp_path / "log", None, "", *names) as hosted:
        assert answer(hosted, "/_stcore/metrics").status == 404
        page = answer(hosted, "/explore", Host="attn.example.org")
        assert (page.status, page.headers["strict-transport-security"]) == (200, "max-age=31536000")
        cookie = answer(hosted, "/_stcore/health").headers["set-cookie"]  # of uploads, which reaches a frame by HTTPS
    assert cookie.startswith("_streamlit_xsrf=")
    assert "SameSite=None" in cookie
    assert "Secure" in cookie


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
PATHS = (
    *("/", "/explore", "/nowhere", "/healthz", "/readyz", "/vendor/plotly.js", "/media/a", "/static/a"),
    *("/class", "/class/start", "/class/AAAAA", "/class/AAAAA/picture/1", "/class/AAAAA/chart/1/1"),
    *(f"/class/AAAAA/{name}" for name in ("events", "state", "panel", "answer", "clear", "x")),
    *(f"/_stcore/{name}" for name in ("health", "host-config", "upload_file/a/b", "stream")),
)


def test_no_method_is_an_error_of_the_server_at_any_address(address: str) -> None:
    for path, method in product(PATHS, METHODS):
        refused = answer(address, path, method)
        assert refused.status < 500, (method, path)
        assert refused.headers["x-content-type-options"] == "nosniff", (method, path)
        if path.startswith(("/class/AAAAA", "/healthz")) and method in ("PUT", "DELETE", "TRACE"):
            assert refused.status == 405, (method, path)


def test_nobody_here_names_another_address(address: str) -> None:
    """Codes are guessed from one address, whatever the guesser says it is."""
    forged = ({"X-Forwarded-For": f"192.0.2.{number}"} for number in range(200))
    assert {answer(address, "/class?code=AAAAA", **headers).status for headers in forged} == {404, 429}


def test_no_script_is_made_of_text(address: str) -> None:
    """That no page needs it is seen in the other tests, in which a browser may say nothing of a refused script."""
    assert "'unsafe-eval'" not in answer(address, "/").headers["content-security-policy"]


def test_a_file_that_a_browser_leaves_midway_is_whole_for_others(address: str) -> None:
    scripts = (Path(streamlit.__file__).parent / "static" / "static" / "js").glob("*.js")
    url = urlsplit(address)
    for file in sorted(scripts, key=lambda file: file.stat().st_size)[-20:]:
        path = f"/static/js/{file.name}"
        with socket.create_connection((url.hostname, url.port), 20) as browser:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it resets the connection
            browser.sendall(f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nAccept-Encoding: gzip\r\n\r\n".encode())
            assert browser.recv(1000).startswith(b"HTTP/1.1 200")
        for _ in range(2):  # at the latest the second one comes from the cache
            with urlopen(Request(f"{address}{path}", headers={"Accept-Encoding": "gzip"}), timeout=60) as response:
                content = response.read()
                is_zipped = response.headers["content-encoding"] == "gzip"
            assert (gzip.decompress(content) if is_zipped else content) == file.read_bytes()
