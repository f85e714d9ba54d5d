"""How much of a metric a set of heads and MLPs computes, and how much is left without it."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.part_effects import mean_effects, part_estimates
from attnviz.effects.parts import (
    AblationKind,
    ModelPart,
    changed_parts,
    checked_parts,
    every_head,
    read_at,
    replacement_of,
    replacements,
)
from attnviz.effects.sweep import Text
from attnviz.effects.text_pair import LEAST_DIFFERENCE
from attnviz.models.texts import PerText, Texts, each_group, quantiles
from attnviz.results import MeasuredResult

ROUNDING = 1e-6  # of a share of a metric
PartMeasure: TypeAlias = Callable[..., Any]  # as part_effects or part_estimates
Order: TypeAlias = Sequence[ModelPart] | PartMeasure
Numbers: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]  # as _of_texts says
OnCircuits: TypeAlias = Callable[[int, int], None]  # gets the number of texts that are measured, and of all


@dataclass(frozen=True, eq=False)
class CircuitCurves(MeasuredResult):
    """A metric of a model with only the first parts of an order, and without them, for each of several sizes.

    `circuit` has the metric where only these parts are kept and all other heads and MLPs are replaced; `without` where
    these are replaced and all others are kept. `random` and `without_random` are the same of sets of parts that are
    drawn at random, of the same size, with as many heads and as many MLPs. `whole` is the metric of the model, and
    `nothing` where all heads and MLPs are replaced. The order was not found on these texts.
    """

    order: tuple[ModelPart, ...]
    sizes: tuple[int, ...]
    whole: Float[Tensor, " texts"]
    nothing: Float[Tensor, " texts"]
    circuit: Float[Tensor, "texts sizes"]
    without: Float[Tensor, "texts sizes"]
    random: Float[Tensor, "texts sets sizes"]
    without_random: Float[Tensor, "texts sets sizes"]

    def share(self, values: Float[Tensor, "texts *axes sizes"]) -> Float[Tensor, "*axes sizes"]:
        """Returns the share of the way from nothing to the whole model, of the means over texts: (m − m(nothing)) /
        (m(whole) − m(nothing)); NaN where both are the same."""
        nothing, whole = self._ends(values)  # of one shape with the values, so that sums are rounded alike
        return _share((values - nothing).mean(0), (whole - nothing).mean(0), whole.mean(0))

    def shares(self, values: Float[Tensor, "texts *axes sizes"]) -> Float[Tensor, "texts *axes sizes"]:
        """Returns the same of each text."""
        nothing, whole = self._ends(values)
        return _share(values - nothing, whole - nothing, whole)

    def _ends(self, values: Tensor) -> tuple[Tensor, Tensor]:
        shape = len(values), *[1] * (values.ndim - 1)
        nothing, whole = (end.reshape(shape).expand_as(values).contiguous() for end in (self.nothing, self.whole))
        return nothing, whole

    @property
    def faithfulness(self) -> Float[Tensor, " sizes"]:
        """The share of the metric that the circuit alone has: 0 with no part, 1 with all of them."""
        return self.share(self.circuit)

    @property
    def completeness(self) -> Float[Tensor, " sizes"]:
        """The share that is left without the circuit: 0 if it is complete."""
        return self.share(self.without)

    @property
    def random_faithfulness(self) -> Float[Tensor, "sets sizes"]:
        """The faithfulness of each random order."""
        return self.share(self.random)

    @property
    def random_completeness(self) -> Float[Tensor, "sets sizes"]:
        """The completeness of each random order."""
        return self.share(self.without_random)

    @property
    def is_above_whole(self) -> Bool[Tensor, " sizes"]:
        """Where a circuit has more of the metric than the whole model: parts that work against it are left out, so that
        it is not what the model does. A faithfulness above 1 is no better than one that is as far below."""
        return self.faithfulness > 1 + ROUNDING

    def columns(self) -> dict[str, Any]:
        """Returns the curves by the number of parts, and the last of these: the circuit's, with the 5 % and 95 %
        quantiles over the texts, beside the mean and the range of those of random sets."""
        names = ["", *map(str, self.order)]
        columns: dict[str, Any] = {"size": [*self.sizes], "part": [names[size] for size in self.sizes]}
        for name, values, of_random in (
            ("faithfulness", self.circuit, self.random),
            ("completeness", self.without, self.without_random),
        ):
            low, high = quantiles(self.shares(values), [0.05, 0.95], ignores_nan=True)
            columns |= {name: self.share(values), f"{name} low": low, f"{name} high": high}
            if len(several := self.share(of_random)):
                least, largest = several.aminmax(dim=0)
                columns |= {f"random {name}": several.mean(0)}
                columns |= {f"random {name} least": least, f"random {name} largest": largest}
        columns["above the whole model"] = self.is_above_whole
        return {name: one.numpy() if isinstance(one, Tensor) else one for name, one in columns.items()}


def circuit_curves(
    model: nn.Module,
    texts: Sequence[Any],
    metric: EffectMetric | PerText[Any],
    order: Order = part_estimates,
    *,
    neutral: Sequence[Any] | None = None,
    how: AblationKind = "mean",
    test_share: float = 0.5,
    sizes: Sequence[int] | None = None,
    random_sets: int = 5,
    mlps: bool = True,
    seed: int = 0,
    on_progress: OnCircuits | None = None,
) -> CircuitCurves:
    """Returns how faithful and how complete circuits of growing size are: a metric of the model with only the first
    parts of an order, and without them, on texts that the order was not found on (Wang et al. 2022, "Interpretability
    in the Wild"; as shares of the metric: Marks et al. 2024, "Sparse Feature Circuits").

    Parts are all heads and MLPs; without `mlps` the heads alone, and no MLP is replaced. What is replaced writes as in
    `ablations`, by its mean over `neutral` texts unless `how` says otherwise. `metric` is one for all texts, or a
    `PerText`. The last `test_share` of the texts is measured; `order` is what measures parts on the texts before them,
    `part_estimates` or `part_effects`, whose means have the largest absolute values first. Or it is a list of parts,
    outputs of heads and of MLPs, each at all positions or at some; then `test_share` may be 1. `sizes` are numbers of
    its parts, by default 0, 1, 2, 4, … and all. For comparison, `random_sets` orders are drawn by `seed`, each with a
    head in place of a head and an MLP in place of an MLP.

    Each size takes two forward passes of each text, and two for each random order. Raises ValueError as `ablations`, if
    there are no texts to find the order on, or no neutral ones, and for other parts or sizes.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from attnviz.attribution import Logit
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> texts = [torch.tensor([[1, 2, token]]) for token in (3, 5, 7, 8)]
        >>> curves = circuit_curves(model, texts, Logit(4), neutral=[torch.tensor([[6, 2, 1, 3]])])
        >>> curves.sizes, curves.circuit.shape, float(curves.faithfulness[0]), float(curves.faithfulness[-1])
        ((0, 1, 2, 4, 6), torch.Size([2, 5]), 0.0, 1.0)
    """
    metrics = [*metric] if isinstance(metric, PerText) else [metric] * len(texts)
    first = len(texts) - round(len(texts) * test_share)
    if not 0 <= first < len(texts) == len(metrics) or (callable(order) and not first):
        raise value_error(
            "An order is found on some texts, and measured on others, each with a metric; these are {first} and "
            "{others} texts, and {metrics} metrics. Give more, or another share test_share.",
            first=first,
            others=len(texts) - first,
            metrics=len(metrics),
        )
    if how != "zero" and not neutral:
        raise value_error(
            "What is replaced is written as in neutral texts. Give some, as neutral=neutral_texts(tokenizer) does, or "
            "how=“zero”."
        )
    others, start = Texts(None, neutral) if neutral else None, Text.from_batch(model, texts[0])
    every = [ModelPart("output", *head) for head in every_head(start)]
    every += [ModelPart("mlp", number) for number in range(len(start.mlps))] if mlps else []
    if callable(order):
        own = PerText(tuple(metrics[:first]))
        effects = order(start.model, Texts(None, texts[:first]), own, every, how=how, texts=others).mean
        order = [every[i] for i in effects.abs().argsort(descending=True, stable=True).tolist()]
    sets = Subsets(tuple(every), tuple(order), tuple(sizes if sizes is not None else _doubled(len(order))))
    generator = torch.Generator().manual_seed(seed)
    orders = [sets.order, *(sets.random(generator) for _number in range(random_sets))]
    done = 0

    @each_group
    def numbers(_model: nn.Module, batch: Any, metric: PerText[Any]) -> Numbers | PerText[Numbers]:
        nonlocal done
        if on_progress:
            on_progress(done, len(texts) - first)
        done += len(metric)
        return PerText((*zip(*_of_texts(start.other(batch), metric, sets, orders, how, others), strict=True),))

    measured = numbers(start.model, Texts(None, texts[first:]), PerText(tuple(metrics[first:])))
    whole, nothing, kept, without = (torch.stack(each) for each in zip(*measured, strict=True))
    return CircuitCurves(sets.order, sets.sizes, whole, nothing, kept[:, 0], without[:, 0], kept[:, 1:], without[:, 1:])


@dataclass(frozen=True)
class Subsets:
    """Subsets of a model's parts: the first ones of an order, of some sizes."""

    every: tuple[ModelPart, ...]
    order: tuple[ModelPart, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if wrong := [part for part in self.order if _everywhere(part) not in self.every]:
            raise value_error(
                "A circuit is made of heads and MLPs, and {part} is none that is replaced here.", part=str(wrong[0])
            )
        if not self.sizes or not all(0 <= size <= len(self.order) for size in self.sizes):
            raise value_error(
                "Sizes of circuits are from 0 to {count}, the number of parts of the order; these are {sizes}.",
                count=len(self.order),
                sizes=", ".join(map(str, self.sizes)),
            )

    def random(self, generator: torch.Generator) -> tuple[ModelPart, ...]:
        """Returns the order with other parts of the same kinds in place of its own."""
        others: dict[ModelPart, ModelPart] = {}
        for kind in {part.kind for part in self.every}:
            same = [part for part in self.every if part.kind == kind]
            drawn = torch.randperm(len(same), generator=generator).tolist()
            others |= {part: same[i] for part, i in zip(same, drawn, strict=True)}
        return tuple(replace(others[_everywhere(part)], positions=part.positions) for part in self.order)

    def rest(self, text: Text, kept: Collection[ModelPart]) -> frozenset[ModelPart]:
        """Returns what is replaced where some parts are kept: all others, and those at other positions."""
        everywhere = {part for part in kept if part.positions is None}
        places: dict[ModelPart, set[int]] = defaultdict(set)
        for part in kept:
            places[_everywhere(part)].update(part.positions or ())
        partly = {
            replace(part, positions=tuple(i for i in range(len(read_at(text, part.site))) if i not in positions))
            for part, positions in places.items()
            if part not in everywhere
        }
        return frozenset(partly | {part for part in self.every if part not in places})


def _of_texts(
    text: Text,
    metric: PerText[Any],
    sets: Subsets,
    orders: Sequence[Sequence[ModelPart]],
    how: AblationKind,
    neutral: Texts | None,
) -> Numbers:
    """Returns a metric of each of some texts: of the model, where all parts are replaced, and with the parts of each
    order and size alone and without them, (texts, orders, sizes)."""
    nothing = sets.rest(text, ())
    chosen = [[checked_parts(text, order[:size]) for size in sets.sizes] for order in orders]
    without = [[frozenset(parts) for parts in of_order] for of_order in chosen]
    kept = [[sets.rest(text, parts) for parts in of_order] for of_order in chosen]
    subsets = {nothing: 0} | {one: 0 for several in (*without, *kept) for one in several}  # the same is run once
    runs = []
    for values in replacements(text, sorted({part.site for part in sets.every}), how, neutral):
        changes = {part: replacement_of(text, part, values) for one in subsets for part in one}
        runs.append([changed_parts(text, {part: changes[part] for part in one}) for one in subsets])
    whole = text.values(metric).cpu()
    numbers = dict(zip(subsets, (whole[:, None] + mean_effects(text, metric, runs)).unbind(1), strict=True))
    of_kept, of_others = (
        torch.stack([torch.stack([numbers[one] for one in several], -1) for several in each], 1)
        for each in (kept, without)
    )
    return whole, numbers[nothing], of_kept, of_others


def _share(part: Tensor, way: Tensor, size: Tensor) -> Tensor:
    """Returns a part of a way as a share of it; NaN of a way that is rounding, beside a number of some size."""
    return torch.where(way.abs() > LEAST_DIFFERENCE * size.abs(), part / way + 0.0, torch.nan)


def _everywhere(part: ModelPart) -> ModelPart:
    return replace(part, positions=None)


def _doubled(count: int) -> list[int]:
    """Returns sizes that double, up to a count."""
    return sorted({0, count, *(1 << power for power in range(count.bit_length()) if 1 << power <= count)})
