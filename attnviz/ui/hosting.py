"""Who reaches the app: the host names at which it answers, and what is checked before it starts."""

from ipaddress import ip_address
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from attnviz import settings
from attnviz.classroom.stores import open_store
from attnviz.formatting import quoted
from attnviz.models.hub import allowed_models


class AllowedHosts:
    """Middleware that answers 403 to requests at host names outside server.allowedHosts.

    Streamlit itself checks the names of websockets alone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if scope["type"] != "http" or is_host_allowed(host):
            await self.app(scope, receive, send)
            return
        refusal = (
            f"attnviz does not answer at the host name {quoted(host or '')}. Open it at a name of its own; or, if you "
            "host it, start it with this name: --server.allowedHosts NAME."
        )
        await PlainTextResponse(refusal, 403)(scope, receive, send)


def check_settings() -> None:
    """Raises ValueError for the first setting that is malformed, or that a hosted instance needs otherwise."""
    settings.check_names()
    for setting in (
        *(settings.upload_bytes, settings.unpacked_bytes, settings.all_uploads_bytes, settings.model_bytes),
        *(settings.kept_models, settings.has_tls_proxy, allowed_models, settings.embedding_sites),
        *(settings.log_style, settings.metrics_port, settings.metrics_address, settings.class_hours),
        lambda: open_store(settings.class_store()),
    ):
        setting()
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
