"""Parts of a mechanism, and sources, as their classes describe them: names in menus, help texts, fields with their
limits and link parameters."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, TypeVar

from attnviz.base.language import N_, _, option_name, value_error
from attnviz.masks import GROUPS, Mask

T = TypeVar("T")
AS_IN_MODEL = N_("As in the model")  # the choice of a part that no menu has, or no widget can hold
GROUP = "— "  # how the name of a group begins in a menu


def title(kind: type) -> str:
    """Returns the name of a class in menus: SlidingWindow → Sliding window, PrefixLM → Prefix LM."""
    if name := getattr(kind, "NAME", ""):
        return name
    first, *rest = re.findall(r"[A-Z]+(?![a-z])|[0-9]+[A-Z]*|[A-Z][a-z]*", kind.__name__)
    return " ".join([first, *(word if word.isupper() and len(word) > 1 else word.lower() for word in rest)])


def help_text(kind: type) -> str:
    """Returns the docstring of a class without its examples, in the current language."""
    text = re.split(r"\n\s*(?:Examples?:\s*\n|>>> )", inspect.cleandoc(kind.__doc__ or ""), maxsplit=1)[0].rstrip()
    return _(text)


def by_title(kinds: Sequence[type[T]]) -> dict[str, type[T]]:
    """Returns a menu of classes."""
    return {title(kind): kind for kind in kinds}


def parameter(label: str) -> str:
    """Returns the link parameter of a widget."""
    return label.lower().replace(" ", "-")


def menu_name(option: str, code: str | None = None) -> str:
    """Returns the name of a class or of a group of classes in a language, by default the current one."""
    if not option.startswith(GROUP):
        return option_name(option, code)
    return f"{GROUP}{option_name(option[len(GROUP) : -2], code)} —"


def settings(kind: type) -> list[Field]:
    """Returns the fields of a class that have a widget."""
    return [one for one in fields(kind) if one.metadata]


def fits_widgets(value: object) -> bool:
    """Returns whether widgets can hold the values of all fields."""

    def fits(one: object) -> bool:
        numbers = isinstance(one, tuple) and not any(isinstance(number, bool) for number in one)
        return numbers or isinstance(one, int | float | str | None)

    return all(fits(getattr(value, one.name)) for one in settings(type(value)))


def as_in_model(menu: Mapping[str, type[T]], start: T) -> dict[str, type[T]]:
    return {} if type(start) in menu.values() and fits_widgets(start) else {AS_IN_MODEL: type(start)}


def whole_numbers(text: str, label: str, about: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the integers in a text. Raises ValueError for any other text, too many numbers, or one out of range."""
    words = text.replace(",", " ").split()
    most, least, largest = about["many"], about["min"], about["max"]
    wrong = next((word for word in words if not re.fullmatch(r"[+-]?[0-9]{1,9}", word)), None)
    if wrong is not None:
        raise value_error(
            "{label}: whole numbers with spaces between them are expected, such as 3 4 5; “{wrong}” is not one.",
            label=label,
            wrong=wrong,
        )
    if len(words) > most:
        raise value_error(
            "{label}: at most {most} numbers are expected; there are {count}.",
            label=label,
            most=most,
            count=len(words),
        )
    if outside := [word for word in words if not least <= int(word) <= largest]:
        raise value_error(
            "{label}: numbers from {least} to {largest} are expected; it has {outside}.",
            label=label,
            least=least,
            largest=largest,
            outside=outside[0],
        )
    return tuple(map(int, words))


def field_key(prefix: str, kind: type, field: Field) -> str:
    """The name of a field's widget. A number stays as it is when another mask is chosen; numbers in a row mean
    something else in each mask."""
    own = f".{title(kind)}" if "many" in field.metadata else ""
    return parameter(f"{prefix}{own}.{field.name}".strip("."))


MASK_MENU: dict[str, type[Mask]] = {
    name: kind
    for group, kinds in GROUPS.items()
    for name, kind in {f"{GROUP}{group} —": kinds[0], **by_title(kinds)}.items()
}
