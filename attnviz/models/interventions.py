"""What can be changed in the attention of a running model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TypeAlias

from attnviz.base.language import _, value_error
from attnviz.masks import And, Compare, Mask
from attnviz.masks.terms import Number, Variable
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Normalizer
from attnviz.scores import Cosine, Dot, ScaledDot, Score
from attnviz.tracing.run_changes import Run

# General and additive scores have learned weights: they make no sense where they were not trained.
SCORES: tuple[type[Score], ...] = (ScaledDot, Dot, Cosine)


@dataclass(frozen=True)
class Intervention:
    """Another mask, score or normalizer in some layers of a running model, a sparse mask laid over theirs, and ablated
    heads.

    A part that is None is not changed. Under a sparse mask a query sees what it and the mask of the layer both allow.
    The output of an ablated head is zero (zero ablation, Michel et al. 2019, "Are Sixteen Heads Really Better than
    One?"). Layers are indices into the layers of the trace.

    Example:
        >>> from attnviz.mechanism import Mechanism
        >>> from attnviz.normalizers import Softmax
        >>> warm = Intervention(normalizer=Softmax(4.0), layers=(1, 2))
        >>> warm.apply(Mechanism(), layer=1).normalizer
        Softmax(temperature=4.0)
        >>> warm.apply(Mechanism(), layer=0) == Mechanism()
        True
    """

    mask: Mask | None = None
    score: Score | None = None
    normalizer: Normalizer | None = None
    ablated: tuple[tuple[int, int], ...] = ()  # heads, each with its layer: (layer, head)
    layers: tuple[int, ...] | None = None  # where masks, score and normalizer are changed; None is everywhere
    sparse: Mask | None = None

    def __post_init__(self) -> None:
        for name, places, example in (("ablated", self.ablated, "((3, 1),)"), ("layers", self.layers, "(3,)")):
            if places is not None and not _are_places(places, is_pair=name == "ablated"):
                raise value_error(
                    "{name} must be whole numbers in a tuple, such as {example}; it is {places}.",
                    name=name,
                    example=example,
                    places=f"{places!r:.60}",
                )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return not self.ablated and not self._has_parts

    @property
    def _has_parts(self) -> bool:
        return any(part is not None for part in (self.mask, self.score, self.normalizer, self.sparse))

    def changes_mechanism(self, layer: int) -> bool:
        """Returns whether the mask, the score or the normalizer of a layer is changed."""
        return self._has_parts and (self.layers is None or layer in self.layers)

    def ablated_heads(self, layer: int) -> set[int]:
        """Returns the heads of a layer that are ablated."""
        return {head for place, head in self.ablated if place == layer}

    def apply(self, mechanism: Mechanism, layer: int) -> Mechanism:
        """Returns the mechanism of a layer under this intervention."""
        if self.layers is None or layer in self.layers:
            mechanism = replace(
                mechanism,
                mask=self.mask or mechanism.mask,
                score=self.score or mechanism.score,
                normalizer=self.normalizer or mechanism.normalizer,
            )
            if self.sparse is not None:
                mechanism = replace(mechanism, mask=And(mechanism.mask, self.sparse))
        for head in sorted(self.ablated_heads(layer)):
            others = Compare((Variable("h"), Number(head)), ("!=",))
            mechanism = replace(mechanism, mask=And(mechanism.mask, others))
        return mechanism


@dataclass(frozen=True, eq=False)
class PartIntervention:
    """Parts of a run of one model that are replaced or added to, as `attnviz.effects.part_intervention` makes it."""

    whole: Run  # of a pass that reads a text from its first position on
    later: Run  # of a pass that reads one further token


AnyIntervention: TypeAlias = Intervention | PartIntervention


def _are_places(places: object, is_pair: bool) -> bool:
    """Returns whether these are layers, or pairs of a layer and a head."""
    if not isinstance(places, Sequence):
        return False
    if is_pair:
        return all(isinstance(one, Sequence) and len(one) == 2 and _are_places(one, False) for one in places)
    return all(isinstance(one, Integral) for one in places)


def intervene(mechanism: Mechanism, interventions: Iterable[Intervention], layer: int) -> Mechanism:
    """Returns the mechanism of a layer under several interventions, applied in their order.

    Example:
        >>> from attnviz.masks import Causal, Full
        >>> intervene(Mechanism(), [Intervention(Causal()), Intervention(Full(), layers=(3,))], layer=3).mask
        Full()
    """
    for intervention in interventions:
        mechanism = intervention.apply(mechanism, layer)
    return mechanism


def ablated_heads(interventions: Iterable[Intervention]) -> list[tuple[int, int]]:
    """Returns the heads that interventions ablate, each with its layer, once."""
    return [*dict.fromkeys(head for one in interventions for head in one.ablated)]


def check_places(interventions: Iterable[Intervention], heads: Sequence[int]) -> None:
    """Raises ValueError if an intervention names a layer or a head that is not there; `heads` are the numbers of heads
    of all layers.

    Example:
        >>> check_places([Intervention(ablated=((0, 4),))], [4, 4])
        Traceback (most recent call last):
        ValueError: There is no head 4 in a layer number 0, so it cannot be ablated. It has 4 heads, counted from 0.
    """
    layers = _("There are {count} layers, counted from 0.", count=len(heads))
    for intervention in interventions:
        for layer, head in intervention.ablated:
            has_layer = 0 <= layer < len(heads)
            if not has_layer or not 0 <= head < heads[layer]:
                missing = _(
                    "There is no head {head} in a layer number {layer}, so it cannot be ablated.",
                    head=head,
                    layer=layer,
                )
                there = _("It has {count} heads, counted from 0.", count=heads[layer]) if has_layer else layers
                raise ValueError(f"{missing} {there}")
        for layer in intervention.layers or ():
            if not 0 <= layer < len(heads):
                missing = _("There is no layer number {layer}, so it cannot be changed.", layer=layer)
                raise ValueError(f"{missing} {layers}")
