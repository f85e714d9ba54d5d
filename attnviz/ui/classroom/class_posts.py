"""What participants and the teacher of a class send."""

import json
from collections.abc import Callable

from starlette.requests import Request

from attnviz.classroom.live_class import LiveClass
from attnviz.classroom.question import Question
from attnviz.ui.classroom import server_classes
from attnviz.ui.classroom.access import check_teacher, participant
from attnviz.ui.classroom.class_json import Json

Action = Callable[[LiveClass, Request, Json], Json | None]


def _answer(live: LiveClass, request: Request, content: Json) -> None:
    live.answer(participant(live, request), str(content.get("poll")), content.get("round", 0), content.get("value"))


def _nickname(live: LiveClass, request: Request, content: Json) -> None:
    live.set_nickname(participant(live, request), content.get("text", ""))


def _message(live: LiveClass, request: Request, content: Json) -> None:
    live.send(participant(live, request), content.get("link", ""), content.get("text", ""))


def _ask(live: LiveClass, request: Request, content: Json) -> Json:
    return {"poll": live.ask(Question.from_json(json.dumps(content.get("question"))))}


def _end(live: LiveClass, request: Request, content: Json) -> None:
    live.end()
    server_classes.forget_results()


def _for_teacher(action: Action) -> Action:
    def check_and_act(live: LiveClass, request: Request, content: Json) -> Json | None:
        check_teacher(live, request)
        return action(live, request, content)

    return check_and_act


OF_TEACHER: dict[str, Action] = {
    "ask": _ask,
    "close": lambda live, *_: live.close(),
    "vote-again": lambda live, *_: live.vote_again(),
    "reveal": lambda live, *_: live.reveal(),
    "dismiss": lambda live, *_: live.dismiss(),
    "read": lambda live, _request, content: live.mark_read(str(content.get("id"))),
    "names": lambda live, _request, content: live.show_names(content.get("show") is True),
    "clear": lambda live, *_: live.remove_silent(),
    "end": _end,
}
ACTIONS: dict[str, Action] = {
    "answer": _answer,
    "nickname": _nickname,
    "message": _message,
    **{name: _for_teacher(action) for name, action in OF_TEACHER.items()},
}
