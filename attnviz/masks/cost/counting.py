"""Counting of row intervals: keys of each query, blocks, and how long each key is cached."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# Steps of what is counted: of a call, of an interval, of each rectangle in it, and of a line of a wide rectangle.
STEPS_OF_A_CALL, STEPS_OF_AN_INTERVAL, STEPS_OF_A_RECTANGLE, STEPS_OF_A_LINE = 400_000, 60, 150, 200


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of a mask."""

    row_counts: np.ndarray  # for each query, how many keys it sees
    occupied: np.ndarray  # for each block, whether a pair in it is allowed
    masked: np.ndarray  # for each block, whether a pair in it is masked
    last: np.ndarray  # for each key, the last query that sees it; -1 if none does

    def full_blocks(self, queries: int, keys: int, block: int) -> int:
        """Returns the number of blocks whose pairs are all allowed; blocks that reach over an edge are not counted, as
        in FlexAttention."""
        return int((~self.masked[: queries // block, : keys // block]).sum())


def cache_sizes(last: np.ndarray) -> np.ndarray:
    """Returns the number of keys that are cached at each time: each from its own time to that of the last query that
    attends to it."""
    key = np.flatnonzero(last >= np.arange(last.size))
    come, gone = (np.bincount(time, minlength=last.size + 1) for time in (key, last[key] + 1))
    return (come - gone).cumsum()[:-1]


class IntervalCounter:
    """Counts intervals.

    Keys form a grid whose lines have the length of one period. An interval is up to three rectangles in it: a part of
    its first line, the lines between, and a part of its last line. Rectangles are arrays of first line and line after,
    first column and column after.
    """

    def __init__(
        self, distinct_rows: np.ndarray, queries: int, keys: int, period: int, block: int, spend: Callable[[int], None]
    ) -> None:
        self.distinct_rows, self.keys, self.period, self.block = distinct_rows, keys, period, block
        self.spend = spend  # is called with the steps of what is counted next
        self.until = np.zeros(queries, int)  # the last query for which one stands
        self.until[distinct_rows] = np.append(distinct_rows[1:], queries) - 1
        self.row_counts = np.zeros(queries, int)
        shape = -(-queries // block) + 1, -(-keys // block) + 1
        self.occupied, self.masked = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        lines = -(-keys // period)
        # For rectangles of 2^i lines and 2^j columns: at [i, line, j, column] the last query for which one begins.
        self.last = np.full((lines.bit_length(), lines, period.bit_length(), period), -1, np.int32)

    def add(self, allowed: np.ndarray, masked: np.ndarray) -> None:
        """Adds intervals that are allowed, and all others of the same queries."""
        self.spend(STEPS_OF_A_CALL + STEPS_OF_AN_INTERVAL * (allowed.shape[1] + masked.shape[1]))
        query, rectangles = self.rectangles(allowed)
        first, after, left, right = rectangles
        np.add.at(self.row_counts, query, (after - first) * (right - left))
        self.paint(rectangles, self.until.take(query))
        self.mark(self.occupied, query, rectangles)
        self.mark(self.masked, *self.rectangles(masked))

    def rectangles(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the query of each rectangle, and the rectangles."""
        query, start, stop, low, high = pieces
        first, begin = np.divmod(start, self.period)
        last, end = np.divmod(stop - 1, self.period)
        several = np.flatnonzero(first < last)  # of the intervals: those over several lines
        high_of_first = np.minimum(high, end + 1)
        high_of_first[several] = high[several]
        parts = [np.stack([first, first + 1, np.maximum(low, begin), high_of_first])]
        if several.size:
            query = np.concatenate([query, query[several], query[several]])
            first, last, end, low, high = (each[several] for each in (first, last, end, low, high))
            parts.append(np.stack([first + 1, last, low, high]))
            parts.append(np.stack([last, last + 1, low, np.minimum(high, end + 1)]))
        rectangles = np.concatenate(parts, axis=1)
        is_filled = (rectangles[0] < rectangles[1]) & (rectangles[2] < rectangles[3])
        return query.compress(is_filled), rectangles.compress(is_filled, axis=1)

    def paint(self, rectangles: np.ndarray, query: np.ndarray) -> None:
        """Records the last query that attends to these keys: each rectangle is covered by four whose sides are powers
        of two."""
        first, after, left, right = rectangles
        _, lines, widths, columns = self.last.shape
        tall, wide = (np.frexp(size)[1] - 1 for size in (after - first, right - left))
        query = query.astype(np.int32)
        for line in (first, after - (1 << tall)) if tall.any() else (first,):
            for column in (left, right - (1 << wide)):
                place = ((tall * lines + line) * widths + wide) * columns + column
                np.maximum.at(self.last.reshape(-1), place, query)

    def mark(self, changes: np.ndarray, query: np.ndarray, rectangles: np.ndarray) -> None:
        """Records the blocks of these rectangles: where their number changes from one block to the next."""
        self.spend(STEPS_OF_A_RECTANGLE * query.size)
        top, bottom = query // self.block, self.until.take(query) // self.block + 1
        first, after, left, right = rectangles
        if self.period > self.block:
            # Lines may lie farther apart than a block: each for itself. Rectangles of neighbors mostly overlap.
            top, bottom, first, after, left, right = _merged_rectangles(top, bottom, first, after, left, right)
            lines = after - first
            self.spend(STEPS_OF_A_LINE * int(lines.sum()))
            top, bottom, first, left, right = (np.repeat(array, lines) for array in (top, bottom, first, left, right))
            first = first + concatenated_ranges(lines)
            after = first + 1
        left = (first * self.period + left) // self.block
        right = ((after - 1) * self.period + right - 1) // self.block + 1
        for row, column, step in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
            np.add.at(changes.reshape(-1), row * changes.shape[1] + column, np.int32(step))

    def counts(self) -> Counts:
        """Returns the counts of all intervals."""
        row_counts = np.repeat(
            self.row_counts[self.distinct_rows], self.until[self.distinct_rows] - self.distinct_rows + 1
        )
        for changes in (self.occupied, self.masked):
            for before, row in pairwise(changes):  # numpy's own sum across rows takes ten times as long
                row += before
        occupied, masked = (each.cumsum(1, np.int32)[:-1, :-1] > 0 for each in (self.occupied, self.masked))
        last = _spread(np.moveaxis(_spread(self.last), 0, 2)).T.reshape(-1)
        return Counts(row_counts, occupied, masked, last[: self.keys].astype(int))


def _spread(sizes: np.ndarray) -> np.ndarray:
    """Returns the maximum at each place of values that were recorded at the starts of runs of 1, 2, 4, … places."""
    for i in range(len(sizes) - 1, 0, -1):
        half = 1 << (i - 1)
        np.maximum(sizes[i - 1], sizes[i], out=sizes[i - 1])
        np.maximum(sizes[i - 1][half:], sizes[i][:-half], out=sizes[i - 1][half:])
    return sizes[0]


def _merged_rectangles(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Merges rectangles that overlap or touch and are equal except for left and right."""
    *same, left, right = arrays
    order = np.lexsort((left, *same))
    *same, left, right = (array.take(order) for array in arrays)
    new = np.append(True, np.any([np.diff(array) != 0 for array in same], axis=0))[: left.size]
    far = new.cumsum() * (right.max(initial=0) + 1)  # keeps apart what is not of one kind
    reached = np.maximum.accumulate(far + right)
    new[1:] = (far + left)[1:] > reached[:-1]
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], left.size)[: begins.size] - 1
    return (*(array.take(begins) for array in (*same, left)), (reached - far).take(ends))


def concatenated_ranges(lengths: np.ndarray) -> np.ndarray:
    """Returns 0, 1, 2, … for each of the lengths, concatenated."""
    return np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
