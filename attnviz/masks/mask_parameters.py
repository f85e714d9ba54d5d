"""The masks that a text can name, and the parameters that they take."""

from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from attnviz.base.formatting import enumeration
from attnviz.base.language import N_, _
from attnviz.masks.catalogue import MASKS
from attnviz.masks.grid import Bits, Grid
from attnviz.masks.mask import Mask, Shifted, choice_word, snake_case


@cache
def names() -> dict[str, type[Mask]]:
    """Returns the masks that the language can name."""
    return {snake_case(kind): kind for kind in (*MASKS, Grid, Shifted)}


@cache
def settable_fields(name: str) -> dict[str, tuple[Field, tuple[Any, ...]]]:
    """Returns the fields of a mask that a person may set, with the types of their values; without fields that are None
    until the mask is bound."""
    kind: Any = names()[name]
    hints = get_type_hints(kind, include_extras=True)
    parameters = {}
    for one in fields(kind):
        hint = hints[one.name]
        kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        if NoneType not in kinds:
            parameters[one.name] = one, kinds
    return parameters


def parameters_clause(name: str) -> str:
    """Returns a clause that says which parameters a mask takes."""
    parameters = settable_fields(name)
    if len(parameters) == 1:
        ((only, (_field, kinds)),) = parameters.items()
        if kinds == (int,):
            return _("{mask} takes one number, its {parameter}", mask=name, parameter=only)
        return _("{mask} takes one parameter, its {parameter}", mask=name, parameter=only)
    if not parameters:
        return _("{mask} takes no parameters", mask=name)
    return _("{mask} takes {parameters}", mask=name, parameters=enumeration(list(parameters)))


def is_required(one: Field) -> bool:
    """Returns whether a field has no value of its own."""
    return one.default is MISSING and one.default_factory is MISSING


def value_kind(kind: Any) -> str:
    """Returns what a value of a kind is."""
    if get_origin(kind) is tuple:
        return _("a list such as {list}", list="[1, 0, 1]" if bool in get_args(kind) else "[3, 4]")
    if get_origin(kind) is Literal:
        return enumeration([choice_word(value) for value in get_args(kind)], N_("or"))
    return _("a number such as 0x80c0") if kind == Bits else _("a whole number")
