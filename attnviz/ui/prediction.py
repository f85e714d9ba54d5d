"""Predict, then reveal: the reader guesses where a query looks, and then sees where it looks."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np
import streamlit as st
from jaxtyping import Float

from attnviz.figures.bars import bars
from attnviz.formatting import number, visible
from attnviz.lessons.prediction import can_be_guessed, distance, scaled, shares
from attnviz.ui.chart import chart
from attnviz.ui.markdown import plain
from attnviz.ui.pinned_query import numbered

MOST_PICKED = 5
MOST_PILLS = 32  # keys that can be looked over at once; more of them are a menu
POINTS = 10


@dataclass(frozen=True)
class _Round:
    """One question and its answer; a new one begins with nothing guessed."""

    stamp: int
    number: int
    revealed: bool = False


def ask(key: str, query: str, keys: Sequence[str], answer: Float[np.ndarray, " keys"]) -> bool:
    """Lets the reader guess the weights of `query` over `keys`, and shows the answer beside the guess when asked to.

    True once it is shown: until then nothing of `answer` is sent to the browser from here, and the caller shows
    nothing of it either. NaN is a key that may not be looked at. Another query, other keys or another answer begin
    anew. `key` tells the places apart where something is asked.
    """
    if not can_be_guessed(answer):
        st.info(plain(f"There is nothing to guess: the weights of {visible(query)} are no shares of attention."))
        return True
    now = _round(key, zlib.crc32(repr((query, *keys)).encode(errors="replace") + answer.astype("f8").tobytes()))
    with st.container(key=f"guess-{key}"):
        with st.container():  # what comes and goes stands in one place, so that the chart below stays what it is
            guess = _guess(f"{key}-{now.number}", query, keys)
        if now.revealed:
            st.button("Guess again", key=f"{key}-again", icon=":material/replay:", on_click=_again, args=(key,))
        else:
            st.button(
                "Reveal", key=f"{key}-reveal", type="primary", icon=":material/visibility:",
                disabled=guess is None, on_click=_reveal, args=(key,),
            )  # fmt: skip
        sentences = said(keys, guess, answer) if now.revealed and guess is not None else [""]
        st.html("".join(f"<p class='attnviz-summary'>{escape(one)}</p>" for one in sentences))
        _bars(f"{key}-{now.number}", guess, scaled(answer) if now.revealed else np.full(len(keys), np.nan), keys)
    return now.revealed


def said(keys: Sequence[str], guess: Float[np.ndarray, " keys"], answer: Float[np.ndarray, " keys"]) -> list[str]:
    """How good the guess is, in sentences."""
    best, guessed = int(np.nanargmax(answer)), int(guess.argmax())
    found = f"The most important key is {visible(keys[best])}, with {number(float(answer[best]))}"
    if guess[best] == guess[guessed]:
        found += ": as you guessed."
    elif np.isnan(answer[guessed]):
        found += f"; {visible(keys[guessed])}, which you guessed, may not be looked at."
    else:
        found += f"; {visible(keys[guessed])}, which you guessed, gets {number(float(answer[guessed]))}."
    apart = distance(guess, answer)
    placed = f"{number(apart)} of your guess lies on the wrong keys (0 would be all right, 1 all wrong)."
    total = float(np.nansum(answer))
    also = [] if abs(total - 1) < 0.005 else [f"The weights add up to {number(total)}; compared are shares of that."]
    return [found, placed, *also]


def _guess(key: str, query: str, keys: Sequence[str]) -> Float[np.ndarray, " keys"] | None:
    """The widgets of a guess, and the guess; None as long as there is none."""
    names = [visible(token) for token in keys]
    if len(set(names)) < len(names):
        names = numbered(range(len(keys)), keys)
    label = f"Where does **{plain(visible(query))}** look? Pick one key, or up to {MOST_PICKED}."
    if len(keys) > MOST_PILLS:
        picked = st.multiselect(label, names, key=f"{key}-picked", max_selections=MOST_PICKED)
    else:
        picked = st.pills(label, names, selection_mode="multi", format_func=plain, key=f"{key}-picked")
    if len(picked) > MOST_PICKED:
        st.caption(f"At most {MOST_PICKED} keys: take one back.")
        return None
    places = sorted(names.index(name) for name in picked)
    if not places:
        return None
    if len(places) == 1:
        return shares({places[0]: 1}, len(keys))
    points: dict[int, int] = {}
    for place, column in zip(places, st.columns(max(3, len(places)), gap="medium"), strict=False):
        points[place] = column.slider(plain(names[place]), 0, POINTS, POINTS // 2, key=f"{key}-points-{place}")
    return shares(points, len(keys))


def _bars(
    key: str, guess: Float[np.ndarray, " keys"] | None, answer: Float[np.ndarray, " keys"], keys: Sequence[str]
) -> None:
    picture = bars(np.zeros(len(keys)) if guess is None else guess, answer, keys, names=("Your guess", "Attention"))
    if guess is None and np.isnan(answer).all():
        picture.figure.update_yaxes(range=[0, 1])
    picture.figure.update_yaxes(title_text="share")
    chart(
        picture,
        f"{key}-guess",
        label="Your guess and the answer",
        name="a guess of attention",
        description="Two bars for each key: your guess, and once it is revealed its share of the attention.",
        height=240,
        grows=False,
    )


def _round(key: str, stamp: int) -> _Round:
    last = st.session_state.get(f"{key} round", _Round(stamp, 0))
    now = last if last.stamp == stamp else _Round(stamp, last.number + 1)
    st.session_state[f"{key} round"] = now
    return now


def _reveal(key: str) -> None:
    st.session_state[f"{key} round"] = replace(st.session_state[f"{key} round"], revealed=True)


def _again(key: str) -> None:
    last = st.session_state[f"{key} round"]
    st.session_state[f"{key} round"] = _Round(last.stamp, last.number + 1)
