"""Lessons as the text of their files, and in links."""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping

from attnviz.base.language import value_error
from attnviz.lessons.checks import Check, Choice, Condition, NumberCheck, Tap
from attnviz.lessons.lesson_files import ENGLISH, MOST_FILE_BYTES, Lesson, LessonStep
from attnviz.lessons.lesson_tables import LessonTable, placed, with_steps

IN_LINK = "text."  # how the name of a lesson begins whose text is in the link
LONGEST_NAME = 8000  # characters of a link that all browsers and servers take
BARE_KEY = r"[A-Za-z0-9_-]+"
BARE_NUMBER = r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,12})?"


def lesson_text(lesson: Lesson) -> str:
    """Returns a lesson as the text of a file, from which `parse_lesson` makes the same lesson.

    Example:
        >>> step = LessonStep("Which?", "This one.", "explore", (("head", "Head 1"),), Tap(1))
        >>> print(lesson_text(Lesson("one", "A title", "About it.", (step,))))
        title = "A title"
        about = "About it."
        page = "explore"
        state = { head = "Head 1" }
        <BLANKLINE>
        [[steps]]
        ask = "Which?"
        answer = "This one."
        tap = 1
        <BLANKLINE>
    """
    return table_text(lesson_table(lesson))


def lesson_table(lesson: Lesson) -> LessonTable:
    """Returns a lesson as the table of its file: the first step has the page and the state of the lesson."""
    first, questions = lesson.steps[0], [step for step in lesson.steps if step.ask]
    language = {} if lesson.language == ENGLISH else {"language": lesson.language}
    table = placed({"title": lesson.title, "about": lesson.about, **language}, (first.page, first.state or ()))
    places = [None if step.state is None else (step.page, step.state) for step in questions]
    return with_steps(table, [_step_table(step) for step in questions], places)


def table_text(table: Mapping[str, object]) -> str:
    """Returns a table as TOML, its lists of tables last. It may be of a lesson that is not whole yet."""
    tables = {name: value for name, value in table.items() if _is_list_of_tables(value)}
    parts = [_fields_text({name: value for name, value in table.items() if name not in tables})]
    parts += [f"[[{_key(name)}]]\n{_fields_text(one)}" for name, several in tables.items() for one in several]  # type: ignore[attr-defined]
    return "\n".join(parts)


def name_in_link(text: str) -> str | None:
    """Returns the name with which a link opens the lesson of a text; None if the text is too long for a link."""
    packed = zlib.compress(text.encode(), 9)
    name = IN_LINK + base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
    return name if len(name) <= LONGEST_NAME else None


def text_in_link(name: str) -> str:
    """Returns the text of the lesson in a name. Raises ValueError if it holds no lesson or has been cut off."""
    packed = name.removeprefix(IN_LINK)
    try:
        if len(name) > LONGEST_NAME or not packed.isascii():
            raise ValueError("no name of a lesson in a link")
        unpack = zlib.decompressobj()
        # Never more than a lesson has, whatever the packed text would become.
        content = unpack.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), MOST_FILE_BYTES + 1)
        if len(content) > MOST_FILE_BYTES:
            raise ValueError("too large")
        if not unpack.eof:
            raise ValueError("cut off")
        return content.decode()
    except (ValueError, binascii.Error, zlib.error) as problem:
        raise value_error(
            "The lesson in this link cannot be read: part of the link is missing. Copy the whole address again."
        ) from problem


def _step_table(step: LessonStep) -> LessonTable:
    """Returns a step as a table, without its page and state."""
    holds = {"holds": [_condition_text(one) for one in step.holds]} if step.holds else {}
    controls = {"controls": [*step.controls]} if step.controls else {}
    return {"ask": step.ask, "answer": step.answer, **_check_table(step.check), **controls, **holds}


def _check_table(check: Check | None) -> LessonTable:
    match check:
        case Choice(options=options, right=right):
            return {"choose": [*options], "right": right}
        case Tap(count=count):
            return {"tap": count}
        case NumberCheck(quantity=quantity):
            return {"number": quantity}
        case Condition():
            return {"reach": _condition_text(check)}
    return {}


def _condition_text(condition: Condition) -> str:
    return f"{condition.quantity} {condition.operator} {condition.other}"


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _fields_text(fields: Mapping[str, object]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in fields.items())


def _key(name: str) -> str:
    return name if re.fullmatch(BARE_KEY, name) else _value(name)


def _value(value: object) -> str:
    match value:
        case dict():
            pairs = ", ".join(f"{_key(name)} = {_parameter(one)}" for name, one in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case float():
            return repr(value)
    # Texts, whole numbers and truth values are written as in JSON, but for one control character.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007F")


def _parameter(value: object) -> str:
    """Returns the value of a link parameter; a number is written as one if it is read as the same text."""
    if isinstance(value, str) and (value in ("true", "false") or _is_number(value)):
        return value
    return _value(value)


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(BARE_NUMBER, text)) and str((float if "." in text else int)(text)) == text
