"""The translation word by word, and what the word that comes out looked at."""

from html import escape
from itertools import pairwise

import numpy as np
import streamlit as st

from attnviz.figures import lines
from attnviz.formatting import number, visible
from attnviz.translator import Step, Translation, following
from attnviz.translator.train import SMOOTHING
from attnviz.translator.translation import spelled
from attnviz.ui import presentation
from attnviz.ui.chart import chart
from attnviz.ui.play_slider import PLAYING, slider
from attnviz.ui.transformer import maps

END = "<end>"
WORD = "word"
COLORED = "Orange: where this word looks, the thicker the more. Gray: where each word before it looked most."
RINGS = " A ring marks the English word that it stands for, which the head was never told."
SURE = f"How sure it is here; it was trained to be about {1 - SMOOTHING:.2f} sure at most."
MOST_EXPECTED = 4  # words that are named where another one is not understood


def show(translation: Translation, head: int) -> int:
    """Draws the translation up to a step of decoding, which is chosen here and given back."""
    with st.container(key="decoded"):  # its three places are side by side, or below each other, by transformer.css
        with st.container(key="decoded-words"):
            said = st.container()
            step = _step(translation)
        with said:
            st.html(in_french(translation, step) + verdict(translation))
        with st.container(key="decoded-lines", gap=None):
            _lines(translation, step, head)
        with st.container(key="decoded-likeliest"):
            st.html(likeliest(translation.steps[step]))
    return step


def _lines(translation: Translation, step: int, head: int) -> None:
    """What the word of a step looked at, in a head of the encoder–decoder attention."""
    cross = maps.of(translation, "cross", step)
    looked = looks(translation, step, maps.HEAD_NAMES[head], cross.weights[head, step])
    st.html(f"<p class='attnviz-summary attnviz-looks'>{escape(looked)}</p>")
    high = 24 + 27 * max(len(cross.queries), len(cross.keys))
    chart(
        lines(cross.weights[head], cross.queries, cross.keys, row=step, true=cross.true),
        "lines",
        label="What the French word looks at",
        name="lines of attention",
        description=looked,
        height=round(1.4 * high) if presentation.presenting() else high,
        grows=False,
    )
    st.caption(COLORED + RINGS * bool(cross.true))


def _step(translation: Translation) -> int:
    """The step in the link; where another translation has come, the one that it opens at."""
    count, first = len(translation.steps), opening(translation) + 1
    step_before, french_before = st.session_state.get("word of", (None, translation.french))
    another = french_before != translation.french
    if another and st.session_state.get(WORD) == step_before:  # not where the link says both, as on the way back
        st.session_state[WORD] = first
    step = slider("Word by word", range(1, count + 1), WORD, start=first)
    st.session_state["word of"] = (step, translation.french)
    return step - 1


def opening(translation: Translation) -> int:
    """The step that is most worth seeing: the first word that comes before one it follows in English, by the true
    alignment; where there is none, the middle."""
    true = translation.alignment or ()
    overtaking = (i for i, keys in enumerate(true) if any(max(keys) > min(later) for later in true[i + 1 :]))
    return next(overtaking, (len(translation.steps) - 1) // 2)


def pieces(translation: Translation) -> list[str]:
    """The French as it is written, in the pieces that each word adds, with the spaces between them."""
    written = [spelled(translation.french[:end]) for end in range(len(translation.french) + 1)]
    return [after[len(before) :] for before, after in pairwise(written)]


def in_french(translation: Translation, step: int) -> str:
    """The translation in HTML: what was there before a step, what comes out in it, and what is to come, which is
    hidden while it plays."""
    to_come = "<i aria-hidden='true'>" if st.session_state.get(PLAYING) == WORD else "<i>"
    marked = []
    for i, piece in enumerate(pieces(translation)):
        space, word = " " * piece.startswith(" "), escape(piece.strip())
        kind = f"<mark>{word}</mark>" if i == step else f"{to_come}{word}</i>" if i > step else word
        marked.append(space + kind)
    ended = step >= len(translation.french)
    marked.append(f" <small>{'<mark>end</mark>' if ended else f'{to_come}end</i>'}</small>")
    return f"<p class='attnviz-translation' lang='fr' role='status'>{''.join(marked)}</p>"


def verdict(translation: Translation) -> str:
    """Whether the translation is right, in HTML."""
    true = translation.true
    if true is None:
        return f"<p class='attnviz-verdict'>{escape(not_read(translation.english))}</p>"
    if true.french == translation.french:
        return "<p class='attnviz-verdict attnviz-right'>Right, by the grammar.</p>"
    right = f"<b lang='fr'>{escape(spelled(true.french))}</b>"
    return f"<p class='attnviz-verdict attnviz-wrong'>The grammar says: {right}</p>"


def not_read(english: tuple[str, ...]) -> str:
    """Why no right translation is known."""
    at, expected = next((n, words) for n in range(len(english) - 1, -1, -1) if (words := following(english[:n])))
    if english[at] in expected:  # it was whole there
        return f"The grammar reads one sentence at a time, and more follows “{' '.join(english[: at + 1])}”."
    some = ", ".join(f"“{word}”" for word in expected[:MOST_EXPECTED]) + " …" * (len(expected) > MOST_EXPECTED)
    where = f"After “{' '.join(english[:at])}”" if at else "At the beginning"
    return f"The grammar has no such sentence, so this may be wrong. {where} it has {some}, not “{english[at]}”."


def likeliest(step: Step) -> str:
    """The five likeliest words of a step as bars, in HTML."""
    rows = "".join(
        f"<tr{' class=attnviz-taken' if word == step.word else ''}><th lang='fr'>{escape(visible(word))}</th>"
        f"<td><span><i style='width:{100 * probability:.1f}%'></i></span></td>"
        f"<td>{number(probability) if probability >= 1e-4 else '&lt; 0.0001'}</td></tr>"
        for word, probability in step.likeliest()
    )
    return f"<table class='attnviz-likeliest'><caption>{SURE}</caption>{rows}</table>"


def looks(translation: Translation, step: int, head: str, weights: np.ndarray) -> str:
    """What the word of a step looks at most, in a sentence."""
    word, key = translation.steps[step].word, int(np.nanargmax(weights))
    layer, _, of = head.lower().partition(", ")
    to = "To end" if word == END else f"To say “{visible(word)}”"
    return f"{to}, {of} of {layer} looks at “{translation.english[key]}” with {number(float(weights[key]))}."
