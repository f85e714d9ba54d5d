"""Health checks: /healthz and /readyz say whether the app is alive and ready."""

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from attnviz.ui.server.addresses import address


class Readiness:
    """Whether the app serves visitors: not before what they need is loaded, nor while it ends."""

    is_ready = False


class HealthChecks:
    """Middleware that answers at /healthz (200: the event loop runs) and /readyz (200: the app serves visitors; 503
    before and after), at every host name: what checks a container calls it by its address."""

    def __init__(self, app: ASGIApp, readiness: Readiness) -> None:
        self.app, self.readiness = app, readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        path = scope["path"] if is_read else None
        if path == address("/healthz"):
            await _answer(True, "alive")(scope, receive, send)
        elif path == address("/readyz"):
            is_ready = self.readiness.is_ready
            await _answer(is_ready, "ready" if is_ready else "not ready")(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def _answer(is_well: bool, text: str) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", 200 if is_well else 503, headers={"cache-control": "no-store"})
