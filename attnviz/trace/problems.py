"""Problems of a trace, each with its place, and the reading that goes on after the first."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from attnviz.base.formatting import enumeration, quoted, short_repr
from attnviz.trace.schema import ManifestField

Parsed = TypeVar("Parsed")
MOST_PROBLEMS = 100  # that are kept, and as many warnings
MOST_UNKNOWN = 8  # fields of an object that are named


@dataclass(frozen=True)
class Problem:
    """A problem of a trace. Its `str` is a sentence with its place.

    Example:
        >>> print(Problem("It is missing.", "trace.json", "layers[0].kind"))
        trace.json, layers[0].kind: It is missing.
    """

    sentence: str
    file: str = ""  # its name in the folder; empty: the folder itself
    field: str = ""  # of trace.json, such as layers[0].kind, or a tensor; empty: the whole file
    is_warning: bool = False  # whether the trace can be opened all the same

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.file, self.field) if part)
        return f"{place}: {self.sentence}" if place else self.sentence


@dataclass(frozen=True)
class TracePlace:
    """A place in a trace, read part by part: what a part raises is kept as a problem of its place."""

    file: str = ""
    path: str = ""  # as the field of a problem
    problems: list[Problem] = field(default_factory=list)  # of this place and all others of the trace

    def inside(self, name: str, file: str | None = None) -> "TracePlace":
        """Returns the place of a field or of an item, such as [3], of this place; or of a tensor of a file."""
        if file is not None:
            return TracePlace(file, name, self.problems)
        between = "." if self.path and not name.startswith("[") else ""
        return TracePlace(self.file, f"{self.path}{between}{name}", self.problems)

    @property
    def refusals(self) -> list[Problem]:
        return [problem for problem in self.problems if not problem.is_warning]

    def attempt(self, function: Callable[..., Parsed], *arguments: Any) -> Parsed | None:
        """Returns what a function returns, or None if it raises ValueError, whose message becomes a problem."""
        try:
            return function(*arguments)
        except ValueError as error:
            self._add(str(error), is_warning=False)
            return None

    def warn(self, sentence: str) -> None:
        self._add(sentence, is_warning=True)

    def _add(self, sentence: str, *, is_warning: bool) -> None:
        if sum(problem.is_warning == is_warning for problem in self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(sentence, self.file, self.path, is_warning))

    def fields(self, described: object, declared: Iterable[ManifestField]) -> dict[str, Any]:
        """Returns the fields of an object, those that are left out with their defaults. A field that is needed and
        missing is a problem, an unknown one a warning."""
        by_name = {entry.name: entry for entry in declared}
        if not isinstance(described, dict):
            names = enumeration([*by_name])
            self.attempt(_refuse, f"It must be an object with the fields {names}; it is {short_repr(described)}.")
            return {}
        for name in sorted(described.keys() - by_name.keys())[:MOST_UNKNOWN]:
            near = get_close_matches(name[:80], by_name, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"The fields here are {enumeration([*by_name])}."
            self.warn(f"{quoted(name)} is not a field of the format, so it is ignored. {hint}")
        for name, entry in by_name.items():
            if entry.is_needed and name not in described:
                self.inside(name).attempt(_refuse, f"It is missing. Give {entry.holds}.")
        defaults = {name: entry.default for name, entry in by_name.items() if not entry.is_needed}
        return defaults | {name: value for name, value in described.items() if name in by_name}

    def read(
        self, values: dict[str, Any], name: str, function: Callable[..., Parsed], *arguments: Any
    ) -> Parsed | None:
        """Returns what a function makes of a field; None if it raises ValueError, or if the field is missing."""
        return self.inside(name).attempt(function, values[name], *arguments) if name in values else None


def _refuse(sentence: str) -> None:
    raise ValueError(sentence)
