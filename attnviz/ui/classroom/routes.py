"""The routes of classes: pages of followers, votes and news. None of them is a run of a page."""

import base64
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, lru_cache, wraps
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from anyio import to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from attnviz import settings
from attnviz.app_files import ASSETS
from attnviz.classroom.live_class import Classes, LiveClass, check_link
from attnviz.classroom.question import Question
from attnviz.classroom.report import answers_csv, class_lesson
from attnviz.classroom.store import StoreError, UnknownClass, Versions
from attnviz.classroom.stores import open_store
from attnviz.language import _, current_language, language
from attnviz.ui import hosting, scripts, styles
from attnviz.ui.addresses import address
from attnviz.ui.classroom.rate_limit import RateLimit
from attnviz.ui.classroom.result_charts import packed_chart, result_charts
from attnviz.ui.classroom.states import Json, class_address, closed_results, own_state, shared_state, teacher_state
from attnviz.ui.classroom.watcher import Watcher
from attnviz.ui.html import translated
from attnviz.ui.request_language import request_language

TEACHER, PARTICIPANT = "attnviz_teacher", "attnviz_participant"  # cookies
LARGEST = 64 << 10  # bytes of a request
POSTS = RateLimit(burst=30, per_second=5)  # of a participant, a teacher, or an address without either
POSTS_OF_ADDRESS = RateLimit(burst=2_000, per_second=300)  # at which a whole school may be; cookies can be made up
WRONG_CODES = RateLimit(burst=100, per_second=1)  # of an address, at which a whole school may be
STARTS = RateLimit(burst=100, per_second=1 / 60)  # of an address
MOST_LISTENERS = 1_000  # of a class
KEEP = "private, max-age=86400, immutable"
_FOLDER = Path(__file__).parent

Action = Callable[[LiveClass, Request, Json], Json | None]


@cache
def classes() -> Classes:
    """Returns the classes of this server; the first use opens their store."""
    return Classes(open_store(settings.class_store()), settings.class_hours())


@cache
def _watcher() -> Watcher:
    return Watcher(lambda codes: classes().store.versions(codes))


def delete_expired_classes() -> None:
    """Deletes the classes whose hours are over, and what this process computed of any class."""
    classes().delete_expired()
    forget_results()


def forget_results() -> None:
    """Forgets what this process computed of classes; it is computed again when it is read."""
    _shared.cache_clear()
    _charts.cache_clear()


def end_streams() -> None:
    """Ends all streams of news, so that the server can stop; browsers come back to the next one."""
    _watcher().stop()


class _Refusal(Exception):
    """A request that is refused, with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ClassRoutes:
    """Middleware that answers at the addresses of classes, whose pages are not Streamlit's."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.router = app, Router(_routes(), default=app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with language(request_language(scope)):
            await self.router(scope, receive, send)


def _routes() -> list[Route]:
    """Returns all routes of classes."""
    pages = {"": _follow, "state": _state, "picture/{stamp}": _picture, "chart/{stamp}/{number:int}": _chart}
    of_teacher = {"panel": _panel, "answers.csv": _answers, "lesson.toml": _lesson}
    return [
        Route(address("/class"), _answered(_entrance)),
        Route(address("/class/start"), _start, methods=["POST"]),
        Route(class_address("{code}", "events"), _events),
        *(Route(class_address("{code}", path), _answered(endpoint)) for path, endpoint in (pages | of_teacher).items()),
        *(Route(class_address("{code}", path), _posted(action), methods=["POST"]) for path, action in ACTIONS.items()),
        *(
            Route(class_address("{code}", path), _posted(_for_teacher(action)), methods=["POST"])
            for path, action in TEACHER_ACTIONS.items()
        ),
    ]


