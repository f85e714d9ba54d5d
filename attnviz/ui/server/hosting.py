"""Who reaches the app: the host names at which it answers, and what is checked before it starts."""

from ipaddress import ip_address
from urllib.parse import urlsplit

import streamlit as st
import uvicorn.config
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from uvicorn._types import ASGI3Application
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from attnviz.base import settings
from attnviz.base.formatting import quoted
from attnviz.classroom.store_address import open_store
from attnviz.models.hub import allowed_models
from attnviz.ui.server.streamlit_internals import is_host_allowed


class AllowedHosts:
    """Middleware that answers 403 to requests at host names outside server.allowedHosts, and to websockets that a page
    of another origin opens.

    Streamlit itself checks the names of websockets alone, and accepts those of any port of this computer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host")
        if scope["type"] == "websocket" and not (is_own_page(headers) or _is_listed(headers.get("origin"))):
            await WebSocketClose(1008)(scope, receive, send)
        elif scope["type"] == "websocket" or is_host_allowed(host):
            await self.app(scope, receive, send)
        else:
            refusal = (
                f"attnviz does not answer at the host name {quoted(host or '')}. Open it at a name of its own; or, if "
                "you host it, start it with this name: --server.allowedHosts NAME."
            )
            await PlainTextResponse(refusal, 403)(scope, receive, send)


def is_own_page(headers: Headers) -> bool:
    """Returns whether a page of this server has sent a request, which came to the host and the port of that page.

    What names no origin was sent by a browser for its person, or by another program.
    """
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    scheme, _, _ = origin.partition("://")
    return _host_and_port(origin) == _host_and_port(f"{scheme}://{headers.get('host')}") is not None


def _host_and_port(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.hostname, port) if parts.hostname else None


def _is_listed(origin: str | None) -> bool:
    """Returns whether the owner lists an origin, or has switched the check off."""
    return not st.get_option("server.enableCORS") or origin in st.get_option("server.corsAllowedOrigins")


def believe_listed_proxies() -> None:
    """Lets the proxies of the settings, and nobody else, name the address of a visitor; call it when the app is loaded.

    By itself uvicorn believes anybody on this computer, and is configured before it loads the app.
    """
    uvicorn.config.ProxyHeadersMiddleware = _ListedProxies  # type: ignore[misc, assignment]


class _ListedProxies(ProxyHeadersMiddleware):
    """uvicorn's middleware, whatever uvicorn was told to trust."""

    def __init__(self, app: ASGI3Application, trusted_hosts: list[str] | str) -> None:
        super().__init__(app, [*settings.proxies()])


def check_settings() -> None:
    """Raises ValueError for the first setting that is malformed, or that a hosted instance needs otherwise."""
    settings.check_values()
    allowed_models()
    open_store(settings.class_store())
    hosts = st.get_option("server.allowedHosts")
    if not hosts:
        raise ValueError("server.allowedHosts is empty; it must name the hosts at which people open attnviz.")
    if not settings.is_hosted():
        return
    if "*" in hosts or all(map(is_loopback, hosts)):
        raise ValueError(
            "ATTNVIZ_HOSTED=1 needs the names at which people open attnviz; server.allowedHosts is "
            f"{', '.join(hosts)}. Start it with a name, such as --server.allowedHosts attn.example.org."
        )
    if allowed_models() is None:
        raise ValueError(
            "ATTNVIZ_HOSTED=1 shows no model and no folder that its owner does not list, and ATTNVIZ_MODELS is *. "
            "List ids of models with commas between them, or leave it empty."
        )


def is_local() -> bool:
    """Returns whether only this computer reaches the app: it listens here and answers at names of this computer."""
    origins = [urlsplit(origin).hostname for origin in st.get_option("server.corsAllowedOrigins")]
    names = [st.get_option("server.address"), st.get_option("browser.serverAddress"), *origins]
    names += st.get_option("server.allowedHosts") or ["*"]
    return bool(st.get_option("server.enableCORS")) and all(map(is_loopback, names))


def has_tls() -> bool:
    """Returns whether people open the app with HTTPS, from Streamlit itself or from a proxy."""
    return bool(st.get_option("server.sslCertFile")) or settings.has_tls_proxy()


def is_loopback(name: str | None) -> bool:
    """Returns whether the name of a host means the computer itself."""
    try:
        return name == "localhost" or ip_address(name or "").is_loopback
    except ValueError:
        return False
