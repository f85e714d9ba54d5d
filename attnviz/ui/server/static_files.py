"""Serving of static files for fast first visits: cached, compressed, requested early and sent without delay."""

import gzip
import os
import socket
import stat
from collections.abc import Callable

from anyio import to_thread
from markupsafe import Markup
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attnviz.base.language import current_language, language
from attnviz.ui.server.request_language import request_language

# Types that compression makes smaller; fonts and pictures are compressed already.
COMPRESSIBLE = ("text/", "application/javascript", "application/json", "image/svg+xml")
CACHE_BYTES = 64 << 20


def disable_nagle() -> None:
    """Sets TCP_NODELAY on the sockets that this process listens on; accepted connections inherit it.

    Headers and body of a response are two writes. With Nagle's algorithm the second one waits until the first is
    acknowledged, which takes a browser up to 40 ms a file. asyncio sets the option only for sockets that name their
    protocol, which Streamlit's does not, and Streamlit has no public way to its socket.
    """
    for descriptor in range(3, 256):
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
        except OSError:  # not an open descriptor
            continue
        with socket.socket(fileno=os.dup(descriptor)) as listening:
            if listening.family in (socket.AF_INET, socket.AF_INET6) and listening.type == socket.SOCK_STREAM:
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class StaticFileCache:
    """Middleware that answers requests for immutable files from memory, compressed once.

    A page of Streamlit is more than a hundred such files, which Streamlit sends uncompressed, each through several
    threads. At most CACHE_BYTES of what the app has served with `cache-control: immutable` are cached.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.files: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_plain_request(scope):
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        if path in self.files:
            headers, body = self.files[path]
            # A copy, because other middleware may add to it.
            await send({"type": "http.response.start", "status": 200, "headers": [*headers]})
            await send({"type": "http.response.body", "body": body})
            return
        start: Message = {}
        parts: list[bytes] = []
        is_whole = False

        async def send_and_copy(message: Message) -> None:
            nonlocal is_whole
            if message["type"] == "http.response.start":
                start.update(message)
            elif _is_immutable(start):
                parts.append(message.get("body", b""))
                is_whole = not message.get("more_body", False)  # nothing more comes for a browser that has gone
            await send(message)

        await self.app(scope, receive, send_and_copy)
        if is_whole and sum(map(len, parts)) + sum(len(body) for _, body in self.files.values()) <= CACHE_BYTES:
            self.files[path] = await to_thread.run_sync(_compressed, Headers(raw=start["headers"]), b"".join(parts))


class PageElements:
    """Middleware that adds elements to HTML pages: before the first script, with the `words` of scripts in the language
    of the page, and at the end of the body. The page names its language."""

    def __init__(self, app: ASGIApp, head: Markup, body: Markup, words: Callable[[], Markup] = Markup) -> None:
        self.app, self.head, self.body, self.words = app, head, body, words

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {}
        page = b""

        async def send_with_elements(message: Message) -> None:
            nonlocal page
            if message["type"] == "http.response.start" and is_html(message):
                start.update(message)
            elif not start:
                await send(message)
            else:
                page += message.get("body", b"")
                if not message.get("more_body"):
                    headers = MutableHeaders(raw=start["headers"])
                    compressed = headers.get("content-encoding") == "gzip"  # as Streamlit sends all pages but the first
                    with language(request_language(scope)):
                        page = self._with_elements(gzip.decompress(page) if compressed else page)
                    page = gzip.compress(page, 6) if compressed else page
                    headers["content-length"] = str(len(page))
                    await send(start)
                    await send({"type": "http.response.body", "body": page})

        await self.app(scope, receive, send_with_elements)

    def _with_elements(self, page: bytes) -> bytes:
        page = page.replace(b'<html lang="en"', Markup('<html lang="{}"').format(current_language()).encode(), 1)
        page = page.replace(b"<script", (self.words() + self.head).encode() + b"<script", 1)
        return page.replace(b"</body>", self.body.encode() + b"</body>", 1)


def is_html(start: Message) -> bool:
    """Returns whether the start of a response announces HTML."""
    return Headers(raw=start["headers"]).get("content-type", "").startswith("text/html")


def _is_plain_request(scope: Scope) -> bool:
    """Whether a whole file is requested, without conditions, by a client that accepts gzip."""
    headers = Headers(scope=scope)
    conditions = {"range", "if-none-match", "if-modified-since"}.intersection(headers)
    return scope["method"] == "GET" and not conditions and "gzip" in headers.get("accept-encoding", "")


def _is_immutable(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return start["status"] == 200 and "immutable" in headers.get("cache-control", "") and "set-cookie" not in headers


def _compressed(headers: Headers, body: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    same = {name: headers[name] for name in ("content-type", "cache-control", "content-encoding") if name in headers}
    if "content-encoding" not in same and same["content-type"].startswith(COMPRESSIBLE):
        same["content-encoding"], body = "gzip", gzip.compress(body, 6)
    same |= {"content-length": str(len(body)), "vary": "accept-encoding"}
    return [(name.encode(), value.encode()) for name, value in same.items()], body
