"""What browsers read of a class as JSON: what everybody sees, and what the teacher sees."""

from typing import Any

from attnviz.classroom import LiveClass, Poll
from attnviz.ui.addresses import address
from attnviz.ui.classroom.result_charts import result_charts

Json = dict[str, Any]


def class_address(code: str, part: str = "") -> str:
    """Returns the address of a class, or of a part of it."""
    return address(f"/class/{code}{'/' if part else ''}{part}")


def shared_state(live: LiveClass) -> Json:
    """Returns what everybody in a class sees: the teacher's page, and the poll without its answer."""
    view, poll = live.view(), live.poll()
    return {
        "title": view.title if view else "",
        "link": view.link if view else "",
        "picture": class_address(live.code, f"picture/{view.stamp}") if view else None,
        "poll": _poll(poll),
        "result": _result(live, poll),
        "names": live.names() if live.shows_names else [],
    }


def own_state(live: LiveClass, participant: str) -> Json:
    """Returns what one person has said in a class, and how good the answer was."""
    poll = live.poll()
    return {
        "mine": live.own_answer(participant, poll) if poll else None,
        "distance": live.own_distance(participant, poll) if poll else "",
        "nickname": live.nickname(participant),
    }


def teacher_state(live: LiveClass) -> Json:
    """Returns what the teacher sees of a class."""
    poll = live.poll()
    return {
        "participants": live.participants,
        "names": live.names(),
        "showsNames": live.shows_names,
        "poll": _poll(poll),
        "answers": live.answer_count(poll) if poll else 0,
        "result": _result(live, poll),
        "messages": [
            {"id": one.id, "text": one.text, "link": one.link, "name": one.nickname, "read": one.read}
            for one in live.messages()
        ],
    }


def _poll(poll: Poll | None) -> Json | None:
    if poll is None:
        return None
    question = poll.question
    return {
        "id": poll.id,
        "round": poll.round,
        "phase": poll.phase,
        "question": {
            "ask": question.ask, "rows": question.rows, "columns": question.columns, "picks": question.picks,
            "points": question.points, "numeric": question.numeric, "hides": question.hides,
        },
    }  # fmt: skip


def _result(live: LiveClass, poll: Poll | None) -> Json | None:
    """Returns the sentences and the charts of a poll that is no longer open."""
    if poll is None or poll.phase == "open":
        return None
    results = live.results(poll)
    stamp = f"{poll.id}-{poll.round}-{poll.phase}"
    return {
        "sentences": results.sentences(revealed=poll.phase == "revealed"),
        "charts": [
            {"title": title, "address": class_address(live.code, f"chart/{stamp}/{number}")}
            for number, (title, _) in enumerate(result_charts(poll, results))
        ],
    }
