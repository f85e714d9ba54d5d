"""A clean and a corrupted text, and what a metric becomes in the corrupted one with parts of the clean one's run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.effects.metrics import Cosine, Loss
from attnviz.effects.sweep import Run, Text, TextMetric
from attnviz.effects.token_alignment import Alignment
from attnviz.models.texts import PerText
from attnviz.results import MeasuredResult, grid_columns
from attnviz.tracing.optional_transformers import is_encoder_decoder

Cell: TypeAlias = tuple[int, ...]  # of a grid
LEAST_DIFFERENCE = 1e-6  # of two metrics, as a share of the larger, that is not rounding


@dataclass(frozen=True, eq=False)
class Patching(MeasuredResult):
    """The metric of patched runs of a corrupted text, and of both texts where nothing is patched."""

    values: Float[Tensor, "..."]  # NaN where nothing is patched
    clean: float
    corrupted: float
    layers: tuple[int, ...]  # the layer of attention of each row: of an MLP that before it, of a stream that after it

    @property
    def recovered(self) -> Float[Tensor, "..."]:
        """The share of the way from the corrupted run to the clean one: 0 is as corrupted, 1 as clean; NaN if the
        metric is the same in both."""
        way = self.clean - self.corrupted
        if abs(way) <= LEAST_DIFFERENCE * max(abs(self.clean), abs(self.corrupted)):
            return torch.full_like(self.values, torch.nan)
        return (self.values - self.corrupted) / way

    def columns(self) -> dict[str, Any]:
        """Returns the metric and the share recovered of each place of the grid, by the layer and its other indices."""
        columns = grid_columns(("row",), value=self.values, recovered=self.recovered)
        return {"layer": [self.layers[row] for row in columns.pop("row")]} | columns


OnPatching: TypeAlias = Callable[[float, Patching], None]  # gets the share that is done, and the values so far


@dataclass(frozen=True, eq=False)
class TextPair:
    """Two texts that the same model reads, and pairs of positions (clean, corrupted) of tokens that belong together;
    without pairs, both have as many tokens, and each belongs to that at its position."""

    clean: Text
    corrupted: Text
    aligned: Alignment | None

    @classmethod
    def from_batches(cls, model: nn.Module, clean: Any, corrupted: Any, aligned: Alignment | None) -> "TextPair":
        """Returns the pair of two batches of one example; what is padding in one of them belongs to nothing. Raises
        ValueError if they are not aligned."""
        texts = (first := Text.from_batch(model, clean)), first.other(corrupted)
        if aligned is not None:
            read = [text.read(text.layers_of_source[0]) for text in texts]
            _check_alignment(aligned, [*map(len, read)])
            aligned = tuple(pair for pair in aligned if read[0][pair[0]] and read[1][pair[1]])
            _check_alignment(aligned, [*map(len, read)])
        pair = cls(*texts, aligned)
        for layer in range(len(texts[0].heads)):
            counts = [int(text.read(layer).sum()) for text in texts]
            if counts[0] != counts[1] and not pair._is_aligned(layer):
                raise value_error(
                    "The clean text has {clean} tokens and the corrupted one {corrupted}. Give texts of the same "
                    "number of tokens, or pairs of positions that belong together.",
                    clean=counts[0],
                    corrupted=counts[1],
                )
        return pair

    def positions(self, layer: int, count: int, of_keys: bool = False) -> Int[Tensor, "pairs 2"]:
        """Returns pairs of positions (clean, corrupted) of queries or keys of a layer, which has `count` of them in the
        clean text."""
        if self._is_aligned(layer, of_keys):
            return torch.tensor(self.aligned).reshape(-1, 2)
        of_source = of_keys and self.clean.own.ids[layer].cross
        own = self.clean.layers_of_source[0] if of_source else layer
        longer = self.corrupted.own.positions[own] - self.clean.own.positions[own]
        read = self.clean.read(layer, count, of_keys), self.corrupted.read(layer, count + longer, of_keys)
        return torch.stack([each.nonzero().flatten() for each in read], -1)

    def _is_aligned(self, layer: int, of_keys: bool = False) -> bool:
        """Returns whether pairs are of the queries or keys of a layer, not of a decoder's tokens beside an encoder."""
        if self.aligned is None or not is_encoder_decoder(self.corrupted.model):
            return self.aligned is not None
        layer_id = self.corrupted.own.ids[layer]
        return layer_id.cross if of_keys and layer_id.cross else layer_id.stack != "decoder" and not layer_id.cross

    def metric_of_corrupted(self, metric: TextMetric) -> TextMetric:
        """Returns a metric of the clean text with the aligned positions of the corrupted one; the last belongs to the
        last at least, and those counted from the end are the same. Raises ValueError if there is none."""
        if isinstance(metric, PerText):
            return metric.map(self.metric_of_corrupted)
        decoders = [layer for layer in range(len(self.clean.heads)) if layer not in self.clean.layers_of_source]
        layer = next(iter(decoders), 0)  # whose positions are those of logits
        pairs, is_aligned = self.positions(layer, self.clean.own.positions[layer]), self._is_aligned(layer)
        is_same = not is_aligned and bool((pairs[:, 0] == pairs[:, 1]).all())
        if callable(metric) or isinstance(metric, Cosine) or is_same:
            return metric
        names = ("first", "last") if isinstance(metric, Loss) else ("position",)
        places = {name: place for name in names if (place := getattr(metric, name)) is not None and place >= 0}
        read, other = (text.read(layer).nonzero().flatten().tolist() for text in (self.clean, self.corrupted))
        if isinstance(metric, Loss):  # of the tokens among these that are read
            for name, place in places.items():
                rest = [one for one in read if (one >= place if name == "first" else one <= place)]
                places[name] = (rest or read)[0 if name == "first" else -1]
        targets = {read[-1]: other[-1]} | dict(pairs.tolist())
        for place in places.values():
            if place not in targets:
                raise value_error(
                    "The metric is of position {index} of the clean text, which belongs to none of the corrupted one.",
                    index=place,
                )
        changed: dict[str, Any] = {name: max(targets[place], name != "position") for name, place in places.items()}
        return replace(metric, **changed)

    def patching(
        self,
        metric: TextMetric,
        shape: Sequence[int],
        cells: Mapping[Cell, Run],
        layers: Sequence[int] | None = None,
        on_progress: OnPatching | None = None,
    ) -> Patching | PerText[Patching]:
        """Returns the metric of changed runs of the corrupted text, each in a cell of a grid; those of runs without
        changes are as corrupted. `layers` are those of its rows, by default a row for each layer."""
        references, own = self.clean.references(metric), self.metric_of_corrupted(metric)
        ends = self.clean.values(metric, references).tolist(), self.corrupted.values(own, references).tolist()

        def on_grid(effects: Tensor, clean: float, corrupted: float) -> Patching:
            values = torch.full(tuple(shape), torch.nan, dtype=torch.float64)
            for cell, effect in zip(cells, effects, strict=True):
                values[cell] = corrupted + effect
            return Patching(values, clean, corrupted, tuple(range(shape[0]) if layers is None else layers))

        def progress(share: float, effects: Tensor) -> None:
            if on_progress:
                on_progress(share, on_grid(effects, *(end[-1] for end in ends)))

        effects = self.corrupted.effects(own, list(cells.values()), progress, references)
        return self.corrupted.of_texts([*map(on_grid, effects, *ends)])


def _check_alignment(aligned: Alignment, lengths: Sequence[int]) -> None:
    """Raises ValueError unless there are pairs, of positions that exist, each at most once."""
    if not aligned:
        raise value_error("No token of the clean text belongs to one of the corrupted text. Give texts that are alike.")
    for positions, count in zip(zip(*aligned, strict=True), lengths, strict=True):
        if not all(0 <= position < count for position in positions) or len({*positions}) < len(positions):
            raise value_error(
                "Aligned tokens are pairs of positions (clean, corrupted), each from 0 to {last} and at most once; "
                "these are {positions}.",
                last=count - 1,
                positions=", ".join(map(str, positions)),
            )
