"""How likely the tokens of a text are to a language model, as trained and under an intervention."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attnviz.lessons.checks import Quantities, named_quantities
from attnviz.models.interventions import Intervention
from attnviz.result_cache import result_cache
from attnviz.views.intervened_example import IntervenedExample

MOST_TOKENS = 128  # for each of which a probability of every token of the vocabulary is computed
PROBABILITY, MEAN = "probability of ", "mean probability"


@dataclass(frozen=True, eq=False)
class TextProbabilities:
    """The probabilities of the tokens of a text but the first, each given those before it."""

    tokens: tuple[str, ...]
    before: Float[np.ndarray, " tokens"]
    after: Float[np.ndarray, " tokens"]

    @property
    def quantities(self) -> Quantities:
        """The probability of each token, and their mean, on both sides."""
        quantities: dict[str, float] = {}
        for values, suffix in ((self.before, ""), (self.after, " changed")):
            quantities |= named_quantities(PROBABILITY, self.tokens, values, suffix)
            quantities[f"{MEAN}{suffix}"] = float(values.mean())
        return quantities


def text_probabilities(example: IntervenedExample) -> TextProbabilities | None:
    """Returns the probabilities of an example; None for a model that does not predict the tokens that it reads, and for
    a text of one token or of more than MOST_TOKENS. Raises ValueError if the model cannot be run."""
    model = example.model()
    if model.outputs != "next token" or model.is_encoder_decoder:
        return None
    inputs = model.encode(*example.example)
    tokens = inputs.source.tokens
    if not 1 < len(tokens) <= MOST_TOKENS:
        return None

    def compute() -> TextProbabilities:
        from attnviz.models.intervention_run import token_probabilities  # with huggingface_hub

        before, after = (
            token_probabilities(model, inputs, one).numpy() for one in (Intervention(), example.intervention)
        )
        return TextProbabilities(tokens[1:], before, after)

    return result_cache().once(compute, "text probabilities", example, work=2 * example.forward_work)
