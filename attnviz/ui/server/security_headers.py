"""The security headers of every response."""

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attnviz.base import settings
from attnviz.ui.server import hosting


class SecurityHeaders:
    """Middleware that adds security headers to every response, also to that of an error: nothing from another host is
    loaded, and no site frames the app that its owner has not listed."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = [(name.encode(), value.encode()) for name, value in _security_headers().items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                message["headers"] = [*message["headers"], *self.headers]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception:
            if scope["type"] == "http" and not has_started:
                await PlainTextResponse("Internal Server Error", 500)(scope, receive, send_with_headers)
            raise  # the server logs it


def _security_headers() -> dict[str, str]:
    frames = " ".join(("'self'", *settings.embedding_sites()))
    headers = {
        # Streamlit's client counts its messages in WebAssembly; nothing evaluates text as a script.
        "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
        f"frame-ancestors {frames}",
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
    }
    return headers | ({"strict-transport-security": "max-age=31536000"} if hosting.has_tls() else {})
