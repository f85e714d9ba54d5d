"""Lessons: pages in a state, and questions about them. Each lesson is a TOML file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from attnviz.base.app_files import ASSETS
from attnviz.base.app_pages import STATE_PAGES
from attnviz.base.bounded_toml import parse_toml
from attnviz.base.formatting import enumeration, quoted, short_repr
from attnviz.base.language import N_, _, value_error
from attnviz.base.link import Link, page_address
from attnviz.lessons.checks import Check, Choice, Condition, NumberCheck, Tap

FOLDER = ASSETS / "lessons"
LESSON, STEP = "lesson", "lesson-step"  # link parameters
MOST_FILE_BYTES = 64 * 1024  # bytes of a file
TOO_LARGE = N_("A lesson has at most {size} KB.")
MOST_STEPS = 12
MOST_TAPS = 5
MOST_NAMES = 5  # that an error lists
ENGLISH = "en"  # of a lesson that does not say its language
LANGUAGE = r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}"  # the usual part of BCP 47: “de”, “pt-BR”
STEPS = ("steps", "questions")  # the second name is that of older files
REQUIRED: dict[str, type] = {"title": str, "about": str, "page": str}
OPTIONAL: dict[str, type] = {"language": str, "state": dict, "steps": list, "questions": list}
STEP_REQUIRED: dict[str, type] = {"ask": str, "answer": str}
STEP_OPTIONAL: dict[str, type] = {
    "page": str, "state": dict, "choose": list, "right": str, "tap": int, "number": str, "reach": str, "holds": list,
    "controls": list,
}  # fmt: skip
CHECKS = ("choose", "tap", "number", "reach")
TYPE_NAMES: dict[type, str] = {
    str: N_("text in quotes"),
    dict: N_("a table"),
    list: N_("a list"),
    int: N_("a whole number"),
}


@dataclass(frozen=True)
class LessonStep:
    """A question about a page, and its answer."""

    ask: str
    answer: str
    page: str  # one of STATE_PAGES
    state: Link | None  # None: the page stays as the reader has left it
    check: Check | None = None  # of the reader's answer
    holds: tuple[Condition, ...] = ()  # what the answer says of the state, for a test
    controls: tuple[str, ...] = ()  # link parameters of the widgets that stay in view; the others are folded


@dataclass(frozen=True)
class Lesson:
    """One lesson: what it is about, and its steps. The first one has a state."""

    name: str  # of its file, in links
    title: str
    about: str
    steps: tuple[LessonStep, ...]
    language: str = ENGLISH  # of its texts, as in HTML

    def link(self, number: int = 1, *more: tuple[str, str]) -> str:
        """Returns the address of a step below that of the app; `more` are further parameters.

        A step without a state has that of the step before.
        """
        page, state = next((step.page, step.state) for step in self.steps[number - 1 :: -1] if step.state is not None)
        return page_address(page, [*state, *self.parameters(number), *more])

    def parameters(self, number: int) -> list[tuple[str, str]]:
        """Returns the link's parameters that open a step."""
        return [(LESSON, self.name), (STEP, str(number))]


def read_lessons(folder: Path) -> tuple[list[Lesson], list[str]]:
    """Returns the lessons of a folder, ordered by file name, and a message for each file that is not a lesson."""
    good, broken = [], []
    for path in sorted(folder.glob("*.toml")):
        try:
            good.append(read_lesson(path))
        except ValueError as problem:
            broken.append(f"{path.name} is left out. {problem}")
    return good, broken