def _answered(endpoint: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Returns an endpoint, run in a thread, whose errors are sentences for the person at the screen."""

    @wraps(endpoint)
    def answer(request: Request) -> Response:
        try:
            return endpoint(request)
        except (_Refusal, ValueError, StoreError) as problem:
            return _sentence(problem)

    return answer


def _posted(action: Action) -> Callable[[Request], Awaitable[Response]]:
    """Returns an endpoint that gives an action the class and the JSON that was sent from a page of this app."""

    async def answer(request: Request) -> Response:
        try:
            _check_rate(POSTS_OF_ADDRESS, _client(request))
            _check_rate(POSTS, _cookie_of_participant(request) or _key_of_teacher(request) or _client(request))
            _check_origin(request)
            content = json.loads(await _body(request))
            if not isinstance(content, dict):
                raise ValueError(_("What was sent is no JSON object."))
            result = await to_thread.run_sync(lambda: action(_class(request), request, content))
        except (_Refusal, ValueError, RecursionError, StoreError) as problem:
            return _sentence(problem)
        return JSONResponse(result or {})

    return answer


def _for_teacher(action: Action) -> Action:
    def check_and_act(live: LiveClass, request: Request, content: Json) -> Json | None:
        _check_teacher(live, request)
        return action(live, request, content)

    return check_and_act


def _sentence(problem: Exception) -> Response:
    match problem:
        case _Refusal(status=status):
            return PlainTextResponse(str(problem), status)
        case UnknownClass():
            return PlainTextResponse(str(problem), 404)
        case StoreError():
            return PlainTextResponse(str(problem), 503)
        case json.JSONDecodeError() | UnicodeDecodeError() | RecursionError():
            return PlainTextResponse(_("What was sent is not JSON."), 400)
    return PlainTextResponse(str(problem), 400)


def _class(request: Request) -> LiveClass:
    return _open_class(request, request.path_params["code"])


def _open_class(request: Request, code: str) -> LiveClass:
    """Returns a class, unless too many wrong codes have come from the address of somebody who is not in it; codes that
    are right and wrong get the same answer then."""
    try:
        live = classes().open(code)
    except UnknownClass:
        _check_rate(WRONG_CODES, _client(request))
        raise
    if WRONG_CODES.is_spent(_client(request)) and not _is_in(live, request):
        raise _too_often()
    return live


def _is_in(live: LiveClass, request: Request) -> bool:
    participant = _cookie_of_participant(request)
    return bool(participant and live.has_joined(participant)) or _is_teacher(live, request)


def _client(request: Request) -> str:
    return request.client.host if request.client else ""


def _check_rate(limit: RateLimit, name: str) -> None:
    if not limit.take(name):
        raise _too_often()


def _too_often() -> _Refusal:
    return _Refusal(429, _("That is too often. Wait a minute, and try again."))


def _cookie_of_participant(request: Request) -> str:
    """Returns the participant of a browser; no text if it is none yet."""
    name = request.cookies.get(PARTICIPANT, "")
    return name if re.fullmatch(r"[0-9a-f]{32}", name) else ""


def _key_of_teacher(request: Request) -> str:
    """Returns a teacher's cookie, no longer than one is; it may be of no class."""
    return request.cookies.get(TEACHER, "")[:64]


def _participant(request: Request) -> str:
    if name := _cookie_of_participant(request):
        return name
    raise _Refusal(403, _("Open the page of the class first; your browser must keep its cookie."))


def class_of_teacher(cookie: str) -> LiveClass | None:
    """Returns the class of a teacher's cookie; None if there is none or it has ended. Raises StoreError."""
    if not cookie:
        return None
    try:
        live = classes().open(cookie.partition(".")[0])
        return live if live.is_teacher(teacher_key(cookie, live.code)) else None
    except UnknownClass:
        return None


def _is_teacher(live: LiveClass, request: Request) -> bool:
    return live.is_teacher(teacher_key(request.cookies.get(TEACHER, ""), live.code))


def _check_teacher(live: LiveClass, request: Request) -> None:
    if not _is_teacher(live, request):
        raise _Refusal(403, _("Only who has started the class may do this."))


def teacher_key(cookie: str, code: str) -> str:
    """Returns the key of a teacher's cookie, if it is of this class."""
    owner, _dot, key = cookie.partition(".")
    return key if owner == code else ""


def _check_origin(request: Request) -> None:
    """Refuses what a page of another site has sent."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise _Refusal(403, _("Only pages of this app may send this."))


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise _Refusal(413, _("At most {size} KB may be sent.").format(size=LARGEST >> 10))
    return body


def _cookie(response: Response, name: str, value: str, path: str) -> None:
    response.set_cookie(
        name, value, max_age=round(settings.class_hours() * 3600), path=path, secure=hosting.has_tls(), httponly=True,
        samesite="lax",
    )  # fmt: skip


# Pages ----------------------------------------------------------------------------------------------------------------


def _page(name: str, **values: object) -> str:
    text = (_FOLDER / name).read_text(encoding="utf-8")
    head = _head() + scripts.words_element()
    return translated(text).format(lang=current_language(), head=head, icon=_icon(), **values)


@cache
def _icon() -> str:
    icon = base64.b64encode((ASSETS / "icon.svg").read_bytes()).decode()
    return f"data:image/svg+xml;base64,{icon}"


@cache
def _head() -> Markup:
    css = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("classroom.css", "pages.css"))
    return styles.style_element() + Markup("<style>{}</style>").format(Markup(scripts.component_styles() + css))  # noqa: S704


def _entrance(request: Request) -> Response:
    """The page that asks for a code, and lets a class be started."""
    problem = ""
    if "code" in request.query_params:
        try:
            live = _open_class(request, request.query_params["code"])
            return RedirectResponse(class_address(live.code), 303)
        except UnknownClass as unknown:
            problem = str(unknown)
    back = _page_or_start(request.query_params.get("back", ""))
    page = _page(
        "entrance.html", address=address("/class"), back=back, hours=round(settings.class_hours()), problem=problem
    )
    return HTMLResponse(page, 404 if problem else 200)


async def _start(request: Request) -> Response:
    """Starts a class, unless this browser teaches one already, and leads back to the page where it was started, whose
    run then belongs to the teacher."""
    try:
        _check_origin(request)
        form = parse_qs((await _body(request)).decode("utf-8", "replace"))
        response = RedirectResponse(address(f"/{_page_or_start(form.get('back', [''])[0])}"), 303)
        if await to_thread.run_sync(class_of_teacher, request.cookies.get(TEACHER, "")):
            return response
        _check_rate(STARTS, _client(request))
        teaching = await to_thread.run_sync(classes().start)
    except (_Refusal, ValueError, StoreError) as problem:
        return _sentence(problem)
    _cookie(response, TEACHER, f"{teaching.code}.{teaching.key}", address("/"))
    return response


def _page_or_start(link: str) -> str:
    try:
        check_link(link)
    except ValueError:
        return "explore"
    return link


def _follow(request: Request) -> Response:
    """The page of a follower, who joins when its script reads the class: previews of a link join nothing."""
    try:
        live = _class(request)
    except UnknownClass:
        return RedirectResponse(f"{address('/class')}?code={quote(request.path_params['code'])}", 303)
    participant = _cookie_of_participant(request) or secrets.token_hex(16)
    described = {
        "address": class_address(live.code),
        "app": address("/"),
        "code": live.code,
        "components": scripts.components(),
    }
    response = HTMLResponse(
        _page("follow.html", code=live.code, app=address("/"), page=json.dumps(described),
              script=scripts.module_address("ui/classroom/follow.js"))
    )  # fmt: skip
    response.headers["cache-control"] = "no-store"
    _cookie(response, PARTICIPANT, participant, address("/class"))
    return response


# What is read ---------------------------------------------------------------------------------------------------------


async def _events(request: Request) -> Response:
    """News of a class as server-sent events: the versions of what everybody sees, or of what the teacher sees."""
    part = "panel" if request.query_params.get("part") == "panel" else "state"
    try:
        live = await to_thread.run_sync(_class, request)
        if _watcher().count(live.code) >= MOST_LISTENERS:
            raise _Refusal(503, _("Too many people listen to this class."))
    except (_Refusal, ValueError, StoreError) as problem:
        return _sentence(problem)

    async def news() -> AsyncIterator[str]:
        async for version in _watcher().listen(live.code):
            yield f"data: {_version(version, part)}\n\n"
        if not _watcher().is_stopping:
            yield "event: ended\ndata: ended\n\n"

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(news(), media_type="text/event-stream", headers=headers)


def _version(versions: Versions, part: str) -> str:
    """The version of what everybody sees, or of all that the teacher sees."""
    return str(versions.shared) if part == "state" else f"{versions.shared}.{versions.teacher}"


def _state(request: Request) -> Response:
    live = _class(request)
    participant = _participant(request)
    live.join(participant)
    version = _version(live.version, "state")
    own = own_state(live, participant)
    return _fresh({"version": version, **_shared(live.code, version, current_language()), **own})


@lru_cache(maxsize=64)
def _shared(code: str, version: str, in_language: str) -> Json:
    """What everybody sees of a class at a version, in a language: computed once for all."""
    return shared_state(classes().open(code))


def _panel(request: Request) -> Response:
    live = _class(request)
    _check_teacher(live, request)
    return _fresh({"version": _version(live.version, "panel"), **teacher_state(live)})


def _answers(request: Request) -> Response:
    live = _class(request)
    _check_teacher(live, request)
    return _file("\ufeff" + answers_csv(live), f"answers-{live.code}.csv", "text/csv")  # by its mark, Excel reads UTF-8


def _lesson(request: Request) -> Response:
    live = _class(request)
    _check_teacher(live, request)
    return _file(class_lesson(live), f"class-{live.code}.toml", "application/toml")


def _file(text: str, name: str, media_type: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text.encode(), media_type=media_type, headers=headers)


def _fresh(content: Json) -> Response:
    return JSONResponse(content, headers={"cache-control": "no-store"})


def _picture(request: Request) -> Response:
    """What the teacher's page has drawn: compressed JSON, as the store has it."""
    picture = _class(request).picture(request.path_params["stamp"])
    if picture is None:
        raise _Refusal(404, _("There is a newer picture."))
    return Response(picture, media_type="application/json", headers={"content-encoding": "gzip", "cache-control": KEEP})


def _chart(request: Request) -> Response:
    charts = _charts(_class(request).code, request.path_params["stamp"], current_language())
    number = request.path_params["number"]
    if number >= len(charts):
        raise _Refusal(404, _("There is no such chart."))
    return Response(charts[number], media_type="application/octet-stream", headers={"cache-control": KEEP})


@lru_cache(maxsize=64)
def _charts(code: str, stamp: str, in_language: str) -> tuple[bytes, ...]:
    """The charts of the poll of a class in a phase, in a language, which do not change: computed once for all."""
    results = closed_results(classes().open(code), stamp)
    if results is None:
        raise _Refusal(404, _("This vote is over."))
    charts = result_charts(results[0], revealed=results[1])
    return tuple(packed_chart(chart, number) for number, (_title, chart) in enumerate(charts))


# What is sent ---------------------------------------------------------------------------------------------------------


def _answer(live: LiveClass, request: Request, content: Json) -> None:
    live.answer(_participant(request), str(content.get("poll")), content.get("round", 0), content.get("value"))


def _nickname(live: LiveClass, request: Request, content: Json) -> None:
    live.set_nickname(_participant(request), content.get("text", ""))


def _message(live: LiveClass, request: Request, content: Json) -> None:
    live.send(_participant(request), content.get("link", ""), content.get("text", ""))


def _ask(live: LiveClass, request: Request, content: Json) -> Json:
    return {"poll": live.ask(Question.from_json(json.dumps(content.get("question"))))}


def _read(live: LiveClass, request: Request, content: Json) -> None:
    live.mark_read(str(content.get("id")))


def _end(live: LiveClass, request: Request, content: Json) -> None:
    live.end()
    forget_results()


ACTIONS: dict[str, Action] = {"answer": _answer, "nickname": _nickname, "message": _message}
TEACHER_ACTIONS: dict[str, Action] = {
    "ask": _ask,
    "close": lambda live, *_: live.close(),
    "vote-again": lambda live, *_: live.vote_again(),
    "reveal": lambda live, *_: live.reveal(),
    "dismiss": lambda live, *_: live.dismiss(),
    "read": _read,
    "names": lambda live, _request, content: live.show_names(content.get("show") is True),
    "end": _end,
}
