"""The parameters of masks, scores, biases and normalizers, checked against what their fields declare."""

from dataclasses import fields
from math import isfinite
from typing import Literal, NoReturn, get_args, get_origin

from attnviz.base.language import N_, value_error

NO_CHOICE = N_("{name} needs {parameter} to be one of {choices}; it got {value}.")
NOT_FINITE = N_("{name} needs a finite {parameter}; it got {value}.")
NOT_POSITIVE = N_("{name} needs a finite {parameter} above 0; it got {value}.")
TOO_SMALL = N_("{name} needs {parameter} ≥ {least}; it got {value}.")


class Parameterized:
    """A base of dataclasses whose fields declare their choices as a Literal, and their least number as `min`.

    A whole number, or each of several, is at least that. A real number is finite, and above 0 if its `min` is above 0,
    which is where its widget begins. Raises ValueError for other values.
    """

    def __post_init__(self) -> None:
        self.check_choices()
        for parameter in fields(self):  # type: ignore[arg-type]
            value, least = getattr(self, parameter.name), parameter.metadata.get("min")
            if isinstance(least, float):
                if value is not None and not (isfinite(value) and (value > 0 or least <= 0)):
                    label = parameter.metadata.get("label", parameter.name)
                    self._refuse(NOT_POSITIVE if least > 0 else NOT_FINITE, label, value)
            elif least is not None:
                for number in value if isinstance(value, tuple) else (value,):
                    if number < least:
                        self._refuse(TOO_SMALL, parameter.name, number, least=least)

    def check_choices(self) -> None:
        """Raises ValueError if a parameter is not one of its choices."""
        for parameter in fields(self):  # type: ignore[arg-type]
            if parameter.metadata and get_origin(parameter.type) is Literal:
                value, choices = getattr(self, parameter.name), get_args(parameter.type)
                if value not in choices:
                    self._refuse(NO_CHOICE, parameter.name, repr(value), choices=", ".join(choices))

    def _refuse(self, sentence: str, parameter: str, value: object, **limits: object) -> NoReturn:
        raise value_error(sentence, name=type(self).__name__, parameter=parameter, value=value, **limits)
