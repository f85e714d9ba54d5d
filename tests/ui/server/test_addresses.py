"""The addresses of the app, at the root of a host and below a base path."""

import pytest
import streamlit as st
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from attnviz.ui.server import addresses, scripts
from attnviz.ui.server.static_files import PageElements

BASES = pytest.mark.parametrize(("option", "base"), [("", ""), ("attn", "/attn"), ("/a/b/", "/a/b")])


@pytest.fixture
def base_path(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(st, "get_option", {"server.baseUrlPath": option}.__getitem__)


@BASES
@pytest.mark.usefixtures("base_path")
def test_all_addresses_are_absolute_and_below_the_base_path(base: str) -> None:
    assert addresses.address("/vendor/a.js") == f"{base}/vendor/a.js"
    assert {base, f"{base}/masks", f"{base}/explore"} <= addresses.page_addresses()
    assert scripts.plotly_address() in scripts.files()
    assert all(path.startswith(f"{base}/vendor/") for path in scripts.files())
    assert f'src="{base}/vendor/plotly-' in scripts.early_elements()
    assert TestClient(Starlette(routes=scripts.routes())).get(scripts.plotly_address()).status_code == 200


@BASES
@pytest.mark.usefixtures("base_path")
def test_html_is_answered_at_the_addresses_of_pages_alone(base: str) -> None:
    async def fallback(request: Request) -> Response:
        return HTMLResponse("<head><script></script></head><body></body>")

    async def file(request: Request) -> Response:
        return PlainTextResponse("file")

    app = Starlette(
        routes=[Route(f"{base}/static/{name}.js", file) for name in "ab"] + [Route("/{path:path}", fallback)],
        middleware=[
            Middleware(PageElements, head=Markup("<link>"), body=Markup("<style>")),
            Middleware(addresses.UnknownAddresses, hidden=[f"{base}/static/b.js"]),
        ],
    )
    client = TestClient(app)
    for path in ("/", "/masks", "/masks/"):
        assert client.get(base + path).text == "<head><link><script></script></head><body><style></body>"
    assert client.get(f"{base}/static/a.js").text == "file"
    for path in (
        "/static/b.js",
        "/vendor/nothing.js",
        "/static/nothing.js",
        "/masks/nothing",
        "/unknown",
        "/mask",
        "/index.html",
    ):
        answer = client.get(base + path)
        assert (answer.status_code, answer.text) == (404, addresses.NOTHING_HERE)
    assert client.get("/elsewhere/masks").status_code == 404
