"""Lessons: a page in one state, and questions about it. Each lesson is a TOML file."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from attnviz.formatting import enumeration

FOLDER = Path(__file__).parents[2] / "assets" / "lessons"
PAGES = ("explore", "lookup", "steps", "path", "scores", "masks", "transformer")
LARGEST = 64 * 1024  # bytes of a file
MOST_QUESTIONS = 12
REQUIRED: dict[str, type] = {"title": str, "about": str, "page": str}
OPTIONAL: dict[str, type] = {"state": dict, "questions": list}
TYPE_NAMES: dict[type, str] = {str: "text in quotes", dict: "a table", list: "a list"}


@dataclass(frozen=True)
class Question:
    """A question, and an answer."""

    ask: str
    answer: str


@dataclass(frozen=True)
class Lesson:
    """One lesson: what it is about, the page and its state, and the questions."""

    title: str
    about: str
    page: str  # one of PAGES
    state: tuple[tuple[str, str], ...]  # the link's parameters; one that has several values comes several times
    questions: tuple[Question, ...]

    def link(self, *more: tuple[str, str]) -> str:
        """Returns the address of the page in its state, relative to any page; `more` are further parameters."""
        query = urlencode([*self.state, *more])
        return f"./{self.page}{'?' if query else ''}{query}"


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
            content = file.read(LARGEST + 1)
    except OSError as problem:
        raise ValueError(f"It cannot be read: {problem.strerror}.") from problem
    if len(content) > LARGEST:
        raise ValueError(f"A lesson has at most {LARGEST // 1024} KB.")
    try:
        table = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise ValueError(f"It is not UTF-8 text: byte {problem.start + 1} is none. Save it as UTF-8.") from problem
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"It is not TOML: {problem}.") from problem
    except RecursionError as problem:
        raise ValueError("It is not a lesson: its lists or tables are nested too deeply.") from problem
    return _parse_lesson(table)


def _parse_lesson(table: dict) -> Lesson:
    _check_fields(table, REQUIRED, OPTIONAL, "The lesson")
    if table["page"] not in PAGES:
        raise ValueError(f"page is “{table['page']}”; expected is one of {', '.join(PAGES)}.")
    questions = table.get("questions", [])
    if len(questions) > MOST_QUESTIONS:
        raise ValueError(f"A lesson has at most {MOST_QUESTIONS} questions; it has {len(questions)}.")
    for number, question in enumerate(questions, 1):
        if not isinstance(question, dict):
            raise ValueError(f"Question {number} is no table: write {{ ask = '…', answer = '…' }}.")
        _check_fields(question, {"ask": str, "answer": str}, {}, f"Question {number}")
    return Lesson(
        table["title"],
        table["about"],
        table["page"],
        tuple(one for name, value in table.get("state", {}).items() for one in _link_parameters(name, value)),
        tuple(Question(**question) for question in questions),
    )


def _check_fields(table: dict, required: dict[str, type], optional: dict[str, type], subject: str) -> None:
    if missing := [name for name in required if name not in table]:
        raise ValueError(f"{subject} has no {enumeration(missing)}.")
    if unknown := [name for name in table if name not in {**required, **optional}]:
        raise ValueError(f"{subject} has {enumeration(unknown)}; known are {enumeration([*required, *optional])}.")
    for name, value in table.items():
        kind = {**required, **optional}[name]
        if not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r:.40}; expected is {TYPE_NAMES[kind]}.")
        if isinstance(value, str) and not value.strip():
            raise ValueError(f"{subject} has an empty {name}.")


def _link_parameters(name: str, value: object) -> list[tuple[str, str]]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) for one in values):
        raise ValueError(f"{name} in the state is {value!r:.40}; expected is text, a number, true or false.")
    return [(name, str(one).lower() if isinstance(one, bool) else str(one)) for one in values]