def read_lesson(path: Path) -> Lesson:
    """Reads a lesson from a file. Raises ValueError if the file is not a lesson; the message is for its author."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_FILE_BYTES + 1)
    except OSError as problem:
        raise value_error("It cannot be read: {reason}.", reason=problem.strerror) from problem
    return parse_lesson(path.stem, decode(content))


def decode(content: bytes) -> str:
    """Returns the text of a file. Raises ValueError if it is too large or is not UTF-8."""
    if len(content) > MOST_FILE_BYTES:
        raise value_error(TOO_LARGE, size=MOST_FILE_BYTES // 1024)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise value_error(
            "It is not valid UTF-8: byte {number} cannot be read. Save it as UTF-8.", number=problem.start + 1
        ) from problem


def parse_table(text: str) -> dict:
    """Returns the table of a TOML text, whatever its fields are. Raises ValueError if it is not TOML."""
    if len(text) > MOST_FILE_BYTES:  # a text in UTF-8 has at least as many bytes as characters
        raise value_error(TOO_LARGE, size=MOST_FILE_BYTES // 1024)
    return parse_toml(text)


def is_parameter(value: object) -> bool:
    """Returns whether a value of a state is a link parameter, or a list of several."""
    return all(isinstance(one, str | int | float) for one in (value if isinstance(value, list) else [value]))


def link_state(table: Mapping[str, object]) -> Link:
    """Returns the link parameters of the table of a state."""
    return tuple(
        (name, str(one).lower() if isinstance(one, bool) else str(one))
        for name, value in table.items()
        for one in (value if isinstance(value, list) else [value])
    )


def parse_lesson(name: str, text: str) -> Lesson:
    """Returns the lesson of a text. Raises ValueError if it is not a lesson; the message is for its author."""
    return _Parser(text).lesson(name, parse_table(text))


class _Parser:
    """Makes a lesson of a table; its errors name the line in the text."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()

    def lesson(self, name: str, table: dict) -> Lesson:
        self.check_fields(table, REQUIRED, OPTIONAL, _("The lesson"))
        state = self.state(table.get("state", {}), 0)
        language = table.get("language", ENGLISH)
        if not re.fullmatch(LANGUAGE, language):
            problem = _("language is {language}; expected a code such as en, de or pt-BR.", language=quoted(language))
            raise self.error(problem, 0, "language")
        steps = [one for field in STEPS for one in table.get(field, [])]
        if len(steps) > MOST_STEPS:
            raise value_error("A lesson has at most {most} steps; it has {count}.", most=MOST_STEPS, count=len(steps))
        page = self.page(table["page"], 0)
        parsed = []
        for number, step in enumerate(steps, 1):
            if not isinstance(step, dict):
                raise value_error(
                    "Step {number} is not a table: write [[steps]], and below it ask = '…' and answer = '…'.",
                    number=number,
                )
            self.check_fields(step, STEP_REQUIRED, STEP_OPTIONAL, _("Step {number}", number=number), number)
            is_new = "page" in step or "state" in step
            page = self.page(step.get("page", page), number)
            own = self.state(step.get("state", {}), number) if is_new else state if number == 1 else None
            check, holds = self.check(step, number), self.conditions(step.get("holds", []), number)
            controls = self.names(step.get("controls", []), number)
            parsed.append(LessonStep(step["ask"], step["answer"], page, own, check, holds, controls))
        return Lesson(
            name, table["title"], table["about"], tuple(parsed) or (LessonStep("", "", page, state),), language
        )

    def page(self, page: str, step: int) -> str:
        if page not in STATE_PAGES:
            raise self.error(
                _("page is {page}; expected one of {pages}.", page=quoted(page), pages=", ".join(STATE_PAGES)),
                step,
                "page",
            )
        return page

    def state(self, state: dict, step: int) -> Link:
        for name, value in state.items():
            if not is_parameter(value):
                problem = _(
                    "{name} in the state is {value}; expected text, a number, true or false.",
                    name=quoted(name),
                    value=short_repr(value),
                )
                raise self.error(problem, step, "state")
        return link_state(state)

    def names(self, controls: list, number: int) -> tuple[str, ...]:
        if not all(isinstance(one, str) for one in controls):
            raise self.error(_("controls is a list of link parameters in quotes."), number, "controls")
        return tuple(controls)

    def check(self, step: dict, number: int) -> Check | None:
        names = [name for name in CHECKS if name in step]
        if len(names) > 1:
            raise self.error(
                _("Step {number} has {names}; it may have one of them.", number=number, names=enumeration(names)),
                number,
                names[1],
            )
        if ("right" in step) != ("choose" in step):
            raise self.error(
                _("Step {number} needs both choose and right, or neither.", number=number), number, "right"
            )
        if "choose" in step:
            options = step["choose"]
            if not all(isinstance(one, str) and one.strip() for one in options) or len({*options}) < len(options):
                raise self.error(_("choose is a list of different texts in quotes."), number, "choose")
            if step["right"] not in options:
                raise self.error(
                    _("right is {right}, which is not one of choose.", right=quoted(step["right"])),
                    number,
                    "right",
                )
            return Choice(tuple(options), step["right"])
        if "tap" in step:
            if not 1 <= step["tap"] <= MOST_TAPS:
                raise self.error(
                    _("tap is {count}; expected 1 to {most} tokens.", count=step["tap"], most=MOST_TAPS),
                    number,
                    "tap",
                )
            return Tap(step["tap"])
        if "number" in step:
            return NumberCheck(step["number"])
        return self.conditions([step["reach"]], number, "reach")[0] if "reach" in step else None

    def conditions(self, texts: list, number: int, field: str = "holds") -> tuple[Condition, ...]:
        try:
            return tuple(Condition.parse(str(text)) for text in texts)
        except ValueError as problem:
            raise self.error(str(problem), number, field) from problem

    def check_fields(
        self, table: dict, required: dict[str, type], optional: dict[str, type], subject: str, step: int = 0
    ) -> None:
        known = {**required, **optional}
        if missing := [name for name in required if name not in table]:
            raise self.error(_("{subject} has no {names}.", subject=subject, names=enumeration(missing)), step)
        if unknown := [name for name in table if name not in known]:
            raise self.error(
                _(
                    "{subject} has {names}; the known ones are {known}.",
                    subject=subject,
                    names=enumeration([*map(quoted, unknown[:MOST_NAMES])]),
                    known=enumeration([*known]),
                ),
                step,
                unknown[0],
            )
        for name, value in table.items():
            if not isinstance(value, known[name]) or isinstance(value, bool):
                raise self.error(
                    _(
                        "{name} is {value}; expected {kind}.",
                        name=name,
                        value=short_repr(value),
                        kind=_(TYPE_NAMES[known[name]]),
                    ),
                    step,
                    name,
                )
            if isinstance(value, str) and not value.strip():
                raise self.error(_("{subject} has an empty {name}.", subject=subject, name=name), step, name)

    def error(self, problem: str, step: int, field: str = "") -> ValueError:
        """Returns an error that names the line of a field of a step, or of the lesson itself (step 0)."""
        heads = [i for i, line in enumerate(self.lines) if re.match(rf"\s*\[\[({'|'.join(STEPS)})\]\]", line)]
        first = heads[step - 1] if 0 < step <= len(heads) else 0
        after = [
            i for i in range(first, len(self.lines)) if field and re.match(rf"\s*{re.escape(field)}\s*=", self.lines[i])
        ]
        return value_error("Line {number}: {problem}", number=(after or [first])[0] + 1, problem=problem)
