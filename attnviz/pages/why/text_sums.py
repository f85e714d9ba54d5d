"""The sum of each of several texts, by what wrote it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.attribution.linearized_pass import check_memory
from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.attribution.named_pass import MOST_BYTES, NamedPass
from attnviz.attribution.sum_term import SumTerm
from attnviz.attribution.text_attribution import read_inputs
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import numbered_tokens
from attnviz.base.language import value_error
from attnviz.models.texts import PerText
from attnviz.page.head_numbers import Place
from attnviz.page.text_list import MeasuredText, text_refusal
from attnviz.pages.why.answer import WhyAnswer
from attnviz.pages.why.state import WhyState
from attnviz.tracing.forward_arguments import example_arguments

Measured = tuple[MeasuredText, Logit | LogitDifference]


@dataclass(frozen=True, eq=False)
class TextSums:
    """The sums of the texts that have been read, of `count`: what each adds up to, and what of it each writer wrote at
    all positions. The cells are those of `HeadNumbers`: the inputs in the first row, the MLPs in the last column."""

    count: int
    measured: tuple[Measured, ...]
    totals: Float[np.ndarray, " texts"]
    errors: Float[np.ndarray, " texts"]
    cells: Float[np.ndarray, "texts rows columns"]
    positions: Int[np.ndarray, "texts layers columns"]  # of the largest term of each head and MLP
    after: tuple[str, ...]  # the last position as links have it, where Why does not open with it

    @cached_property
    def mean_cells(self) -> Float[np.ndarray, "rows columns"]:
        """The mean of the cells over the texts."""
        return self._of_texts.mean.numpy()

    @cached_property
    def cell_errors(self) -> Float[np.ndarray, "rows columns"]:
        """The standard error of that mean, NaN for one text."""
        return self._of_texts.spread.standard_error.numpy()

    @property
    def _of_texts(self) -> PerText[Tensor]:
        return PerText(tuple(map(torch.from_numpy, self.cells)))

    @property
    def is_complete(self) -> bool:
        """Whether all texts have been read."""
        return len(self.measured) == self.count

    def shares(self, place: Place) -> Float[np.ndarray, " texts"]:
        """Returns the share of a writer in each text."""
        return self.cells[:, place[0] + 1, place[1]]

    def term(self, run: NamedPass, number: int, place: Place) -> SumTerm | None:
        """Returns the largest term of a head or an MLP in a text; None of another writer."""
        layer, column = place
        if layer < 0:
            return None
        position = int(self.positions[number, layer, column])
        if column < max(run.heads):
            return SumTerm(position, layer, column)
        return SumTerm(position, max(mlp for mlp, own in enumerate(run.mlp_layers) if own == layer))


def text_sums(state: WhyState, progress: Callable[[float, TextSums], None] | None = None) -> TextSums:
    """Returns the sum of each text of the list, with those so far to `progress`. Raises ValueError if a text cannot be
    read, before the first sum is computed, or if a number is not a sum."""
    model, measured = state.source.model(), state.measured
    inputs = []
    for number, (text, _metric) in enumerate(measured, 1):
        try:
            with torch.no_grad():
                read = model.encode(text.text)
            check_memory(model.model, example_arguments(model.model, read.batch), MOST_BYTES)
        except ValueError as problem:
            raise text_refusal(number, problem) from problem
        inputs.append(read)
    parts: list[TextSums] = []
    for number, (one, read) in enumerate(zip(measured, inputs, strict=True), 1):
        try:
            part = _sum_of(one, read_inputs(model, read))
        except ValueError as problem:
            raise text_refusal(number, problem) from problem
        if parts and part.cells.shape != parts[0].cells.shape:
            raise value_error("The layers of {name} are different on these texts.", name=state.model)
        parts.append(part)
        if progress is not None:
            progress(number / len(measured), _joined(parts, len(measured)))
    return _joined(parts, len(measured))


def _sum_of(measured: Measured, run: NamedPass) -> TextSums:
    attribution = run.attribution(measured[1])
    cells = WhyAnswer(run, (), None, (attribution,)).numbers.cells
    positions = np.zeros((len(cells) - 1, cells.shape[1]), int)
    positions[:, :-1] = attribution.heads.abs().argmax(-1).numpy()
    positions[[*run.mlp_layers], -1] = attribution.mlps.abs().argmax(-1).numpy()
    last, is_labels = len(run.predicting) - 1, run.names_labels
    opens_last = is_labels or run.opening_position % len(run.predicting) == last
    after = "" if opens_last else numbered_tokens(range(last + 1), run.predicting)[last]
    numbers = np.array([attribution.total]), np.array([attribution.error])
    return TextSums(1, (measured,), *numbers, cells[None], positions[None], (after,))


def _joined(parts: list[TextSums], count: int) -> TextSums:
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("totals", "errors", "cells", "positions")
    }
    measured, after = tuple(part.measured[0] for part in parts), tuple(part.after[0] for part in parts)
    return TextSums(count, measured, after=after, **arrays)
