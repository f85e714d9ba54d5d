"""The routes of classes. None of them is a run of a page."""

from collections.abc import Awaitable, Callable
from functools import wraps

from anyio import to_thread
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from attnviz.classroom.store import StoreError
from attnviz.language import language
from attnviz.ui.addresses import address
from attnviz.ui.classroom import class_pages, class_reads
from attnviz.ui.classroom.access import Refusal, check_post, open_class, parse_json, problem_response, read_body
from attnviz.ui.classroom.class_posts import ACTIONS, Action
from attnviz.ui.classroom.states import class_address
from attnviz.ui.request_language import request_language

READ = {
    "": class_pages.follower_page,
    "state": class_reads.state,
    "picture/{stamp}": class_reads.picture,
    "chart/{stamp}/{number:int}": class_reads.result_chart,
    "panel": class_reads.panel,
    "answers.csv": class_reads.answers,
    "lesson.toml": class_reads.lesson,
}


class ClassRoutes:
    """Middleware that answers at the addresses of classes, whose pages are not Streamlit's."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.router = app, ExceptionMiddleware(Router(_routes(), default=app))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with language(request_language(scope)):
            await self.router(scope, receive, send)


def _routes() -> list[Route]:
    return [
        Route(address("/class"), _answered(class_pages.entrance_page)),
        Route(address("/class/start"), class_pages.start_class, methods=["POST"]),
        Route(class_address("{code}", "events"), class_reads.events),
        *(Route(class_address("{code}", path), _answered(endpoint)) for path, endpoint in READ.items()),
        *(Route(class_address("{code}", path), _posted(action), methods=["POST"]) for path, action in ACTIONS.items()),
    ]


def _answered(endpoint: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Returns an endpoint, run in a thread, whose errors are sentences for the person at the screen."""

    @wraps(endpoint)
    def answer(request: Request) -> Response:
        try:
            return endpoint(request)
        except (Refusal, ValueError, StoreError) as problem:
            return problem_response(problem)

    return answer


def _posted(action: Action) -> Callable[[Request], Awaitable[Response]]:
    """Returns an endpoint that gives an action the class and the JSON that was sent from a page of this app."""

    async def answer(request: Request) -> Response:
        try:
            check_post(request)
            content = parse_json(await read_body(request))
            result = await to_thread.run_sync(lambda: action(open_class(request), request, content))
        except (Refusal, ValueError, StoreError) as problem:
            return problem_response(problem)
        return JSONResponse(result or {})

    return answer
