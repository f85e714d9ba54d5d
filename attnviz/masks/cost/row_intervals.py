"""The rows of a mask, split into intervals in which its rule is constant.

A comparison changes along the keys only where its term crosses 0; where the term is monotonic, a division or a binary
search finds that place. Many rows are split at once. What repeats along the keys, as `(q - k) % 362 == 0` does, is
split within one period: an interval is a range of keys and a range of their remainders,

start ≤ k < stop and low ≤ k % period < high.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnviz.base.language import _
from attnviz.masks.comparisons import COMPARISONS, ComparisonSign
from attnviz.masks.cost.counting import Counts, IntervalCounter, concatenated_ranges
from attnviz.masks.cost.monotonicity import ArrayLookup, bend, cases, linear, period, query_parts, replaced, value
from attnviz.masks.cost.normal_form import NormalForm, UnstructuredRule, allows, common_period, comparisons, normal_form
from attnviz.masks.mask import Compare, Mask
from attnviz.masks.terms import Arithmetic, Function, Number, Term

MAX_PIECES = 2**17  # in memory at once
# Steps, and those that each operation of the term adds: of a split, for any number of intervals; of an interval that is
# looked at; of one that is new; of a place that a search looks at.
STEPS_OF_A_SPLIT = 50_000
STEPS_OF_A_PIECE, STEPS_OF_A_CHANGE, STEPS_OF_A_LOOK = (80, 10), (120, 40), (10, 10)
QUERY, START, STOP, LOW, HIGH = range(5)  # the rows of an array of pieces
KEYS, REMAINDERS = START, LOW  # what pieces are cut along
ArrayFunction = Callable[[np.ndarray], Any]  # a whole number for each of an array


class TooManyPieces(Exception):
    """More intervals than fit into memory at once."""


class StepBudget:
    """The steps that may be spent on splitting rows and counting their intervals; a step is half a nanosecond."""

    def __init__(self, steps: int) -> None:
        self.steps, self.spent = steps, 0

    def spend(self, steps: int) -> None:
        """Spends steps. Raises UnstructuredRule, beforehand, if fewer are left."""
        if self.spent + steps > self.steps:
            self.spent = max(self.spent, self.steps)
            raise UnstructuredRule(_("changes too often along the keys"))
        self.spent += steps


class RowIntervals:
    """The rows of a mask and the intervals in which its rule is constant: arrays of query, start, stop, low and high.

    Raises UnstructuredRule when the budget is spent.
    """

    def __init__(self, mask: Mask, queries: int, keys: int, head: int, budget: StepBudget) -> None:
        self.queries, self.keys, self.budget = queries, keys, budget
        self.rule = normal_form(mask, queries, keys, head)
        self.period = common_period(self.rule, keys)

    def counts(self, block: int) -> Counts:
        """Returns the counts, from the intervals of as many rows at a time as memory allows."""
        distinct_rows = self.distinct_rows()
        counter = IntervalCounter(distinct_rows, self.queries, self.keys, self.period, block, self.budget.spend)
        first, step = 0, 2**14
        while first < distinct_rows.size:
            try:
                counter.add(*self.pieces(distinct_rows[first : first + step]))
                first += step
            except TooManyPieces:
                if step == 1:
                    raise UnstructuredRule(_("changes too often along the keys")) from None
                step //= 2
        return counter.counts()

    def distinct_rows(self) -> np.ndarray:
        """Returns the queries whose row differs from the row before."""
        query = np.arange(self.queries)
        changes = query == 0
        for one in comparisons(self.rule):
            term, _ = one.terms
            parts = [value(part, query, 0) for part in query_parts(term)]
            for values in parts if "k" in term.names else [allows(one, query, 0)]:
                changes[1:] |= np.diff(np.broadcast_to(values, query.shape)) != 0
        return np.flatnonzero(changes)

    def pieces(self, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the intervals that the rule allows for these queries, and the others."""
        zero = np.zeros_like(query)
        return self.split(self.rule, np.stack([query, zero, zero + self.keys, zero, zero + self.period]))

    def split(self, rule: NormalForm, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Splits intervals into those that the rule allows, and the others."""
        if isinstance(rule, Compare):
            return self.split_by_sign(rule.terms[0], rule.signs[0], pieces)
        settled = []
        for one in rule.rules:
            allowed, masked = self.split(one, pieces)
            pieces, done = (allowed, masked) if rule.every else (masked, allowed)
            settled.append(done)
        done = np.concatenate(settled, axis=1)
        return (pieces, done) if rule.every else (done, pieces)

    def split_by_sign(self, term: Term, sign: ComparisonSign, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Splits intervals into those where `term sign 0` holds, and the others."""
        if not pieces.size:
            return pieces, pieces
        if function := bend(term):
            condition, *straight = cases(function)
            parts = zip(straight, self.split_by_sign(condition, ">=", pieces), strict=True)
            split = [self.split_by_sign(replaced(term, function, one), sign, part) for one, part in parts]
            allowed, masked = (np.concatenate(side, axis=1) for side in zip(*split, strict=True))
            return allowed, masked
        along = REMAINDERS if period(term) and self.period % period(term) == 0 else KEYS
        if "k" in term.names:
            # It matters where the term is below, at or above 0; for ≥ and < only whether it is below, and so on.
            low, high = {">=": (-1, 0), "<": (-1, 0), ">": (0, 1), "<=": (0, 1)}.get(sign, (-1, 1))
            pieces = self.monotone(term, pieces, along)
            pieces = self.cut(term, pieces, along, lambda number: number.clip(low, high), lambda mark: mark)
        holds = np.broadcast_to(COMPARISONS[sign](value(term, pieces[QUERY], pieces[along]), 0), pieces.shape[1:])
        return pieces.compress(holds, axis=1), pieces.compress(~holds, axis=1)

    def monotone(self, term: Term, pieces: np.ndarray, along: int) -> np.ndarray:
        """Splits intervals until the term is monotonic along each."""
        if linear(term):
            return pieces
        for part in term.parts():
            pieces = self.monotone(part, pieces, along)
        match term:
            case Arithmetic("+", left, right):
                self.check_monotone(term, left, right, pieces, along)
            case Arithmetic("-", left, right):
                self.check_monotone(term, left, Arithmetic("-", Number(0), right), pieces, along)
            case Arithmetic("*", left, right) if "k" in left.names and "k" in right.names:
                for part in (left, right):
                    pieces = self.cut(part, pieces, along, np.sign, lambda mark: mark)
                self.check_monotone(term, Function("abs", (left,)), Function("abs", (right,)), pieces, along)
            case Arithmetic("//", _, right) if "k" in right.names:
                raise UnstructuredRule(_("divides by {right}", right=right))
            case Arithmetic("%", left, right):
                if not isinstance(right, Number) or right.number < 1:
                    raise UnstructuredRule(_("takes the remainder of {right}", right=right))
                size = right.number
                pieces = self.cut(left, pieces, along, lambda number: number // size, lambda mark: mark * size)
            case ArrayLookup(_, turns, turned, index):
                pieces = self.cut(index, pieces, along, turned.take, lambda mark: turns.take(mark, mode="clip"))
        return pieces

    def check_monotone(self, term: Term, left: Term, right: Term, pieces: np.ndarray, along: int) -> None:
        """Raises UnstructuredRule if one part of a term rises where the other falls."""
        start, end = pieces[along], pieces[along + 1] - 1
        ends = [(value(part, pieces[QUERY], start), value(part, pieces[QUERY], end)) for part in (left, right)]
        (rises, falls), (rises_too, falls_too) = ((last > first, last < first) for first, last in ends)
        if np.any((rises & falls_too) | (falls & rises_too)):
            raise UnstructuredRule(_("holds {term}, which rises and falls", term=term))

    def cut(self, term: Term, pieces: np.ndarray, along: int, mark: ArrayFunction, least: ArrayFunction) -> np.ndarray:
        """Splits intervals wherever the mark of a term changes, which must be monotonic along each.

        A mark is an integer that does not decrease where the term rises; `least` returns the smallest term of a mark.
        """
        query, start, end = pieces[QUERY], pieces[along], pieces[along + 1] - 1
        at_start, at_end = value(term, query, start), value(term, query, end)
        first, last = mark(at_start), mark(at_end)
        changes = abs(last - first)
        new = int(changes.sum(dtype=float))
        self.budget.spend(STEPS_OF_A_SPLIT)
        self.spend(term, STEPS_OF_A_PIECE, pieces.shape[1])
        if not new:
            return pieces
        if pieces.shape[1] + new > MAX_PIECES:
            raise TooManyPieces
        self.spend(term, STEPS_OF_A_CHANGE, new)
        same, changing = np.flatnonzero(changes == 0), np.flatnonzero(changes)
        changes = changes.take(changing)
        # One search for each change: where the term, or minus the term where it falls, reaches its next mark.
        piece, nth = np.repeat(changing, changes), concatenated_ranges(changes)
        arrays = (query, start, end, at_start, at_end, first, last)
        query, start, end, at_start, at_end, first, last = (array.take(piece) for array in arrays)
        sign = np.sign(last - first)
        target = np.where(sign > 0, least(first + nth + 1), 1 - least(first - nth))
        places = self.crossings(term, sign, target, query, start, end, (sign * at_start, sign * at_end))
        parts, inner = pieces.take(np.repeat(changing, changes + 1), axis=1), concatenated_ranges(changes + 1) > 0
        parts[along, inner] = places
        parts[along + 1, np.roll(inner, -1)] = places
        parts = parts.compress(parts[along] < parts[along + 1], axis=1)
        return np.concatenate([pieces.take(same, axis=1), parts], axis=1)

    def spend(self, term: Term, steps: tuple[int, int], count: int) -> None:
        """Spends the steps of `count` intervals or places, at which this term is computed."""
        operations = sum("k" in part.names for part in term.subterms() if part.parts())
        self.budget.spend(count * (steps[0] + steps[1] * operations))

    def crossings(
        self,
        term: Term,
        sign: np.ndarray,
        target: np.ndarray,
        query: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        ends: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        """Returns the first places where sign · term reaches its target, as it does at `high` and does not at `low`."""
        # A division gives the place for a linear term, and the place before it proves that. Others are searched.
        estimate = low - (ends[0] - target) * (high - low) // (ends[1] - ends[0])
        for place in (estimate, estimate - 1):
            place = place.clip(low, high)
            there = sign * value(term, query, place) >= target
            low, high = np.where(there, low, place), np.where(there, place, high)
        while (wide := np.flatnonzero(high - low > 1)).size:
            self.spend(term, STEPS_OF_A_LOOK, wide.size)
            place = (low[wide] + high[wide]) // 2
            there = sign[wide] * value(term, query[wide], place) >= target[wide]
            high[wide[there]], low[wide[~there]] = place[there], place[~there]
        return high
