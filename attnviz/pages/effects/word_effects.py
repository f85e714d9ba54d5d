"""What a measure becomes where a word is hidden."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from attnviz.base.formatting import plain_word
from attnviz.base.language import _
from attnviz.effects.knockout import knockout
from attnviz.figures.shares import signed
from attnviz.lessons.checks import named_quantities
from attnviz.page.blocks import Block, ClassQuestion, ColoredText, Computed, Control, Note, Row, Summary
from attnviz.page.page_view import Panel
from attnviz.pages.effects.sentences import effect_colors, measure_name
from attnviz.pages.effects.state import EffectsState

WITHOUT = "effect without "  # in names of quantities
OnEffects: TypeAlias = Callable[[float, Float[np.ndarray, " words"]], None]


def without_words(state: EffectsState) -> Iterator[Block]:
    """Yields the effects of hiding each word from the heads, and from which heads it is hidden."""
    compute, key = partial(word_effects, state), partial(word_effects_key, state)
    yield Computed("words", compute, key, _so_far, partial(_of_effects, state), subject=(state.source, state.metric))
    yield Row(
        [Control(EffectsState.hidden_from, state), Control(EffectsState.hidden_from_head, state)], "effects-hidden"
    )


def _so_far(effects: Float[np.ndarray, " words"]) -> str:
    return _("{done} of {words} words so far.", done=int(np.isfinite(effects).sum()), words=len(effects))


def _of_effects(state: EffectsState, effects: Float[np.ndarray, " words"]) -> Iterator[Block]:
    words, measure = [plain_word(word) for word in state.run.source], measure_name(state)
    if (unknown := np.isnan(effects)).any():
        yield Summary(_("Without each word …"), None)
        yield ColoredText(words, np.nan_to_num(effects), np.where(unknown, "…", [*map(signed, effects)]).tolist())
        return
    numbers = named_quantities(WITHOUT, words, effects)
    reverse, _ends = effect_colors(state)
    largest = int(np.abs(effects).argmax())
    sentence = _(
        "Without “{word}”, {measure} changes most: by {effect}.",
        word=words[largest],
        measure=measure,
        effect=signed(effects[largest]),
    )
    ask = _("Without which word does {measure} change most?", measure=measure)
    options = [name.removeprefix(WITHOUT) for name in numbers]  # equal words are numbered
    panel = Panel(_("Effects of hiding words"), effects[None], [""], words, is_signed=True, reverse=reverse)
    yield Summary(sentence, lambda: numbers)
    yield ClassQuestion(ask, options, np.abs(effects))
    yield ColoredText(words, -effects if reverse else effects, [*map(signed, effects)], panels=[panel])
    yield Note(
        _(
            "A hidden word gets no attention from any query: the weights of the others are divided by what is left. "
            "The first token is where many heads look when there is nothing to look for; without it their attention "
            "goes elsewhere, so that its effect is often large, whatever it says."
        )
    )


def word_effects_key(state: EffectsState) -> tuple[object, ...]:
    """Returns what the effects of words depend on."""
    return "effects of words", state.source, state.metric, state.hidden_from, state.hidden_from_head


def word_effects(state: EffectsState, progress: OnEffects | None = None) -> Float[np.ndarray, " words"]:
    """Returns the measure where each word is hidden from the heads minus that where none is, with what is known so far
    to `progress`: NaN where it is not known. Raises ValueError if the weights of a layer are not known."""
    batch, metric = state.measured_runs[0]
    model, head = state.run.linearized.model, state.hidden_from_head
    report = None if progress is None else lambda share, effects: progress(share, effects.numpy())
    return knockout(model, batch, metric, layer=state.hidden_from, head=head, on_progress=report).numpy()
