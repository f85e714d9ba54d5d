"""What is translated, and by which translator."""

import secrets
from html import escape

import streamlit as st

from attnviz.translator import EXAMPLES, VARIANTS, Translator, load, sentences
from attnviz.translator.lexicon import (
    ADJECTIVES,
    ADVERBS,
    ASKED,
    DETERMINERS,
    ENGLISH,
    NOUNS,
    OFTEN,
    PREPOSITIONS,
    PRONOUNS,
    VERBS,
)
from attnviz.translator.model import Use
from attnviz.ui.transformer import maps

ENGLISH_KEY = "english"
FORMULAS = {"scaled dot": "q · k / √d", "dot": "q · k", "general": "qᵀ W k", "additive": "vᵀ tanh(W_q q + W_k k)"}
SIMILARITIES = {variant.capitalize(): variant for variant in VARIANTS}  # named as on other pages, which share the link
KINDS = {"person": "People", "animal": "Animals", "food": "Food", "thing": "Things", "place": "Places"}


def translator() -> Translator:
    """The translator chosen in the sidebar."""
    return load(similarity())


def similarity() -> str:
    """The similarity of the encoder–decoder attention, one of VARIANTS; on every page with a translator."""
    formulas = "\n\n".join(f"**{name}:** {FORMULAS[variant]}" for name, variant in SIMILARITIES.items())
    chosen = st.selectbox(
        "Similarity", list(SIMILARITIES), key="similarity", bind="query-params",
        help="How a French word is compared with each English word, in the encoder–decoder attention. Each choice "
        f"is a translator of its own, trained with it.\n\n{formulas}",
    )  # fmt: skip
    return SIMILARITIES[chosen]


def heads(translator: Translator) -> dict[Use, int]:
    """The head of each use, counted layer by layer; each from a menu, or by a click on a small map."""
    return {use: _head(use, translator) for use in maps.USES}


def _head(use: Use, translator: Translator) -> int:
    key, first = maps.key(use), maps.HEAD_NAMES[maps.first_head(use, translator)]
    # What another translator began with is nobody's choice.
    if key in st.session_state and st.session_state[key] == st.session_state.get(f"{key} first"):
        st.session_state[key] = first
    st.session_state[f"{key} first"] = first
    at = maps.HEAD_NAMES.index(first)
    return maps.HEAD_NAMES.index(st.selectbox(maps.USES[use], maps.HEAD_NAMES, at, key=key, bind="query-params"))


def sentence() -> str:
    """The English sentence: typed, one of the examples, or a random one."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="sentence"):
        text = st.text_input("English", EXAMPLES[0], key=ENGLISH_KEY, bind="query-params", width=460)
        st.menu_button("Examples", EXAMPLES, key="examples", on_click=_take)
        st.button(
            "Random sentence", icon=":material/casino:", key="random", on_click=_draw,
            help="One of those that were kept apart for testing: it was never trained on.",
        )  # fmt: skip
        with st.popover(f"Its {len(ENGLISH)} words", type="tertiary"):
            st.html(vocabulary())
    return text


def _take() -> None:
    st.session_state[ENGLISH_KEY] = st.session_state["examples"]


def _draw() -> None:
    st.session_state[ENGLISH_KEY] = " ".join(next(sentences("test", secrets.randbelow(2**32))).english)


def vocabulary() -> str:
    """Every word that the translator knows, by kind, in HTML."""
    groups = {
        "Articles and the like": list(DETERMINERS),
        "Pronouns": list(PRONOUNS),
        **{
            name: [f"{noun.english}, {noun.plural}" for noun in NOUNS if noun.kind == kind]
            for kind, name in KINDS.items()
        },
        "Adjectives": [adjective.english for adjective in ADJECTIVES],
        "Verbs": [f"{verb.english}, {verb.third}" for verb in VERBS],
        "Where": [*PREPOSITIONS, "of", "to"],
        "When, how often": [*ADVERBS, *OFTEN],
        "Not, and questions": ["not", *ASKED],
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(' · '.join(words))}</dd>" for name, words in groups.items())
    return f"<dl class='attnviz-words'>{rows}</dl>"
