"""Lessons as text that the reader of lesson files reads."""

import json
from collections.abc import Sequence

from attnviz.lessons.checks import Check, Choice, Condition, NumberCheck, Tap
from attnviz.lessons.lesson_files import Lesson, State


def lesson_text(lesson: Lesson) -> str:
    """Returns a lesson as TOML.

    Example:
        >>> from attnviz.lessons.lesson_files import LessonStep
        >>> step = LessonStep("Where?", "Here.", "masks", (("mask-b", "causal"),))
        >>> print(lesson_text(Lesson("own", "Masks", "What they hide.", (step,))))
        title = "Masks"
        about = "What they hide."
        page = "masks"
        <BLANKLINE>
        [[steps]]
        ask = "Where?"
        answer = "Here."
        page = "masks"
        state = { "mask-b" = "causal" }
        <BLANKLINE>
    """
    lines = [
        f"title = {_quoted(lesson.title)}",
        f"about = {_quoted(lesson.about)}",
        f"page = {_quoted(lesson.steps[0].page)}",
    ]
    if lesson.steps[0].ask:
        for step in lesson.steps:
            lines += ["", "[[steps]]", f"ask = {_quoted(step.ask)}", f"answer = {_quoted(step.answer)}"]
            if step.state is not None:
                lines += [f"page = {_quoted(step.page)}", f"state = {_table(step.state)}"]
            lines += _check(step.check)
            if step.holds:
                lines.append(f"holds = {_list([_condition(one) for one in step.holds])}")
    else:
        lines.append(f"state = {_table(lesson.steps[0].state or ())}")
    return "\n".join(lines) + "\n"


def _check(check: Check | None) -> list[str]:
    match check:
        case Choice(options=options, right=right):
            return [f"choose = {_list(options)}", f"right = {_quoted(right)}"]
        case Tap(count=count):
            return [f"tap = {count}"]
        case NumberCheck(quantity=quantity):
            return [f"number = {_quoted(quantity)}"]
        case Condition():
            return [f"reach = {_quoted(_condition(check))}"]
    return []


def _condition(condition: Condition) -> str:
    return f"{condition.quantity} {condition.operator} {condition.other}"


def _table(state: State) -> str:
    values: dict[str, list[str]] = {}
    for name, value in state:
        values.setdefault(name, []).append(value)
    entries = (
        f"{_quoted(name)} = {_quoted(texts[0]) if len(texts) == 1 else _list(texts)}" for name, texts in values.items()
    )
    return f"{{ {', '.join(entries)} }}" if values else "{}"


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    """A basic string of TOML, which has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
