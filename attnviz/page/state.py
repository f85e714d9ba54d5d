"""A state: what a page shows, as a frozen value, from a link and to a link."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

from attnviz.base.cached_property import cached_property
from attnviz.base.link import Link
from attnviz.page.fields import Field, LinkReader


class State:
    """The values of the declared fields, in their order; a field may depend on those before it.

    Where a field cannot be resolved, `problem` says why, and the fields from there on have no value: nothing can be
    shown. `refused` says which values of the link were not taken, and why.
    """

    fields: ClassVar[tuple[Field[Any], ...]] = ()
    values: dict[str, Any]
    problem = ""
    refused: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        own = [each for each in vars(cls).values() if isinstance(each, Field)]
        cls.fields = (*(each for each in cls.fields if each.name not in vars(cls)), *own)

    def __init__(self, **values: Any) -> None:
        """Sets these values, and those that a page opens with. Raises TypeError for an unknown field, ValueError for a
        value that a field does not have."""
        if unknown := values.keys() - {field.name for field in self.fields}:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}.")
        self._resolve(lambda field: values[field.name] if field.name in values else field.opening(self))
        if self.problem:
            raise ValueError(self.problem)

    @classmethod
    def read(cls, link: Iterable[tuple[str, str]]) -> Self:
        """Returns the state that the parameters of a link open."""
        reader = LinkReader(link)
        state = cls.__new__(cls)
        state._resolve(lambda field: field.read(state, reader))
        object.__setattr__(state, "refused", tuple(reader.refused.values()))
        return state

    @classmethod
    def resolved(cls, choose: Callable[[Field[Any], Self], Any]) -> Self:
        """Returns the state with the values that a function returns for each field and the state of those before it.
        Where it raises ValueError, `problem` says why."""
        state = cls.__new__(cls)
        state._resolve(lambda field: choose(field, state))
        return state

    @classmethod
    def partial(cls, **values: Any) -> Self:
        """Returns a state that is still being chosen: it has these fields alone, on which the next one depends."""
        state = cls.__new__(cls)
        object.__setattr__(state, "values", values)
        return state

    def updated(self, **values: Any) -> Self:
        """Returns this state with other values. Raises as the constructor does."""
        return type(self)(**self.values | values)

    def link(self) -> Link:
        """Returns the parameters of the link that opens this state. Raises ValueError if a value cannot be written,
        such as a file."""
        for written in self._written.values():
            if isinstance(written, ValueError):
                raise written
        return self.link_with()

    def link_with(self, **values: Any) -> Link:
        """Returns the link of this state with other values of some fields, and without what no link can have, or what
        is no option beside them; fields after them may be read differently. Raises ValueError if one of these values
        cannot be written."""
        written, changed = self._written, self
        for field in self.fields:  # each with those before it
            if field.name in values:
                changed = self.partial(**changed.values | {field.name: values[field.name]})
                written = written | {field.name: changed._parameters(field, values[field.name])}
            elif changed is not self and (own := written.get(field.name)) and not isinstance(own, ValueError):
                written = written if field.takes(changed, own) else written | {field.name: ()}
        links = (each for name in self.values if not isinstance(each := written[name], ValueError))
        return tuple(parameter for each in links for parameter in each)

    def opened(self, link: Iterable[tuple[str, str]]) -> Self:
        """Returns the state that a link of this one opens: what no link can have stays."""
        reader, kept = LinkReader(link), self._written
        return self.resolved(
            lambda field, state: (
                self.values[field.name] if isinstance(kept[field.name], ValueError) else field.read(state, reader)
            )
        )

    def _parameters(self, field: Field[Any], value: Any) -> Link:
        return () if value == field.opening(self) else tuple(field.write(self, value))

    @cached_property
    def _written(self) -> dict[str, Link | ValueError]:
        """The parameters of the value of each field, or why it cannot be written."""
        written: dict[str, Link | ValueError] = {}
        for field in self.fields:
            if field.name in self.values:
                try:
                    written[field.name] = self._parameters(field, self.values[field.name])
                except ValueError as problem:
                    written[field.name] = problem
        return written

    def _resolve(self, choose: Callable[[Field[Any]], Any]) -> None:
        values: dict[str, Any] = {}
        object.__setattr__(self, "values", values)
        for field in self.fields:
            try:
                values[field.name] = choose(field) if field.is_offered(self) else field.opening(self)
            except (ValueError, NotImplementedError, ImportError) as problem:  # of a package that is not installed
                object.__setattr__(self, "problem", str(problem))
                break

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.values == other.values

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"{type(self).__name__}({values})"
