"""What a measure becomes where a word is hidden."""

from functools import partial

import numpy as np
from jaxtyping import Float

from attnviz.effects.knockout import knockout
from attnviz.result_cache import result_cache
from attnviz.state.effects import EffectsState

FORWARDS = 8  # that hiding each word of one text takes about


def word_effects(state: EffectsState) -> Float[np.ndarray, " words"]:
    """Returns the measure where each word is hidden from the heads minus that where none is. Raises ValueError if the
    weights of a layer are not known."""
    key = "effects of words", state.source, state.metric, state.hidden_from, state.hidden_from_head
    return result_cache().once(partial(_hidden, state), *key, work=FORWARDS * state.source.forward_work)


def _hidden(state: EffectsState) -> Float[np.ndarray, " words"]:
    batch, metric = state.measured_runs[0]
    model, head = state.run.linearized.model, state.hidden_from_head
    return knockout(model, batch, metric, layer=state.hidden_from, head=head).numpy()
