"""What a measure becomes where a word is hidden."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from jaxtyping import Float

from attnviz.effects.knockout import knockout
from attnviz.figures.shares import signed, word_rows
from attnviz.language import _
from attnviz.lessons.checks import named_quantities
from attnviz.page.blocks import Block, Caption, ClassQuestion, ColoredText, Control, Figure, Row, Summary
from attnviz.page.page_view import Panel
from attnviz.result_cache import result_cache
from attnviz.state.effects import EffectsState
from attnviz.views.effect_sentences import effect_colors, measure_name
from attnviz.views.why_answer import plain_word
from attnviz.views.without_heads import HIDDEN

FORWARDS = 8  # that hiding each word of one text takes about


def without_words(state: EffectsState) -> Iterator[Block]:
    """Yields from which heads words are hidden, the text in the colors of its effects, and the effects as bars. Raises
    ValueError as `word_effects`."""
    effects, words = word_effects(state), [plain_word(word) for word in state.run.source]
    numbers, measure = named_quantities(HIDDEN, words, effects), measure_name(state)
    reverse, _ends = effect_colors(state)
    largest = int(np.abs(effects).argmax())
    sentence = _(
        "Without “{word}”, {measure} changes most: by {effect}.",
        word=words[largest], measure=measure, effect=signed(effects[largest]),
    )  # fmt: skip
    ask = _("Without which word does {measure} change most?", measure=measure)
    options = [name.removeprefix(HIDDEN) for name in numbers]  # equal words are numbered
    picture = word_rows({_("effect"): effects}, words, [_("effect")] * reverse).with_about(
        label=_("Effects of hiding words")
    )
    panel = Panel(_("Effects of hiding words"), effects[None], [""], words, is_signed=True, reverse=reverse)
    yield Row([Control(EffectsState.hidden_from), Control(EffectsState.hidden_from_head)], "effects-hidden")
    yield Summary(sentence, lambda: numbers)
    yield ClassQuestion(ask, options, np.abs(effects))
    yield ColoredText(words, -effects if reverse else effects, [*map(signed, effects)])
    yield Figure(picture, "effects-words", 240, panels=[panel])
    yield Caption(
        _(
            "A hidden word gets no attention from any query: the weights of the others are divided by what is left. "
            "The first token is where many heads look when there is nothing to look for; without it their attention "
            "goes elsewhere, so that its effect is often large, whatever it says."
        )
    )


def word_effects(state: EffectsState) -> Float[np.ndarray, " words"]:
    """Returns the measure where each word is hidden from the heads minus that where none is. Raises ValueError if the
    weights of a layer are not known."""
    key = "effects of words", state.source, state.metric, state.hidden_from, state.hidden_from_head
    return result_cache().once(partial(_hidden, state), *key, work=FORWARDS * state.source.forward_work)


def _hidden(state: EffectsState) -> Float[np.ndarray, " words"]:
    batch, metric = state.measured_runs[0]
    model, head = state.run.linearized.model, state.hidden_from_head
    return knockout(model, batch, metric, layer=state.hidden_from, head=head).numpy()
