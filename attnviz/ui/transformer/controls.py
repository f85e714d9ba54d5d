"""Controls of the Transformer page: the translator, a head of each use, and the sentence."""

import secrets

import streamlit as st

from attnviz.language import N_, _
from attnviz.page import html
from attnviz.state.transformer import HEAD_FIELDS, TransformerState
from attnviz.translator import EXAMPLES, generate_sentences, tokenize
from attnviz.translator.lexicon import (
    ADJECTIVES,
    ADVERBS,
    DETERMINERS,
    ENGLISH,
    FREQUENCY,
    NOUNS,
    PREPOSITIONS,
    PRONOUNS,
    QUESTION_WORDS,
    VERBS,
)
from attnviz.ui import cache, presentation
from attnviz.ui.field_widgets import draw
from attnviz.ui.widget_values import copy_callback, set_field_value

KINDS = {
    "person": N_("People"),
    "animal": N_("Animals"),
    "food": N_("Food"),
    "thing": N_("Things"),
    "place": N_("Places"),
}


def choose_sentence() -> tuple[TransformerState, bool]:
    """Draws the controls; returns the state with the last sentence that could be read, and whether that is an earlier
    one than the typed one."""
    with st.sidebar:
        variant = draw(TransformerState.similarity)
        heads = choose_heads(variant)
    text = _choose_sentence()
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    typed, english = cache.or_last_good(
        "english", "translator", lambda: (text, " ".join(tokenize(text))), lambda: ("", EXAMPLES[0]), notes
    )
    return TransformerState(similarity=variant, english=english, **heads), typed != text


def choose_heads(variant: str) -> dict[str, int]:
    """Draws a menu of heads for each use; returns the selected heads, by their fields."""
    state = TransformerState.partial(similarity=variant)
    return {field.name: draw(field, state) for field in HEAD_FIELDS.values()}


def _choose_sentence() -> str:
    """The English sentence: typed, one of the examples, or a random one."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="sentence"):
        with presentation.control("english", width=460):
            text = draw(TransformerState.english)
        st.menu_button(
            _("Examples"), EXAMPLES, key="examples", on_click=copy_callback(TransformerState.english, "examples")
        )
        st.button(
            _("Random sentence"), icon=":material/casino:", key="random", on_click=_draw_sentence,
            help=_("One of the sentences that were kept apart for testing: it was never trained on."),
        )  # fmt: skip
        with st.popover(_("Known words ({count})", count=len(ENGLISH)), type="tertiary"):
            st.html(vocabulary())
    return text


def _draw_sentence() -> None:
    sentence = next(generate_sentences("test", secrets.randbelow(2**32)))
    set_field_value(TransformerState.english, " ".join(sentence.english))


def vocabulary() -> html.Markup:
    """Returns all words of the translator, by kind."""
    groups = {
        _("Articles and the like"): list(DETERMINERS),
        _("Pronouns"): list(PRONOUNS),
        **{
            _(name): [f"{noun.english}, {noun.plural}" for noun in NOUNS if noun.kind == kind]
            for kind, name in KINDS.items()
        },
        _("Adjectives"): [adjective.english for adjective in ADJECTIVES],
        _("Verbs"): [f"{verb.english}, {verb.third}" for verb in VERBS],
        _("Where"): [*PREPOSITIONS, "of", "to"],
        _("When, how often"): [*ADVERBS, *FREQUENCY],
        _("Not, and questions"): ["not", *QUESTION_WORDS],
    }
    rows = (html.element("dt", name) + html.element("dd", " · ".join(words)) for name, words in groups.items())
    return html.element("dl", *rows, class_="attnviz-words")
