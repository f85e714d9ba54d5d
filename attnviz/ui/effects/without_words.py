"""The tab of words: what the measure becomes where each word is hidden from all heads, or from some."""

from functools import partial

import numpy as np
import streamlit as st

from attnviz.classroom.question import keys_question
from attnviz.figures.shares import signed, word_rows
from attnviz.language import _
from attnviz.lessons.checks import named_quantities
from attnviz.page import html
from attnviz.state.effects import EffectsState
from attnviz.ui import quantities
from attnviz.ui.chart import chart
from attnviz.ui.classroom import class_questions
from attnviz.ui.effects.head_choice import draw_fields
from attnviz.views.effect_sentences import effect_colors, measure_name
from attnviz.views.effects import HIDDEN
from attnviz.views.why_answer import plain_word
from attnviz.views.word_effects import word_effects


def show(state: EffectsState) -> None:
    """Draws from which heads words are hidden, the text in the colors of its effects, and the effects as bars."""
    state = draw_fields(state, (EffectsState.hidden_from, EffectsState.hidden_from_head))
    with st.spinner(_("Computing …"), show_time=True):
        effects = word_effects(state)
    words = [plain_word(word) for word in state.run.source]
    numbers = named_quantities(HIDDEN, words, effects)
    quantities.publish(lambda: numbers)
    ask = _("Without which word does {measure} change most?", measure=measure_name(state))
    options = [name.removeprefix(HIDDEN) for name in numbers]  # equal words are numbered
    class_questions.offer_question(ask, partial(keys_question, ask, options, np.abs(effects)))
    reverse, _ends = effect_colors(state)
    largest = int(np.abs(effects).argmax())
    sentence = _(
        "Without “{word}”, {measure} changes most: by {effect}.",
        word=words[largest],
        measure=measure_name(state),
        effect=signed(effects[largest]),
    )
    st.html(
        html.summary(sentence, role="status")
        + html.colored_text(words, -effects if reverse else effects, list(map(signed, effects)))
    )
    picture = word_rows({_("effect"): effects}, words, [_("effect")] * reverse).with_about(
        label=_("Effects of hiding words")
    )
    chart(picture, "effects-words", height=240)
    st.caption(
        _(
            "A hidden word gets no attention from any query: the weights of the others are divided by what is left. "
            "The first token is where many heads look when there is nothing to look for; without it their attention "
            "goes elsewhere, so that its effect is often large, whatever it says."
        )
    )
