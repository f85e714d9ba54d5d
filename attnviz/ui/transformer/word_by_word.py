"""The translation word by word, with the attention of each French word."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import streamlit as st

from attnviz.figures import lines
from attnviz.formatting import number, visible
from attnviz.language import N_, _, current_language, in_sentence
from attnviz.page import html
from attnviz.state.transformer import HEAD_NAMES, TransformerState
from attnviz.translator import Translation, TranslationStep, next_words
from attnviz.translator.train import SMOOTHING
from attnviz.translator.translation import detokenize
from attnviz.ui import play_slider
from attnviz.ui.chart import chart
from attnviz.ui.session_values import SessionValue
from attnviz.ui.widget_values import field_value, set_field_value
from attnviz.views.translator_maps import use_maps

END = "<end>"
COLORED = N_(
    "Orange: where this word looks; a thicker line is more attention. Gray: where each earlier word looked most."
)
RINGS = N_("A ring marks the English word that it translates; the head was never taught this.")
SURE = N_("How sure it is of the next word (training limits this to about {most}).")
MOST_EXPECTED = 4  # words that are named where another one is not understood


def show(state: TransformerState, is_old: bool) -> TransformerState:
    """Draws the translation up to a step of decoding, with a slider of the steps; returns the state at that step.
    `is_old` says that the sentence is an earlier one, because the typed one cannot be read."""
    translation = state.translation
    with st.container(key="decoded"):  # its three places are side by side, or below each other, by transformer.css
        with st.container(key="decoded-words"):
            text = st.container()
            step = _step(state)
        with text:
            of_what = earlier_sentence(translation) if is_old else translation_verdict(translation)
            st.html(in_french(translation, step) + of_what)
        with st.container(key="decoded-lines", gap=None):
            _show_lines(translation, step, state.heads["cross"])
        with st.container(key="decoded-likeliest"):
            st.html(likeliest(translation.steps[step]))
    return state.updated(step=step)


def _show_lines(translation: Translation, step: int, head: int) -> None:
    """Draws the attention of the current word, in a head of the encoder–decoder attention."""
    cross = use_maps(translation, "cross", step)
    sentence = looks(translation, step, HEAD_NAMES[head], cross.weights[head, step])
    st.html(html.summary(sentence, also="attnviz-looks"))
    high = 24 + 27 * max(len(cross.queries), len(cross.keys))
    picture = lines(cross.weights[head], cross.queries, cross.keys, row=step, true=cross.true)
    picture = picture.with_about(label=_("What the French word looks at"), description=sentence)
    chart(picture, "lines", height=high)
    st.caption(" ".join(map(_, [COLORED, *[RINGS] * bool(cross.true)])))


def _step(state: TransformerState) -> int:
    """Returns the step in the link, or the opening step of a new translation."""
    field, french = TransformerState.step, state.translation.french
    shown = SessionValue[tuple[int | None, tuple[str, ...]]]("word of", lambda: (None, french))
    step_before, french_before = shown.get()
    if french != french_before and field_value(field, state) == step_before:
        set_field_value(field, field.opening(state), state)  # not where the link says both, as on the way back
    step = play_slider.slider(field, state)
    shown.set((step, french))
    return step


def pieces(translation: Translation) -> list[str]:
    """Returns the pieces of French text that the words add, with the spaces between them."""
    written = [detokenize(translation.french[:end]) for end in range(len(translation.french) + 1)]
    return [after[len(before) :] for before, after in pairwise(written)]


def written(translation: Translation, mark: Callable[[str, int], object]) -> html.Markup:
    """Returns the French text, with each word as `mark` returns it, given its text and its position."""
    parts: list[object] = []
    for i, piece in enumerate(pieces(translation)):
        parts += [" " * piece.startswith(" "), mark(piece.strip(), i)]
    return html.join(parts)


def in_french(translation: Translation, step: int) -> html.Markup:
    """Returns the French text: the current word is marked, later words are pale, and hidden while the slider plays."""
    hidden = "true" if play_slider.plays(TransformerState.step) else None

    def mark(word: str, i: int) -> object:
        if i == step:
            return html.element("mark", word)
        return html.element("i", word, aria_hidden=hidden) if i > step else word

    end = mark(_("end"), max(step, len(translation.french)))
    return html.element(
        "p",
        written(translation, mark),
        " ",
        html.element("small", end, lang=current_language()),
        class_="attnviz-translation",
        lang="fr",
        role="status",
    )


def translation_verdict(translation: Translation) -> html.Markup:
    """Returns whether the translation is correct."""
    reference = translation.reference
    if reference is None:
        return html.element("p", why_unknown(translation.english), class_="attnviz-verdict")
    if reference.french == translation.french:
        return html.element("p", _("Correct translation."), class_="attnviz-verdict attnviz-right")
    right = html.element("b", detokenize(reference.french), lang="fr")
    return html.element(
        "p",
        html.Markup(_("The right translation: {french}")).format(french=right),
        class_="attnviz-verdict attnviz-wrong",
    )


def earlier_sentence(translation: Translation) -> html.Markup:
    """Returns whose translation stays on the page while the typed sentence cannot be read; transformer.css dims it."""
    english = html.element("b", " ".join(translation.english))
    sentence = html.Markup(_("This is the translation of {english}")).format(english=english)
    return html.element("p", sentence, class_="attnviz-verdict attnviz-old")


def why_unknown(english: tuple[str, ...]) -> str:
    """Returns why no reference translation is known."""
    end, expected = next((n, words) for n in range(len(english) - 1, -1, -1) if (words := next_words(english[:n])))
    if english[end] in expected:  # it was whole there
        return _(
            "It was trained on one sentence at a time, and more follows “{words}”.", words=" ".join(english[: end + 1])
        )
    some = ", ".join(f"“{word}”" for word in expected[:MOST_EXPECTED]) + " …" * (len(expected) > MOST_EXPECTED)
    context = _("After “{words}”", words=" ".join(english[:end])) if end else _("At the beginning")
    return _(
        "It never saw sentences like this, so this may be wrong. {context} it expects {some}, not “{english}”.",
        context=context,
        some=some,
        english=english[end],
    )


def likeliest(step: TranslationStep) -> html.Markup:
    """Returns the five most likely words of a step as bars."""
    rows = (
        html.element(
            "tr",
            html.element("th", visible(word), lang="fr"),
            html.element("td", html.element("span", html.element("i", style=f"width:{100 * probability:.1f}%"))),
            html.element("td", number(probability) if probability >= 1e-4 else "< 0.0001"),
            class_="attnviz-taken" if word == step.word else None,
        )
        for word, probability in step.likeliest()
    )
    return html.element(
        "table", html.element("caption", _(SURE, most=f"{1 - SMOOTHING:.2f}")), *rows, class_="attnviz-likeliest"
    )


def looks(translation: Translation, step: int, head: str, weights: np.ndarray) -> str:
    """Returns a sentence about the largest weight of the current word."""
    word, key = translation.steps[step].word, int(np.nanargmax(weights))
    when = _("When ending the sentence") if word == END else _("When writing “{word}”", word=visible(word))
    share = number(float(weights[key]))
    return _(
        "{when}, {head} gives {share} of its attention to “{english}”.",
        when=when,
        head=in_sentence(head),
        share=share,
        english=translation.english[key],
    )
