"""What can be changed in the attention of a running model."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from attnviz.masks import And, Compare, Mask
from attnviz.masks.terms import Number, Variable
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Normalizer
from attnviz.scores import Score


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

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        parts = self.mask, self.score, self.normalizer, self.sparse
        return not self.ablated and all(part is None for part in parts)

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
        for head in (head for place, head in self.ablated if place == layer):
            others = Compare((Variable("h"), Number(head)), ("!=",))
            mechanism = replace(mechanism, mask=And(mechanism.mask, others))
        return mechanism


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
