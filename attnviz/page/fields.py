"""The fields of states: each says what values there are, which one a page opens with, and how a link has it."""

import dataclasses
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, Self, TypeVar, get_args, overload

from attnviz.base.formatting import enumeration, quoted
from attnviz.base.language import N_, OptionName, _, option_name, option_with_name, value_error
from attnviz.base.link import Link
from attnviz.models import MINILM
from attnviz.page.parts import by_title, field_key, fits_widgets, settings, title, whole_numbers

T = TypeVar("T")
Options = Mapping[str, T] | Sequence[T]
WidgetPlace = Literal["top", "side", "more", "block", "hidden"]
ABOUT_MODELS = N_("Models that are on this computer.")
ABOUT_TEMPERATURE = N_("Below 1 likely tokens become likelier, above 1 all become more alike.")
MOST_OPTIONS = 5  # that a refusal names


class LinkReader:
    """The parameters of a link, and why some of their values are not taken."""

    def __init__(self, link: Iterable[tuple[str, str]]) -> None:
        self._texts: dict[str, list[str]] = {}
        for parameter, text in link:
            self._texts.setdefault(parameter, []).append(text)
        self.refused: dict[str, str] = {}

    def text(self, parameter: str) -> str | None:
        """Returns the first value of a parameter; None if the link does not have it."""
        return self._texts.get(parameter, [None])[0]

    def texts(self, parameter: str) -> list[str] | None:
        """Returns all values of a parameter; None if the link does not have it."""
        return self._texts.get(parameter)

    def names(
        self, parameter: str, options: Mapping[str, Any], option_name: OptionName = option_name
    ) -> list[str] | None:
        """Returns the options that a parameter names, in any language, and refuses other names; None if the link does
        not have it."""
        if (texts := self.texts(parameter)) is None:
            return None
        names = [text if text in options else option_with_name(text, options, option_name) for text in texts if text]
        if None in names:
            self.refuse(parameter, _expected(options))
        return [name for name in names if name is not None]

    def refuse(self, parameter: str, expected: str) -> None:
        """Notes that the value of a parameter is not taken, and what is expected."""
        got = quoted(", ".join(self._texts[parameter]))
        self.refused[parameter] = _(
            "{parameter} = {got} is not accepted: {expected}", parameter=parameter, got=got, expected=expected
        )


class Field(Generic[T]):
    """A value of a state. `opening` returns the value that a page opens with, given the fields before it; where `when`
    is false of them, the field has no other value. `place` is where its widget stands: above the figure, in the
    sidebar, folded there, where a block or a sentence has it, or hidden. A value may belong to a `subject`, such as a
    text: where that changes, it is the opening value again."""

    name = ""  # of the attribute

    def __init__(
        self,
        label: str,
        opening: Callable[[Any], T],
        *,
        parameter: str = "",
        about: str = "",
        when: Callable[[Any], bool] | None = None,
        place: WidgetPlace = "block",
        subject: Callable[[Any], Hashable] = lambda _state: None,
    ) -> None:
        self.label, self.parameter, self.about, self.place = label, parameter, about, place
        self.opening, self._when, self.subject = opening, when, subject

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.parameter = self.parameter or name.replace("_", "-")

    @overload
    def __get__(self, state: None, kind: type) -> Self: ...

    @overload
    def __get__(self, state: Any, kind: type) -> T: ...

    def __get__(self, state: Any, kind: type) -> Any:
        return self if state is None else state.values[self.name]

    def is_offered(self, state: Any) -> bool:
        """Returns whether the field has several values in this state."""
        return self._when is None or self._when(state)

    def takes(self, state: Any, written: Link) -> bool:
        """Returns whether these parameters of a value, which another state has, are read in this one."""
        return True

    def read(self, state: Any, link: LinkReader) -> T:
        """Returns the value in a link; the opening one, with a refusal, if the link has no valid one."""
        raise NotImplementedError

    def write(self, state: Any, value: T) -> Iterator[tuple[str, str]]:
        """Yields the parameters of a value that is not the opening one."""
        raise NotImplementedError


