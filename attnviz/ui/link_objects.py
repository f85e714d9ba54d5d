"""What widgets would hold after a link opens its page, without the page: the same names and limits, no widgets.

A value that a widget would not take is that with which the widget begins.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, replace
from typing import Any, TypeVar, get_args

from attnviz.lessons.lesson_files import State
from attnviz.ui.widgets import by_title, field_key, parameter, settings, title, whole_numbers

T = TypeVar("T")


@dataclass(frozen=True)
class LinkObjects:
    """The parameters of a link, read as the widgets of a page read them."""

    state: State

    def text(self, name: str, otherwise: str = "") -> str:
        """Returns the first value of a parameter."""
        return next((value for key, value in self.state if key == name), otherwise)

    def texts(self, name: str) -> list[str] | None:
        """Returns all values of a parameter; None if the link does not have it."""
        values = [value for key, value in self.state if key == name]
        return values or None

    def option(self, name: str, options: Mapping[str, T] | Sequence[T], otherwise: T) -> T:
        """Returns the value that a menu shows: one of `options`, or of their names."""
        menu = options if isinstance(options, Mapping) else {str(one): one for one in options}
        return menu.get(self.text(name), otherwise)

    def number(self, name: str, otherwise: float, least: float, most: float) -> float:
        """Returns the number of a field with limits."""
        try:
            value = float(self.text(name).replace(",", ""))
        except ValueError:
            return otherwise
        return value if math.isfinite(value) and least <= value <= most else otherwise

    def one_of(self, label: str, menu: Mapping[str, type[T]], start: T, key: str = "") -> T:
        """Returns what `widgets.choose_object` returns."""
        kind = menu.get(self.text(key or parameter(label)))
        if kind is None:
            if type(start) not in menu.values():
                return start
            kind = type(start)
        return self.configured(start if type(start) is kind else kind(), key or label)

    def several(self, label: str, kinds: Sequence[type[T]], start: Sequence[T], prefix: str = "") -> list[T]:
        """Returns what `widgets.choose_several` returns."""
        menu = by_title(kinds)
        started = {type(one): one for one in start if type(one) in kinds}
        linked = self.texts(parameter(label))
        names = [name for name in linked if name in menu] if linked else []
        chosen = [menu[name] for name in names] or ([] if linked and linked != [""] else [*started])
        kept = [one for one in start if type(one) not in kinds]
        return kept + [self.configured(started.get(kind, kind()), f"{prefix} {title(kind)}".strip()) for kind in chosen]

    def configured(self, start: T, prefix: str) -> T:
        """Returns what `widgets.configure` returns."""
        kind = type(start)
        try:
            values = {one.name: self.field(one, kind, prefix, getattr(start, one.name)) for one in settings(kind)}
            return replace(start, **values)  # type: ignore[type-var]
        except ValueError:
            return start

    def field(self, field: Field, kind: type, prefix: str, start: Any) -> Any:
        """Returns the value of a field. Raises ValueError for numbers in a row that are none."""
        about, key = field.metadata, field_key(prefix, kind, field)
        text = self.text(key, "\0")
        if text == "\0":
            return start
        if isinstance(start, bool):
            return {"true": True, "false": False}.get(text.lower(), start)
        if "many" in about:
            return whole_numbers(text, about.get("label", field.name.capitalize()), about)
        if isinstance(start, str):
            choices = get_args(field.type)
            return text if not choices or text in choices else start
        if isinstance(about.get("min"), float):
            return self.number(key, start, about["min"], about["max"])
        return round(self.number(key, start, about["min"], about["max"])) if "min" in about else start
