"""Controls of the Transformer page: the translator, a head of each use, and the sentence."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from attnviz.language import N_, _
from attnviz.translator import EXAMPLES, Translation, Translator, generate_sentences, load, tokenize
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
from attnviz.translator.model import Use
from attnviz.ui import cache, html, presentation
from attnviz.ui.menus import names_of
from attnviz.ui.similarity_picker import similarity
from attnviz.ui.transformer import maps

ENGLISH_KEY = "english"
KINDS = {
    "person": N_("People"),
    "animal": N_("Animals"),
    "food": N_("Food"),
    "thing": N_("Things"),
    "place": N_("Places"),
}


@dataclass(frozen=True, eq=False)
class TransformerSelection:
    """The translation of every tab, and the selected head of each use, numbered across layers."""

    translator: Translator
    translation: Translation
    heads: Mapping[Use, int]
    step: int = -1  # of decoding
    is_old: bool = False  # whether it is of an earlier sentence, because the typed one cannot be read


def select() -> TransformerSelection:
    """Draws the controls; returns the selection, with the last sentence that could be read."""
    with st.sidebar:
        translator = load(similarity())
        heads = choose_heads(translator)
    text = _choose_sentence()
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    english = cache.or_last_good("english", "translator", lambda: " ".join(tokenize(text)), lambda: EXAMPLES[0], notes)
    return TransformerSelection(translator, translator.translate(english), heads, is_old=not _is_readable(text))


def _is_readable(text: str) -> bool:
    try:
        return bool(tokenize(text))
    except ValueError:
        return False


def choose_heads(translator: Translator) -> dict[Use, int]:
    """Draws a menu of heads for each use; returns the selected heads, numbered across layers."""
    return {use: _choose_head(use, translator) for use in maps.USES}


def _choose_head(use: Use, translator: Translator) -> int:
    key, first = maps.key(use), maps.HEAD_NAMES[maps.first_head(use, translator)]
    # What another translator began with is nobody's choice.
    if key in st.session_state and st.session_state[key] == st.session_state.get(f"{key} first"):
        st.session_state[key] = first
    st.session_state[f"{key} first"] = first
    index = maps.HEAD_NAMES.index(first)
    return maps.HEAD_NAMES.index(
        st.selectbox(
            _(maps.USES[use]),
            maps.HEAD_NAMES,
            index,
            key=key,
            bind="query-params",
            format_func=names_of(key, maps.HEAD_NAMES),
        )
    )


def _choose_sentence() -> str:
    """The English sentence: typed, one of the examples, or a random one."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="sentence"):
        with presentation.control("english", width=460):
            text = st.text_input(_("English"), EXAMPLES[0], key=ENGLISH_KEY, bind="query-params")
        st.menu_button(_("Examples"), EXAMPLES, key="examples", on_click=_take_example)
        st.button(
            _("Random sentence"), icon=":material/casino:", key="random", on_click=_draw_sentence,
            help=_("One of those that were kept apart for testing: it was never trained on."),
        )  # fmt: skip
        with st.popover(_("Known words ({count})").format(count=len(ENGLISH)), type="tertiary"):
            st.html(vocabulary())
    return text


def _take_example() -> None:
    st.session_state[ENGLISH_KEY] = st.session_state["examples"]


def _draw_sentence() -> None:
    st.session_state[ENGLISH_KEY] = " ".join(next(generate_sentences("test", secrets.randbelow(2**32))).english)


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
