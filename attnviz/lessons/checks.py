"""Checks of answers against what a page has computed."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attnviz.base.formatting import enumeration, visible
from attnviz.base.language import _, value_error

Quantities = Mapping[str, float]  # what a page has computed, by name
TOLERANCE = 0.0051  # numbers are read with two decimals
OPERATORS = "<>="
WEIGHT = "weight of "
MOST_NAMES = 12  # in an error
LONGEST_CONDITION = 300  # characters


@dataclass(frozen=True)
class Choice:
    """A choice of one of several texts; the author names the right one."""

    options: tuple[str, ...]
    right: str

    def is_right(self, answer: str, quantities: Quantities) -> bool:
        return answer == self.right


@dataclass(frozen=True)
class Tap:
    """The `count` tokens with the largest weights of the selected query."""

    count: int

    def is_right(self, answer: Sequence[str], quantities: Quantities) -> bool:
        weights = token_weights(quantities)
        largest = sorted(weights.values(), reverse=True)[: self.count]
        return len(answer) == self.count and {weights[token] for token in answer} == {*largest}


@dataclass(frozen=True)
class NumberCheck:
    """A number that the page has computed, to two decimals; a share of one may be given in percent, and a number below
    zero without its sign, as the answer of "by how much does it fall".

    Example:
        >>> check = NumberCheck("weight of cat")
        >>> [check.is_right(answer, {"weight of cat": 0.521}) for answer in (0.52, 52, 5.2)]
        [True, True, False]
        >>> [check.is_right(answer, {"weight of cat": -3.12}) for answer in (-3.12, 3.12)]
        [True, True]
    """

    quantity: str

    def is_right(self, answer: float, quantities: Quantities) -> bool:
        number = find_quantity(self.quantity, quantities)
        in_percent = 0 < number <= 1 < answer and _is_equal(answer / 100, number)
        return _is_equal(answer, number) or in_percent or (number < 0 and _is_equal(answer, -number))


@dataclass(frozen=True)
class Condition:
    """A state to be reached: a quantity that is less than, more than or equal to a number or another quantity.

    Example:
        >>> Condition.parse("largest weight < 0.25").is_right(None, {"largest weight": 0.2})
        True
    """

    quantity: str
    operator: str
    other: str

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Raises ValueError if the text is not a condition."""
        match = re.fullmatch(rf"(.+?) ([{OPERATORS}]) (.+)", text.strip()) if len(text) <= LONGEST_CONDITION else None
        if not match:
            raise value_error(
                "“{text}” is not a condition; expected, for example, “largest weight < 0.25”.",
                text=text[:LONGEST_CONDITION],
            )
        return cls(*match.groups())

    def is_right(self, answer: object, quantities: Quantities) -> bool:
        left = find_quantity(self.quantity, quantities)
        try:
            right = float(self.other)
        except ValueError:
            right = find_quantity(self.other, quantities)
        if self.operator == "=":
            return _is_equal(left, right)
        return left < right if self.operator == "<" else left > right


Check = Choice | Tap | NumberCheck | Condition


def find_quantity(name: str, quantities: Quantities) -> float:
    """Raises ValueError if the page has no such quantity."""
    if name not in quantities:
        known = [*quantities][:MOST_NAMES] + ["…"] * (len(quantities) > MOST_NAMES)
        raise value_error(
            "This page has no “{name}”; it has {names}.",
            name=name,
            names=enumeration(known) or _("no numbers to check"),
        )
    return quantities[name]


def row_quantities(
    keys: Sequence[str],
    weights: Float[np.ndarray, " keys"],
    scores: Sequence[float] | Float[np.ndarray, " keys"] = (),
    suffix: str = "",
) -> dict[str, float]:
    """Returns the quantities of one query: "weight of KEY", "score of KEY", "largest weight", "keys with weight" and
    "sum of weights", followed by `suffix`. A masked key has no weight.

    Keys with equal names are numbered: "the", "the (2)".

    Example:
        >>> row_quantities(["cat", "hen"], np.array([0.9, 0.1]), suffix=" under A")["weight of hen under A"]
        0.1
    """
    known = np.nan_to_num(np.asarray(weights, dtype=float))
    return (
        named_quantities(WEIGHT, keys, known, suffix)
        | named_quantities("score of ", keys, scores, suffix)
        | {
            f"largest weight{suffix}": float(known.max(initial=0)),
            f"keys with weight{suffix}": float(np.count_nonzero(known)),
            f"sum of weights{suffix}": float(known.sum()),
        }
    )


def named_quantities(
    name: str, tokens: Sequence[str], values: Sequence[float] | Float[np.ndarray, " tokens"], suffix: str = ""
) -> dict[str, float]:
    """Returns a quantity of each token that has a value: "NAMEtokenSUFFIX"; equal tokens are numbered.

    Example:
        >>> named_quantities("score of ", ["the", "the"], [1.0, 2.0])
        {'score of the': 1.0, 'score of the (2)': 2.0}
    """
    distinct = _distinct([visible(token) for token in tokens])
    return {f"{name}{token}{suffix}": float(value) for token, value in zip(distinct, values, strict=False)}


def rows_quantities(keys: Sequence[str], rows: Mapping[str, Float[np.ndarray, " keys"]]) -> dict[str, float]:
    """Returns the quantities of several rows of weights, each followed by its name in `rows`."""
    return {
        name: value for suffix, row in rows.items() for name, value in row_quantities(keys, row, suffix=suffix).items()
    }


def map_quantities(
    queries: Sequence[str], keys: Sequence[str], weights: Float[np.ndarray, "queries keys"], suffix: str
) -> dict[str, float]:
    """Returns the quantities of the rows of a map, each followed by " for QUERY" and `suffix`."""
    names = _distinct([visible(query) for query in queries])
    return rows_quantities(keys, {f" for {name}{suffix}": row for name, row in zip(names, weights, strict=True)})


def token_weights(quantities: Quantities) -> dict[str, float]:
    """Returns the weights of the selected query by token."""
    return {name.removeprefix(WEIGHT): value for name, value in quantities.items() if name.startswith(WEIGHT)}


def _distinct(names: Sequence[str]) -> list[str]:
    return [name if (nth := names[:i].count(name)) == 0 else f"{name} ({nth + 1})" for i, name in enumerate(names)]


def _is_equal(first: float, second: float) -> bool:
    return math.isfinite(first) and abs(first - second) <= TOLERANCE