class ParsedField(Field[T]):
    """A value that is written as a text. `parse` raises ValueError for any text that `text` does not return."""

    def __init__(
        self, label: str, parse: Callable[[str], T], opening: T, *, text: Callable[[T], str] = str, **options: Any
    ) -> None:
        super().__init__(label, lambda _state: opening, **options)
        self.parse, self.text = parse, text

    def read(self, state: Any, link: LinkReader) -> T:
        text = link.text(self.parameter)
        if text is not None:
            try:
                return self.parse(text)
            except ValueError as problem:
                link.refuse(self.parameter, str(problem))
        return self.opening(state)

    def write(self, state: Any, value: T) -> Iterator[tuple[str, str]]:
        yield self.parameter, self.text(value)


class TextField(ParsedField[str]):
    """A text. The opening one may depend on the fields before it."""

    def __init__(self, label: str, opening: str | Callable[[Any], str] = "", **options: Any) -> None:
        super().__init__(label, str, "", **options)
        self.opening = opening_text(opening)


def opening_text(opening: str | Callable[[Any], str]) -> Callable[[Any], str]:
    """Returns the function of a state that gives the opening text."""
    return opening if callable(opening) else lambda _state: opening


class ModelField(TextField):
    """A model, by its id or address on the hub or by the path of a folder; the same parameter on all pages that open
    with the same model. `former` are names that older links have, with the models that they are of. With `needs_text`,
    models that read no text are not in its menu."""

    def __init__(
        self,
        opening: str = MINILM,
        parameter: str = "model",
        former: Mapping[str, str] | None = None,
        label: str = N_("Model"),
        *,
        needs_text: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(label, opening, parameter=parameter, **{"about": ABOUT_MODELS, "place": "side"} | options)
        self.needs_text = needs_text
        self.former = former or {}
        self.parse = self._model

    def _model(self, text: str) -> str:
        """Returns the model that a link names, in any language if it has a former name."""
        return self.former.get(option_with_name(text, self.former) or "", text) or self.opening(None)


class FlagField(Field[bool]):
    """A field that is true or false."""

    def __init__(self, label: str, opening: bool = False, **options: Any) -> None:
        super().__init__(label, lambda _state: opening, **options)

    def read(self, state: Any, link: LinkReader) -> bool:
        text, opening = link.text(self.parameter), self.opening(state)
        flag = opening if text is None else {"true": True, "false": False}.get(text.lower())
        if flag is None:
            link.refuse(self.parameter, _("expected true or false."))
        return opening if flag is None else flag

    def write(self, state: Any, value: bool) -> Iterator[tuple[str, str]]:
        yield self.parameter, str(value).lower()


class NumberField(Field[float]):
    """A number with limits, rounded to `decimals`; 0 for whole numbers. The opening number and the least one may depend
    on the fields before it. With `empty`, the text that its widget shows then, it may be None."""

    def __init__(
        self, label: str, opening: float | Callable[[Any], float] | None, least: float | Callable[[Any], float],
        most: float, decimals: int | None = 0, *, step: float = 0.1, empty: str = "", **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(label, opening if callable(opening) else lambda _state: opening, **options)  # type: ignore[arg-type,return-value]
        self.least = least if callable(least) else lambda _state: least
        self.most, self.decimals, self.step, self.empty = most, decimals, step, empty

    def read(self, state: Any, link: LinkReader) -> Any:
        text = link.text(self.parameter)
        if text is None or (text == "" and self.empty):
            return self.opening(state) if text is None else None
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            number = math.nan
        if self.least(state) <= number <= self.most:
            return self.rounded(number)
        least, most = f"{self.least(state):g}", f"{self.most:g}"
        link.refuse(self.parameter, _("expected a number from {least} to {most}.", least=least, most=most))
        return self.opening(state)

    def rounded(self, number: float) -> float:
        """Returns a number as the field has it."""
        if self.decimals == 0:
            return round(number)
        return (number if self.decimals is None else round(number, self.decimals)) + 0.0  # not -0.0

    def write(self, state: Any, value: Any) -> Iterator[tuple[str, str]]:
        text = "" if value is None else f"{value:g}"
        yield self.parameter, text if value is None or float(text) == value else str(value)


class RangeField(Field[tuple[int, int]]):
    """A first and a last position, of as many as the opening value has."""

    def read(self, state: Any, link: LinkReader) -> tuple[int, int]:
        first, last = self.opening(state)
        texts = link.texts(self.parameter)
        if texts is None:
            return first, last
        if len(texts) == 2 and all(re.fullmatch("[0-9]{1,9}", text) and int(text) <= last for text in texts):
            first, last = sorted(map(int, texts))
        else:
            link.refuse(self.parameter, _("expected two positions from {first} to {last}.", first=first, last=last))
        return first, last

    def write(self, state: Any, value: tuple[int, int]) -> Iterator[tuple[str, str]]:
        yield from ((self.parameter, str(position)) for position in value)


class ChoiceField(Field[T]):
    """One of some options, or of the options that a function returns for the fields before it; with their names, if
    they are not their own."""

    is_linked = True  # whether links have its value; otherwise a browser keeps it

    def __init__(
        self,
        label: str,
        options: Options[T] | Callable[[Any], Options[T]],
        opening: Callable[[Any], T] | None = None,
        *,
        option_name: OptionName = option_name,
        **more: Any,
    ) -> None:
        super().__init__(label, opening or (lambda state: next(iter(self.options(state).values()))), **more)
        self._options, self.option_name = options, option_name

    def options(self, state: Any) -> Mapping[str, T]:
        """Returns the options, by their names."""
        options = self._options(state) if callable(self._options) else self._options
        return options if isinstance(options, Mapping) else {str(each): each for each in options}

    def context(self, state: Any) -> Hashable:
        """Returns what a choice is remembered for: where it comes back, the choice does, too."""
        return tuple(self.options(state))

    def read(self, state: Any, link: LinkReader) -> T:
        options = self.options(state)
        names = link.names(self.parameter, options, self.option_name)
        return options[names[0]] if names else self.opening(state)

    def write(self, state: Any, value: T) -> Iterator[tuple[str, str]]:
        yield self.parameter, self.name_of(state, value)

    def name_of(self, state: Any, value: T) -> str:
        """Returns the name of a value. Raises ValueError if it is not one of the options."""
        for name, option in self.options(state).items():
            if option == value and type(option) is type(value):
                return name
        raise ValueError(f"{self.name} is {value!r}; {_expected(self.options(state))}")


def optional_choice(
    label: str, nothing: str, options: Callable[[Any], Mapping[str, Any]], **more: Any
) -> ChoiceField[Any]:
    """Returns a field of these options, after one that stands for None, with which it opens."""
    return ChoiceField(label, lambda state: {nothing: None, **options(state)}, lambda _state: None, **more)


class SteppedField(ChoiceField[T]):
    """One of some options that follow one another, such as the steps of a training: the app plays them."""


class ScaleField(ChoiceField[T]):
    """One of some options that have an order: a slider."""


class ChoicesField(ChoiceField[tuple]):
    """Several of some options, in their order; none at first."""

    def __init__(
        self, label: str, options: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]], **more: Any
    ) -> None:
        super().__init__(label, options, lambda _state: (), **more)

    def read(self, state: Any, link: LinkReader) -> tuple:
        options = self.options(state)
        names = link.names(self.parameter, options, self.option_name) or ()
        return tuple(value for name, value in options.items() if name in names)

    def write(self, state: Any, value: tuple) -> Iterator[tuple[str, str]]:
        for each in value:
            yield self.parameter, self.name_of(state, each)


