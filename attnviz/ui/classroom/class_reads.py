"""What browsers read of a class: its news, its state and pictures, and what the teacher takes home."""

from collections.abc import AsyncIterator

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from attnviz.base.language import _
from attnviz.classroom.report import answers_csv, class_lesson
from attnviz.classroom.store import Versions
from attnviz.ui.classroom import access, server_classes
from attnviz.ui.classroom.access import Refusal, open_class
from attnviz.ui.classroom.class_json import Json, own_state, teacher_state

MOST_LISTENERS = 1_000  # of a class
KEEP = "private, max-age=86400, immutable"


async def events(request: Request) -> Response:
    """News of a class as server-sent events: the versions of what everybody sees, or of what the teacher sees."""
    part = "panel" if request.query_params.get("part") == "panel" else "state"
    watcher = server_classes.watcher()
    live = await to_thread.run_sync(open_class, request)
    if watcher.count(live.code) >= MOST_LISTENERS:
        raise Refusal(503, _("Too many people follow this class."))

    async def news() -> AsyncIterator[str]:
        async for version in watcher.listen(live.code):
            yield f"data: {_version(version, part)}\n\n"
        if not watcher.is_stopping:
            yield "event: ended\ndata: ended\n\n"

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(news(), media_type="text/event-stream", headers=headers)


def state(request: Request) -> Response:
    """What a participant sees; who reads it has joined."""
    live = open_class(request)
    participant = access.participant(live, request)
    version = _version(live.version, "state")
    shared = server_classes.state_for_all(live.code, version)
    return _fresh({"version": version, **shared, **own_state(live, participant)})


def panel(request: Request) -> Response:
    """What the teacher sees."""
    live = open_class(request)
    access.check_teacher(live, request)
    return _fresh({"version": _version(live.version, "panel"), **teacher_state(live)})


def answers(request: Request) -> Response:
    """The answers of a class as a CSV file, for its teacher."""
    live = open_class(request)
    access.check_teacher(live, request)
    return _file("\ufeff" + answers_csv(live), f"answers-{live.code}.csv", "text/csv")  # by its mark, Excel reads UTF-8


def lesson(request: Request) -> Response:
    """The questions of a class as a lesson file, for its teacher."""
    live = open_class(request)
    access.check_teacher(live, request)
    return _file(class_lesson(live), f"class-{live.code}.toml", "application/toml")


def picture(request: Request) -> Response:
    """What the teacher's page has drawn: compressed JSON, as the store has it."""
    content = open_class(request).picture(request.path_params["stamp"])
    if content is None:
        raise Refusal(404, _("There is a newer figure."))
    return Response(content, media_type="application/json", headers={"content-encoding": "gzip", "cache-control": KEEP})


def _version(versions: Versions, part: str) -> str:
    """The version of what everybody sees, or of all that the teacher sees."""
    return str(versions.shared) if part == "state" else f"{versions.shared}.{versions.teacher}"


def _file(text: str, name: str, media_type: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text.encode(), media_type=media_type, headers=headers)


def _fresh(content: Json) -> Response:
    return JSONResponse(content, headers={"cache-control": "no-store"})
