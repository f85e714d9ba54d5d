"""Static files: what is cached and compressed, and what is passed through."""

import gzip
import socket

import pytest
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from attnviz.ui.server.static_files import PageElements, StaticFileCache, disable_nagle

FOREVER = {"cache-control": "public, immutable, max-age=31536000"}
SCRIPT = b"let a = 1;\n" * 500


@pytest.fixture
def requests() -> list[str]:
    """The paths of the requests that reached the app."""
    return []


@pytest.fixture
def client(requests: list[str]) -> TestClient:
    async def script(request: Request) -> Response:
        requests.append(request.url.path)
        return Response(SCRIPT, media_type="text/javascript", headers=FOREVER)

    async def font(request: Request) -> Response:
        requests.append(request.url.path)
        return Response(SCRIPT, media_type="font/woff2", headers=FOREVER)

    async def page(request: Request) -> Response:
        requests.append(request.url.path)
        return HTMLResponse("<head><script></script></head><body></body>", headers={"cache-control": "no-cache"})

    async def gone(request: Request) -> Response:
        requests.append(request.url.path)
        return Response(status_code=404, headers=FOREVER)

    routes = [Route("/a.js", script), Route("/a.woff2", font), Route("/", page), Route("/gone", gone)]
    middleware = [Middleware(PageElements, head=Markup("<link>"), body=Markup("<style>")), Middleware(StaticFileCache)]
    return TestClient(Starlette(routes=routes, middleware=middleware))


def test_an_immutable_file_is_compressed_once_and_cached(client: TestClient, requests: list[str]) -> None:
    first, second, third = (client.get("/a.js") for _ in range(3))
    assert requests == ["/a.js"]
    assert first.content == second.content == third.content == SCRIPT
    assert "content-encoding" not in first.headers
    assert second.headers["content-encoding"] == "gzip"
    assert second.headers["vary"] == "accept-encoding"
    assert second.headers["cache-control"] == first.headers["cache-control"]
    assert second.headers["content-type"] == first.headers["content-type"]
    assert int(second.headers["content-length"]) == len(gzip.compress(SCRIPT, 6)) < len(SCRIPT)


def test_fonts_are_cached_uncompressed(client: TestClient) -> None:
    client.get("/a.woff2")
    cached = client.get("/a.woff2")
    assert cached.content == SCRIPT
    assert "content-encoding" not in cached.headers


@pytest.mark.parametrize(
    "headers", [{"accept-encoding": "identity"}, {"range": "bytes=0-9"}, {"if-none-match": '"a"'}], ids=str
)
def test_conditional_requests_are_passed_through(
    client: TestClient, requests: list[str], headers: dict[str, str]
) -> None:
    client.get("/a.js")
    assert "content-encoding" not in client.get("/a.js", headers=headers).headers
    assert requests == ["/a.js"] * 2


@pytest.mark.parametrize("path", ["/", "/gone"])
def test_what_may_change_is_not_cached(client: TestClient, requests: list[str], path: str) -> None:
    client.get(path)
    client.get(path)
    assert requests == [path] * 2


def test_only_pages_have_the_elements_in_head_and_body(client: TestClient) -> None:
    page = client.get("/")
    assert page.text == "<head><link><script></script></head><body><style></body>"
    assert int(page.headers["content-length"]) == len(page.content)
    assert client.get("/a.js").content == SCRIPT


@pytest.mark.parametrize("accepts", ["gzip", "identity"])
def test_compressed_pages_have_the_elements(accepts: str) -> None:
    async def page(request: Request) -> Response:
        return HTMLResponse(f"<head><script></script></head><body>{'words ' * 200}</body>")

    elements = Middleware(PageElements, head=Markup("<link>"), body=Markup("<style>"))
    client = TestClient(Starlette(routes=[Route("/", page)], middleware=[elements, Middleware(GZipMiddleware)]))
    answer = client.get("/", headers={"accept-encoding": accepts})
    assert answer.headers.get("content-encoding", "identity") == accepts
    assert answer.text.startswith("<head><link><script>")
    assert answer.text.endswith("<style></body>")


def test_accepted_connections_have_no_delay() -> None:
    with socket.socket() as listening, socket.socket() as browser:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        disable_nagle()
        browser.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_cache_is_bounded(client: TestClient, requests: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.ui.server.static_files.CACHE_BYTES", len(SCRIPT) - 1)
    for _ in range(2):
        assert client.get("/a.js").content == SCRIPT
    assert requests == ["/a.js"] * 2