class PartField(Field[T]):
    """An object of one of the classes of a menu, with the values of its fields."""

    def __init__(self, label: str, menu: Mapping[str, type[T]], opening: Callable[[Any], T], **options: Any) -> None:
        super().__init__(label, opening, **options)
        self.menu = menu

    def prefix(self, kind: type, setting: str) -> str:
        """Returns the prefix of the link parameter of a setting."""
        return self.parameter

    def start(self, state: Any, kind: type[T]) -> T:
        """Returns the object whose settings a class begins with."""
        opening = self.opening(state)
        return opening if type(opening) is kind else kind()

    def read(self, state: Any, link: LinkReader) -> T:
        opening = self.opening(state)
        names = link.names(self.parameter, self.menu)
        kind = self.menu[names[0]] if names else type(opening)
        if kind not in self.menu.values():
            return opening
        return linked_settings(self, self.start(state, kind), link)

    def write(self, state: Any, value: T) -> Iterator[tuple[str, str]]:
        kind = type(value)
        if kind not in self.menu.values() or not fits_widgets(value):
            raise value_error("{value} cannot be written into a link.", value=value)
        if kind is not type(self.opening(state)):
            yield self.parameter, title(kind)
        yield from write_settings(self, value, self.unwritten(state, value))

    def unwritten(self, state: Any, value: T) -> T:
        """Returns the object whose settings are not written where a value has the same."""
        return self.start(state, type(value))


