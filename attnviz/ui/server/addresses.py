"""The addresses below which the app is served, and the answer where there is nothing."""

from collections.abc import Collection

import streamlit as st
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attnviz.base.app_pages import PAGES, START
from attnviz.ui.server.static_files import is_html

FIRST_PAGE = START.name  # whose address has no name
NOTHING_HERE = "There is no page and no file at this address. Check it for a typing error, or open the first page."


def address(path: str) -> str:
    """Returns the absolute address of a path, which starts with /, below the base path of the server."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    return f"/{base}{path}" if base else path


def page_addresses() -> set[str]:
    """Returns the addresses of all pages, without a slash at the end."""
    return {address("" if name == FIRST_PAGE else f"/{name}") for name in PAGES}


class UnknownAddresses:
    """Middleware that answers 404 at `hidden` addresses, and at those without a page, where Streamlit answers with the
    HTML of the app."""

    def __init__(self, app: ASGIApp, hidden: Collection[str] = ()) -> None:
        self.app, self.pages, self.hidden = app, page_addresses(), hidden

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].rstrip("/") in self.pages:
            await self.app(scope, receive, send)
            return
        refuse = PlainTextResponse(NOTHING_HERE, 404)
        if scope["path"] in self.hidden:
            await refuse(scope, receive, send)
            return
        unknown = False

        async def send_unless_html(message: Message) -> None:
            nonlocal unknown
            if message["type"] == "http.response.start" and is_html(message):
                unknown = True
                await refuse(scope, receive, send)
            elif not unknown:
                await send(message)

        await self.app(scope, receive, send_unless_html)
