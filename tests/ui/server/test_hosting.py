"""Who reaches the app, and what stops its start."""

import re

import pytest
import streamlit as st
import uvicorn.config
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit import config

from attnviz.base import settings
from attnviz.models.hub import allowed_models
from attnviz.ui.server import hosting
from attnviz.ui.server.security_headers import SecurityHeaders

OURS = {
    "server.address": "127.0.0.1",
    "server.allowedHosts": ["localhost", "127.0.0.1", "::1"],
    "server.corsAllowedOrigins": [],
    "server.enableCORS": True,
    "server.sslCertFile": None,
    "browser.serverAddress": "localhost",
}


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The options of Streamlit that say who reaches the app, as in .streamlit/config.toml; a test may change them."""
    options: dict[str, object] = dict(OURS)
    for module in (st, config):
        monkeypatch.setattr(module, "get_option", options.__getitem__)
    return options


def test_the_options_are_those_of_the_configuration() -> None:
    assert {name: st.get_option(name) for name in OURS} == OURS


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8501", "[::1]:8501", "LOCALHOST."])
def test_the_app_answers_at_names_of_this_computer(options: dict[str, object], host: str) -> None:
    assert answer(host).text == "page"


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "192.168.0.7:8501", "localhost@evil", ""])
def test_other_host_names_are_refused_until_the_owner_names_them(options: dict[str, object], host: str) -> None:
    refused = answer(host)
    assert refused.status_code == 403
    assert f"does not answer at the host name “{host}”" in refused.text
    options["server.allowedHosts"] = ["*.evil.example", "evil.example", "192.168.0.7"]
    assert (answer(host).status_code == 200) == (host not in ("localhost@evil", ""))


@pytest.mark.parametrize(
    ("host", "origin", "is_own"),
    [
        ("localhost:8501", "http://localhost:8501", True),
        ("localhost:8501", "http://LOCALHOST:8501", True),
        ("localhost:8501", None, True),
        ("attn.example.org", "https://attn.example.org", True),
        ("attn.example.org:443", "https://attn.example.org", True),
        ("[::1]:8501", "http://[::1]:8501", True),
        ("localhost:8501", "http://localhost:3000", False),
        ("localhost:8501", "http://localhost", False),
        ("localhost:8501", "http://127.0.0.1:8501", False),
        ("attn.example.org", "https://attn.example.org:8443", False),
        ("attn.example.org", "https://evil.example", False),
        ("attn.example.org", "https://attn.example.org.evil.example", False),
        ("localhost", "http://localhost:99999", False),
        ("localhost", "null", False),
        ("localhost", "", False),
        ("", "http://", False),
    ],
)
def test_a_websocket_is_opened_by_a_page_of_this_host_and_port(
    options: dict[str, object], host: str, origin: str | None, is_own: bool
) -> None:
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    assert opens(headers) == is_own
    assert not opens(headers | {"sec-fetch-site": "cross-site"})
    assert not opens(headers | {"sec-fetch-site": "same-site"})
    options["server.corsAllowedOrigins"] = ["https://other.example", "http://localhost:3000"]
    assert opens(headers) == (is_own or origin == "http://localhost:3000")
    assert opens(headers | {"origin": "https://other.example", "sec-fetch-site": "cross-site"})
    options["server.enableCORS"] = False
    assert opens(headers | {"origin": "https://evil.example"})


def opens(headers: dict[str, str]) -> bool:
    async def stream(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    app = Starlette(routes=[WebSocketRoute("/stream", stream)], middleware=[Middleware(hosting.AllowedHosts)])
    try:
        with TestClient(app).websocket_connect("/stream", headers=headers):
            return True
    except WebSocketDisconnect as refused:
        assert refused.code == 1008  # noqa: PT017
        return False


def test_an_error_has_security_headers_too() -> None:
    async def fail(request: Request) -> Response:
        raise KeyError

    app = Starlette(routes=[Route("/", fail)], middleware=[Middleware(SecurityHeaders)])
    refused = TestClient(app, raise_server_exceptions=False).get("/")
    assert (refused.status_code, refused.text) == (500, "Internal Server Error")
    assert refused.headers["x-content-type-options"] == "nosniff"
    with pytest.raises(KeyError):  # the server logs it
        TestClient(app).get("/")


def answer(host: str) -> Response:
    async def page(request: Request) -> Response:
        return PlainTextResponse("page")

    app = Starlette(routes=[Route("/", page)], middleware=[Middleware(hosting.AllowedHosts)])
    return TestClient(app).get("/", headers={"host": host})


def test_only_an_app_without_a_name_or_an_address_for_others_is_local(options: dict[str, object]) -> None:
    assert hosting.is_local()
    for option, value in {
        "server.address": "0.0.0.0",
        "server.allowedHosts": ["localhost", "attn.example.org"],
        "server.corsAllowedOrigins": ["https://attn.example.org"],
        "server.enableCORS": False,
        "browser.serverAddress": "attn.example.org",
    }.items():
        options[option] = value
        assert not hosting.is_local(), option
        options[option] = OURS[option]
    for option, value in {"server.address": None, "server.allowedHosts": []}.items():
        options[option] = value
        assert not hosting.is_local(), option
        options[option] = OURS[option]
    options["server.address"] = "::1"
    assert hosting.is_local()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "ATTNVIZ_UPLOAD_MB",
            "8 MB",
            "ATTNVIZ_UPLOAD_MB must be a whole number of megabytes, 1 or more; it is “8 MB”.",
        ),
        ("ATTNVIZ_UNPACKED_MB", "0", "ATTNVIZ_UNPACKED_MB must be a whole number of megabytes, 1 or more; it is “0”."),
        ("ATTNVIZ_MODEL_MB", "-1", "ATTNVIZ_MODEL_MB must be a whole number of megabytes, 1 or more; it is “-1”."),
        ("ATTNVIZ_MODELS_KEPT", "all", "ATTNVIZ_MODELS_KEPT must be a whole number of models, 1 or more; it is “all”."),
        ("ATTNVIZ_HOSTED", "yes", "ATTNVIZ_HOSTED must be 1 or 0; it is “yes”."),
        ("ATTNVIZ_TLS", "on", "ATTNVIZ_TLS must be 1 or 0; it is “on”."),
        ("ATTNVIZ_PROXY", "127.0.0.1, nginx", "ATTNVIZ_PROXY must list addresses or networks such as 127.0.0.1 or"),
        ("ATTNVIZ_PROXY", "*", "10.0.0.0/24 with commas between them; “*” is not one."),
        ("ATTNVIZ_LOG", "yaml", "ATTNVIZ_LOG must be json or plain or unchanged; it is “yaml”."),
        ("ATTNVIZ_METRICS_PORT", "0", "ATTNVIZ_METRICS_PORT must be a port from 1 to 65535; it is “0”."),
        ("ATTNVIZ_METRICS_PORT", "65536", "must be a port from 1 to 65535; it is “65536”."),
        ("ATTNVIZ_METRICS_ADDRESS", "host", "ATTNVIZ_METRICS_ADDRESS must be an address such as 127.0.0.1; it is"),
        ("ATTNVIZ_MODELS", "org/a, /home", "“/home” is not an id"),
        ("ATTNVIZ_MODELS", "*, org/a", "“*” is not an id"),
        (
            "ATTNVIZ_CLASS_STORE",
            "ftp://host",
            "ATTNVIZ_CLASS_STORE must be a path, sqlite:///path or redis://host:port",
        ),
        ("ATTNVIZ_WRITE_TOKENS", "0", "ATTNVIZ_WRITE_TOKENS must be a whole number of tokens, 1 or more; it is “0”."),
        ("ATTNVIZ_WRITE_SECONDS", "1.5", "ATTNVIZ_WRITE_SECONDS must be a whole number of seconds"),
        ("ATTNVIZ_WRITERS", "no", "ATTNVIZ_WRITERS must be a whole number of texts, 1 or more; it is “no”."),
        ("ATTNVIZ_HOST", "1", "There is no setting “ATTNVIZ_HOST”. The settings are ATTNVIZ_HOSTED, ATTNVIZ_TLS, "),
    ],
)
@pytest.mark.usefixtures("isolated", "options")
def test_a_malformed_setting_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str) -> None:
    hosting.check_settings()
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        hosting.check_settings()


@pytest.mark.usefixtures("isolated")
def test_hosts_must_be_named(options: dict[str, object]) -> None:
    options["server.allowedHosts"] = []
    with pytest.raises(ValueError, match=r"server\.allowedHosts is empty; it must name the hosts"):
        hosting.check_settings()


@pytest.mark.usefixtures("isolated")
def test_a_hosted_instance_has_smaller_uploads_and_only_listed_models(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (settings.upload_bytes(), allowed_models()) == (64 << 20, None)
    monkeypatch.setenv("ATTNVIZ_HOSTED", "1")
    assert (settings.upload_bytes(), allowed_models()) == (8 << 20, ())
    for hosts in (OURS["server.allowedHosts"], ["attn.example.org", "*"]):
        options["server.allowedHosts"] = hosts
        with pytest.raises(ValueError, match=r"Start it with a name, such as --server.allowedHosts attn\.example\.org"):
            hosting.check_settings()
    options["server.allowedHosts"] = ["attn.example.org", "localhost"]
    hosting.check_settings()
    monkeypatch.setenv("ATTNVIZ_MODELS", "*")
    with pytest.raises(ValueError, match=r"ATTNVIZ_MODELS is \*\. List ids of models"):
        hosting.check_settings()
    monkeypatch.setenv("ATTNVIZ_MODELS", "org/a, org/b")
    hosting.check_settings()
    assert allowed_models() == ("org/a", "org/b")


@pytest.mark.usefixtures("isolated")
def test_https_is_that_of_streamlit_or_of_a_proxy(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hosting.has_tls()
    monkeypatch.setenv("ATTNVIZ_TLS", "1")
    assert hosting.has_tls()
    monkeypatch.delenv("ATTNVIZ_TLS")
    options["server.sslCertFile"] = "certificate.pem"
    assert hosting.has_tls()


@pytest.mark.parametrize(
    "site", ["*", "course.example.org", "https://a b", "https://a.org; script-src *", "https://a/x"]
)
def test_what_is_no_site_may_not_embed_the_app(monkeypatch, site):
    monkeypatch.setenv("ATTNVIZ_EMBED", f"https://course.example.org, {site}")
    with pytest.raises(ValueError, match="ATTNVIZ_EMBED must list sites"):
        settings.embedding_sites()


def test_proxies_are_addresses_or_networks(monkeypatch):
    assert settings.proxies() == ()
    monkeypatch.setenv("ATTNVIZ_PROXY", "127.0.0.1, 10.0.0.0/24,::1")
    assert settings.proxies() == ("127.0.0.1", "10.0.0.0/24", "::1")


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "client"),
    [
        ("", "127.0.0.1", "192.0.2.7", "127.0.0.1"),
        ("", "::1", "192.0.2.7", "::1"),
        ("127.0.0.1", "127.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", "127.0.0.1", "1.1.1.1, 192.0.2.7", "192.0.2.7"),  # what a visitor says is before the proxy's word
        ("127.0.0.1", "10.0.0.5", "192.0.2.7", "10.0.0.5"),
        ("10.0.0.0/24,127.0.0.1", "10.0.0.5", "192.0.2.7, 127.0.0.1", "192.0.2.7"),
        ("127.0.0.1", "127.0.0.1", None, "127.0.0.1"),
    ],
)
def test_listed_proxies_alone_name_a_visitor(monkeypatch, proxies, peer, forwarded, client):
    async def name(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(scope["client"][0])(scope, receive, send)

    monkeypatch.setattr(uvicorn.config, "ProxyHeadersMiddleware", None)  # put back after the test
    monkeypatch.setenv("ATTNVIZ_PROXY", proxies)
    server = uvicorn.Config(name)  # it is configured before it loads the app
    hosting.believe_listed_proxies()
    server.load()
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    assert TestClient(server.loaded_app, client=(peer, 1)).get("/", headers=headers).text == client


def test_the_log_of_a_hosted_instance_has_no_texts(monkeypatch):
    assert settings.log_style() == "unchanged"
    monkeypatch.setenv("ATTNVIZ_HOSTED", "1")
    assert settings.log_style() == "plain"
    monkeypatch.setenv("ATTNVIZ_LOG", "unchanged")
    with pytest.raises(ValueError, match="ATTNVIZ_LOG must be json or plain; it is"):
        settings.log_style()


def test_sites_that_may_embed_the_app_are_listed_by_its_owner(monkeypatch):
    assert settings.embedding_sites() == ()
    monkeypatch.setenv("ATTNVIZ_EMBED", "https://course.example.org, http://localhost:8000")
    assert settings.embedding_sites() == ("https://course.example.org", "http://localhost:8000")