class PartsField(Field[tuple]):
    """Objects of some of the classes of a menu, with the values of their fields. Those of the opening value whose class
    is not in the menu are always included."""

    def __init__(
        self,
        label: str,
        kinds: Sequence[type],
        opening: Callable[[Any], Sequence[Any]],
        *,
        prefix: str = "",
        **options: Any,
    ) -> None:
        super().__init__(label, lambda state: tuple(opening(state)), **options)
        self.kinds, self._prefix = kinds, prefix

    def prefix(self, kind: type, setting: str = "") -> str:
        """Returns the prefix of the link parameter of a setting."""
        return f"{self._prefix} {title(kind)}".strip()

    def read(self, state: Any, link: LinkReader) -> tuple:
        opening = self.opening(state)
        menu: Mapping[str, type] = by_title(self.kinds)
        started = {type(each): each for each in opening if type(each) in self.kinds}
        names = link.names(self.parameter, menu)
        is_chosen = names or (names == [] and self.parameter not in link.refused)
        chosen = [menu[name] for name in names or ()] if is_chosen else list(started)
        objects = [each for each in opening if type(each) not in self.kinds]
        return (*objects, *(linked_settings(self, started.get(kind, kind()), link) for kind in chosen))

    def write(self, state: Any, value: tuple) -> Iterator[tuple[str, str]]:
        started = {type(each): each for each in self.opening(state) if type(each) in self.kinds}
        chosen = [each for each in value if type(each) in self.kinds]
        if [type(each) for each in chosen] != list(started):
            for each in chosen or [None]:
                yield self.parameter, title(type(each)) if each else ""
        for each in chosen:
            yield from write_settings(self, each, started.get(type(each), type(each)()))


def setting_field(setting: dataclasses.Field, prefix: str, start: object) -> Field[Any]:
    """Returns a setting of a class as a field, which opens with that of `start`; its metadata are the limits."""
    about, opening, choices = setting.metadata, getattr(start, setting.name), get_args(setting.type)
    label = about.get("label", setting.name.capitalize())
    key = field_key(prefix, type(start), setting)
    if "many" in about:
        parse = partial(whole_numbers, label=_(label), about=about)
        return ParsedField(label, parse, opening, text=lambda numbers: " ".join(map(str, numbers)), parameter=key)
    if "model" in about:
        return ModelField(opening)
    if isinstance(opening, bool):
        return FlagField(label, opening, parameter=key)
    if isinstance(opening, str) and choices:
        return ChoiceField(label, {choice: choice for choice in choices}, lambda _state: opening, parameter=key)
    if isinstance(opening, str):
        return TextField(label, opening, parameter=key)
    decimals, empty = None if isinstance(about["min"], float) else 0, about.get("empty", "")
    limits = about["min"], about["max"], decimals
    return NumberField(label, opening, *limits, step=about.get("step", 1.0), empty=empty, parameter=key)


def linked_settings(part: PartField | PartsField, start: T, link: LinkReader) -> T:
    """Returns an object with the settings of a link; `start`, with refusals, if its class does not take them."""
    fields = setting_fields(part, start)
    try:
        return replace(start, **{name: field.read(None, link) for name, field in fields.items()})  # type: ignore[type-var]
    except ValueError as problem:
        for field in fields.values():
            if link.text(field.parameter) is not None:
                link.refuse(field.parameter, str(problem))
        return start


def write_settings(part: PartField | PartsField, value: object, start: object) -> Iterator[tuple[str, str]]:
    """Yields the parameters of the settings that are not those of `start`."""
    for name, field in setting_fields(part, start).items():
        if (own := getattr(value, name)) != field.opening(None):
            yield from field.write(None, own)


def setting_fields(part: PartField | PartsField, start: object) -> dict[str, Field[Any]]:
    """Returns the fields of the settings of an object by their names, of all but files."""
    kind = type(start)
    linked = [setting for setting in settings(kind) if "max_bytes" not in setting.metadata]
    return {setting.name: setting_field(setting, part.prefix(kind, setting.name), start) for setting in linked}


def _expected(options: Iterable[str]) -> str:
    names = list(options)
    few = [*names[:MOST_OPTIONS], *(["…"] if len(names) > MOST_OPTIONS else [])]
    return _("expected one of {options}.", options=enumeration(few))
