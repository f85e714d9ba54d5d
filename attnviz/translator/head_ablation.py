"""What each head of the translator adds, and what changes without it."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attnviz.models.interventions import Intervention
from attnviz.translator.encoder_decoder import HEADS, USE_LAYERS, AttentionRecord, MultiHeadAttention, Use
from attnviz.translator.translation import Translation, Translator
from attnviz.translator.weights import evaluation_sentences

TEST_SENTENCES = 60  # by which an ablation is measured


@dataclass(frozen=True, eq=False)
class HeadAblation:
    """The translator without one head: its output is zero."""

    layer: int
    head: int
    translation: Translation
    exact: float  # share of test sentences that are right in every word


def head_ablation(use: Use, layer: int, head: int) -> Intervention:
    """Returns the intervention that ablates one head.

    Example:
        >>> head_ablation("decoder", 0, 2).ablated
        ((2, 2),)
    """
    return Intervention(ablated=((USE_LAYERS[use][layer], head),), layers=USE_LAYERS[use])


def ablate_heads(translator: Translator, english: tuple[str, ...], use: Use) -> tuple[HeadAblation, ...]:
    """Returns what becomes of a translation without each head of one use, layer by layer."""
    sentences = evaluation_sentences("test", TEST_SENTENCES)
    ablations = []
    for layer in range(len(USE_LAYERS[use])):
        for head in range(HEADS):
            interventions = [head_ablation(use, layer, head)]
            translation = translator.translate(" ".join(english), interventions)
            ablations.append(HeadAblation(layer, head, translation, translator.exact_match(sentences, interventions)))
    return tuple(ablations)


def head_contributions(attention: MultiHeadAttention, record: AttentionRecord) -> Float[Tensor, "heads queries width"]:
    """Returns what each head adds to the output of an attention: its output times its own rows of Wᴼ.

    Their sum and the bias of Wᴼ are the output, because Concat(head₀, head₁, …) Wᴼ = Σ headᵢ Wᴼᵢ (Vaswani et al. 2017,
    3.2.2).
    """
    own_rows = attention.output.weight.T.unflatten(0, (HEADS, -1))  # heads, d_v, width
    return (record.weights[0] @ record.value[0]) @ own_rows
