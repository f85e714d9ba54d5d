"""The routes of classes. None of them is a run of a page."""

from collections.abc import Awaitable, Callable

from anyio import to_thread
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from attnviz.base.language import language
from attnviz.ui.classroom import class_pages, class_reads
from attnviz.ui.classroom.access import Refusal, check_post, open_class, parse_json, problem_response, read_body
from attnviz.ui.classroom.class_json import class_address
from attnviz.ui.classroom.class_posts import ACTIONS, Action
from attnviz.ui.server.addresses import address
from attnviz.ui.server.request_language import request_language

READ = {
    "": class_pages.follower_page,
    "state": class_reads.state,
    "picture/{stamp}": class_reads.picture,
    "panel": class_reads.panel,
    "answers.csv": class_reads.answers,
    "lesson.toml": class_reads.lesson,
}


class ClassRoutes:
    """Middleware that answers at the addresses of classes, whose pages are not Streamlit's; errors are sentences for
    the person at the screen."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.routes = app, _routes()
        handlers = {Refusal: problem_response, ValueError: problem_response}
        self.router = ExceptionMiddleware(Router(self.routes), handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or all(route.matches(scope)[0] is Match.NONE for route in self.routes):
            await self.app(scope, receive, send)
            return
        with language(request_language(scope)):
            await self.router(scope, receive, send)


def _routes() -> list[Route]:
    return [
        Route(address("/class"), class_pages.entrance_page),
        Route(address("/class/start"), class_pages.start_class, methods=["POST"]),
        Route(class_address("{code}", "events"), class_reads.events),
        *(Route(class_address("{code}", path), endpoint) for path, endpoint in READ.items()),
        *(Route(class_address("{code}", path), _posted(action), methods=["POST"]) for path, action in ACTIONS.items()),
    ]


def _posted(action: Action) -> Callable[[Request], Awaitable[Response]]:
    """Returns an endpoint that gives an action the class and the JSON that was sent from a page of this app."""

    async def answer(request: Request) -> Response:
        check_post(request)
        content = parse_json(await read_body(request))
        result = await to_thread.run_sync(lambda: action(open_class(request), request, content))
        return JSONResponse(result or {})

    return answer
