"""Live classes behind nginx: what followers listen to is not held back, and a lecture at one address is not limited."""

import http.server
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from tests.support.nginx import nginx_before

FOLLOWERS = 200


class Follower(http.server.BaseHTTPRequestHandler):
    """A replica that sends an event, and the next one when all followers have the first."""

    protocol_version = "HTTP/1.1"
    goes_on = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path.endswith("/events"):
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"data: 1\n\n")
            self.wfile.flush()
            assert self.goes_on.wait(60)
            self.wfile.write(b"data: 2\n\n")
            self.close_connection = True
        else:
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1_000


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Server(("127.0.0.1", 0), Follower) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        replica = SimpleNamespace(address=f"http://127.0.0.1:{server.server_port}")
        with nginx_before([replica], tmp_path_factory.mktemp("nginx"), "class/K7M2Q/state") as address:
            yield address
        server.shutdown()


def ask(proxy: str, path: str, method: str = "GET") -> int:
    with closing(HTTPConnection(urlsplit(proxy).netloc, timeout=60)) as connection:
        connection.request(method, f"/attn{path}", body=b"{}" if method == "POST" else None)
        response = connection.getresponse()
        response.read()
        return response.status


def test_events_reach_all_followers_of_one_address_when_they_happen(proxy: str) -> None:
    def listen(_: int) -> tuple[HTTPConnection, http.client.HTTPResponse, bytes]:
        connection = HTTPConnection(urlsplit(proxy).netloc, timeout=60)
        connection.request("GET", "/attn/class/K7M2Q/events")
        response = connection.getresponse()
        return connection, response, response.readline() + response.readline()

    with ThreadPoolExecutor(50) as threads:
        followers = list(threads.map(listen, range(FOLLOWERS)))
    assert {(response.status, first) for _, response, first in followers} == {(200, b"data: 1\n\n")}
    Follower.goes_on.set()
    assert {response.read() for _, response, _ in followers} == {b"data: 2\n\n"}
    for connection, _, _ in followers:
        connection.close()


def test_a_lecture_at_one_address_is_not_limited_and_a_flood_is(proxy: str) -> None:
    with ThreadPoolExecutor(50) as threads:
        statuses = Counter(threads.map(lambda number: ask(proxy, "/class/K7M2Q/state"), range(1_000)))
        votes = Counter(threads.map(lambda number: ask(proxy, "/class/K7M2Q/answer", "POST"), range(200)))
        starts = Counter(threads.map(lambda number: ask(proxy, "/class/start", "POST"), range(200)))
    assert statuses == {200: 1_000}
    assert votes == {200: 200}
    assert starts[200] >= 41
    assert starts[429] > 0


def test_the_entrance_of_classes_is_reached(proxy: str) -> None:
    assert [ask(proxy, path) for path in ("/class", "/class?code=K7M2Q", "/class/K7M2Q")] == [200, 200, 200]
