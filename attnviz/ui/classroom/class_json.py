"""What browsers read of a class as JSON: what everybody sees, and what the teacher sees."""

from typing import Any

from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.classroom.live_class import LiveClass
from attnviz.classroom.polls import CLOSED, REVEALED, Poll
from attnviz.classroom.question import Answer, Question
from attnviz.classroom.results import answer_distance, is_right
from attnviz.ui.classroom.result_charts import packed_chart, result_charts
from attnviz.ui.server.addresses import address

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
        "picture": class_address(live.code, f"picture/{view.picture_id}") if view else None,
        "poll": poll_state(poll),
        "result": result_state(live, poll),
        "names": sorted(live.nicknames().values()) if live.shows_names else [],
    }


def own_state(live: LiveClass, participant: str) -> Json:
    """Returns what one person has said in a class, and how good the answer was."""
    poll = live.poll()
    answer = live.own_answer(participant, poll.id, poll.round) if poll else None
    return {
        "mine": None if answer is None else answer.number if answer.number is not None else dict(answer.counts),
        "distance": own_sentence(poll.question, answer) if poll and answer and poll.phase == REVEALED else "",
        "nickname": live.nickname(participant),
    }


def teacher_state(live: LiveClass) -> Json:
    """Returns what the teacher sees of a class."""
    poll = live.poll()
    messages = [
        {"id": one.id, "text": one.text, "link": one.link, "name": one.nickname, "read": one.is_read}
        for one in reversed(live.messages())
    ]
    return {
        "participants": live.participants,
        "showsNames": live.shows_names,
        "names": sorted(live.nicknames().values()) if live.shows_names else [],
        "poll": poll_state(poll),
        "answers": poll.counts[-1] if poll else 0,
        "result": result_state(live, poll),
        "messages": messages,
    }


def poll_state(poll: Poll | None) -> Json | None:
    """Returns a poll without its answer."""
    if poll is None:
        return None
    question = poll.question
    names = "ask", "rows", "columns", "picks", "points", "numeric", "hides"
    described = {name: getattr(question, name) for name in names}
    return {"id": poll.id, "round": poll.round, "phase": poll.phase, "question": described}


def result_state(live: LiveClass, poll: Poll | None) -> Json | None:
    """Returns the sentences and the charts of a poll that is no longer open; the truth only once it is revealed."""
    results = live.results() if poll and poll.phase in (CLOSED, REVEALED) else None
    if poll is None or results is None:
        return None
    is_revealed = poll.phase == REVEALED
    charts = enumerate(result_charts(results, revealed=is_revealed))
    return {
        "sentences": results.sentences(with_truth=is_revealed),
        "charts": [{"title": title, "data": packed_chart(chart, number)} for number, (title, chart) in charts],
    }


def own_sentence(question: Question, answer: Answer) -> str:
    """Returns a sentence about the quality of an answer; no text if nothing is right or wrong."""
    if question.points or question.picks > 1:
        distance = answer_distance(question, answer)
        return (
            ""
            if distance is None
            else _("Your guess is {distance} from the truth (0 is the same).", distance=number(distance))
        )
    sentences = {True: _("Your answer was right."), False: _("Your answer was not right."), None: ""}
    return sentences[is_right(question, answer)]
