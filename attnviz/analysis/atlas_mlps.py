"""What each MLP of a model writes over many texts: its norm at ordinary tokens, and examples of those."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnviz.analysis.atlas_checks import are_examples, are_sums, has_shapes
from attnviz.analysis.atlas_examples import RANDOM, WRITTEN, Examples
from attnviz.effects.sweep import Text
from attnviz.layer import LayerId
from attnviz.models.texts import Texts
from attnviz.tracing.changed_run import run_changed
from attnviz.tracing.run_changes import ModulePlace, Run, RunChange, changed_modules

MLP_KINDS = (WRITTEN, RANDOM)

_places: "WeakKeyDictionary[nn.Module, list[ModulePlace]]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class MlpCounts:
    """What is counted of MLPs over texts: the norm of what each writes, as mean over the ordinary tokens of a text, and
    examples of such tokens, whose query and key are one. Where a norm follows an MLP, as in Gemma 3, what it writes is
    what that reads."""

    layers: tuple[LayerId, ...]  # of the self-attention before each
    values: Float[Tensor, "sampled mlps"]  # NaN of a text without ordinary tokens
    counts: Int[Tensor, " mlps"]  # texts in which it is defined
    sums: Float[Tensor, " mlps"]
    squares: Float[Tensor, " mlps"]
    examples: dict[str, Examples]  # their weights are norms

    @property
    def means(self) -> Float[Tensor, " mlps"]:
        """The mean over texts."""
        return self.sums / self.counts

    def is_possible(self, texts: int) -> bool:
        """Returns whether its sizes fit each other, of so many texts whose values are kept, and whether MLPs can have
        these numbers."""
        mlps = len(self.layers)
        shapes = {"values": (texts, mlps), "counts": (mlps,), "sums": (mlps,), "squares": (mlps,)}
        return (
            all(isinstance(layer, LayerId) for layer in self.layers)
            and has_shapes(self, shapes)
            and are_examples(self.examples, MLP_KINDS, mlps)
            and are_sums(self.counts, self.sums, self.squares)
            and not bool((self.values.isinf() | (self.values < 0)).any())
        )

    def over_texts(self, order: Int[Tensor, " sampled"]) -> "MlpCounts":
        """Returns the same with the values in another order of the texts, and without what was written."""
        examples = {kind: one.without_values() for kind, one in self.examples.items()}
        return replace(self, values=self.values[order], examples=examples)

    @classmethod
    def merged(cls, parts: Sequence["MlpCounts"], sampled: int) -> "MlpCounts":
        """Returns what is counted over the texts of all parts, with the values of the first `sampled`."""
        counts, sums, squares = (
            torch.stack([getattr(part, name) for part in parts]).sum(0) for name in ("counts", "sums", "squares")
        )
        examples = {kind: Examples.merged([part.examples[kind] for part in parts]) for kind in MLP_KINDS}
        values = torch.cat([part.values for part in parts])[:sampled]
        return cls(parts[0].layers, values, counts, sums, squares, examples)


def mlp_places(model: nn.Module, texts: Texts) -> list[ModulePlace]:
    """Returns the MLPs of a model, recognized once in the first text; none where they are not known."""
    if model not in _places:
        try:
            text = Text.from_batch(model, texts[0])
            places = text.mlps
            is_by_token = all(len(one) in {*text.own.positions} for one in text.module_values(places))
        except (ValueError, NotImplementedError):
            places, is_by_token = [], True
        _places[model] = places if is_by_token else []
    return _places[model]


def are_added(text: Text) -> bool:
    """Returns whether the residual stream grows by what the first MLP writes, as it is: no norm follows it."""
    first = text.mlps[0]
    later = next((place for place in text.streams if place.layer > first.layer), None)
    if later is None:
        return False
    before = text.module_values([first, later])
    after: list[Tensor] = []

    def double(written: Tensor) -> None:
        written.mul_(2)

    run = [
        RunChange(module=first, values=double),
        RunChange(module=later, values=lambda stream: after.append(stream.clone())),
    ]
    run_changed(text.model, text.arguments, lambda layer, heads: None, lambda _: changed_modules([run], lambda: 1))
    return torch.allclose(after[0], before[1] + before[0], rtol=1e-3, atol=1e-3 * float(before[0].abs().max()))


class MlpReader:
    """Counts what MLPs write in a batch of texts of the same length, while the model runs."""

    def __init__(
        self, places: Sequence[ModulePlace], numbers: Sequence[int], seed: int,
        ordinary: Callable[[int], Bool[Tensor, "texts tokens"]],
    ) -> None:  # fmt: skip
        """`numbers` are those of the texts among all; `ordinary` says which tokens of a layer's queries are."""
        self.places, self.numbers, self.seed, self.ordinary = places, numbers, seed, ordinary
        self.values = torch.full((len(numbers), len(places)), torch.nan, dtype=torch.float64)
        self.examples: dict[str, dict[int, list[Examples]]] = {kind: defaultdict(list) for kind in MLP_KINDS}

    @property
    def runs(self) -> list[Run]:
        """The changes of each text, which change nothing."""
        return [
            [RunChange(module=place, values=partial(self._count, row, mlp)) for mlp, place in enumerate(self.places)]
            for row in range(len(self.numbers))
        ]

    def _count(self, row: int, mlp: int, written: Float[Tensor, "tokens width"]) -> None:
        norms, number = written.detach().float().norm(dim=-1).cpu(), self.numbers[row]
        possible = self.ordinary(self.places[mlp].layer)[row].nonzero().flatten()
        largest = drawn = 0
        orders = dict.fromkeys(MLP_KINDS, -torch.inf)
        if len(possible):
            generator = torch.Generator().manual_seed(hash((self.seed, number, -1 - mlp)) % (1 << 62))
            order, draw = torch.rand(2, generator=generator).tolist()
            largest, drawn = int(possible[norms[possible].argmax()]), int(possible[int(draw * len(possible))])
            self.values[row, mlp] = norms[possible].mean()
            orders = {WRITTEN: float(norms[largest]), RANDOM: order}
        for kind, place in ((WRITTEN, largest), (RANDOM, drawn)):
            places = torch.tensor([[[number, place, place]]], dtype=torch.int)
            width = written.shape[1] if kind == WRITTEN else 0
            vector = written[place, :width].detach().float().cpu().reshape(1, 1, -1).clone()  # not a view of all tokens
            self.examples[kind][mlp].append(
                Examples(torch.tensor([[orders[kind]]]), norms[place].reshape(1, 1), places, vector)
            )

    def counts(self, layers: Sequence[LayerId]) -> MlpCounts:
        """Returns the counts of the batch, after the model has run."""
        known = ~self.values.isnan()
        sums, squares = (self.values.nan_to_num(0).pow(power).sum(0) for power in (1, 2))
        examples = {
            kind: Examples.of_layers([Examples.merged(by_mlp[mlp]) for mlp in range(len(self.places))])
            for kind, by_mlp in self.examples.items()
        }
        return MlpCounts(tuple(layers), self.values.float(), known.sum(0), sums, squares, examples)
