"""Predict, then reveal: the reader predicts a query's weights before seeing them."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from jaxtyping import Float

from attnviz.base.formatting import enumeration, number, numbered_tokens, visible
from attnviz.base.language import _
from attnviz.figures.bars import bars
from attnviz.lessons.prediction_distance import is_predictable, normalized, overlaps, shares
from attnviz.page import html
from attnviz.ui.chart import chart
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import SessionValue

MOST_PICKED = 5
MOST_PILLS = 32  # keys that can be looked over at once; more of them are a menu
POINTS = 10
LEAST_OVERLAP = 0.005  # an overlap that is named


@dataclass
class _Round:
    """The question of a session."""

    stamp: int = 0  # of the question
    number: int = -1  # of the widgets
    revealed: bool = False

    def begin(self, stamp: int) -> None:
        """Begins a new round, without a prediction."""
        self.stamp, self.number, self.revealed = stamp, self.number + 1, False

    def reveal(self) -> None:
        self.revealed = True


def predict(key: str, query: str, keys: Sequence[str], weights: Float[np.ndarray, " keys"]) -> bool:
    """Draws widgets that predict the weights of `query` over `keys`; shows the weights after they are revealed.

    Returns whether they are revealed; until then, nothing about them is sent to the browser. NaN is a masked key.
    Another query, other keys or other weights start a new round. `key` distinguishes several predictions on a page.
    """
    if not is_predictable(weights):
        name = visible(query)
        st.info(
            plain(_("There is nothing to predict: the weights of {query} are not shares of attention.", query=name))
        )
        return True
    now = SessionValue(f"{key} round", _Round).get()
    stamp = zlib.crc32(repr((query, *keys)).encode(errors="replace") + weights.astype("f8").tobytes())
    if stamp != now.stamp:
        now.begin(stamp)
    with st.container(key=f"prediction-{key}"):
        with st.container():  # what comes and goes stands in one place, so that the chart below stays what it is
            prediction = _prediction(f"{key}-{now.number}", query, keys)
        if now.revealed:
            st.button(
                _("Predict again"), key=f"{key}-again", icon=":material/replay:", on_click=now.begin, args=(stamp,)
            )
        else:
            st.button(
                _("Reveal"),
                key=f"{key}-reveal",
                type="primary",
                icon=":material/visibility:",
                disabled=prediction is None,
                on_click=now.reveal,
            )
        verdict = prediction_sentences(keys, prediction, weights) if now.revealed and prediction is not None else [""]
        st.html(html.join(map(html.summary, verdict)))
        revealed = normalized(weights) if now.revealed else np.full(len(keys), np.nan)
        _bars(f"{key}-{now.number}", prediction, revealed, keys)
    return now.revealed


def prediction_sentences(
    keys: Sequence[str], prediction: Float[np.ndarray, " keys"], weights: Float[np.ndarray, " keys"]
) -> list[str]:
    """Returns sentences about the quality of the prediction."""
    best, predicted = int(np.nanargmax(weights)), int(prediction.argmax())
    if prediction[best] == prediction[predicted]:
        sentence = _("The most important key is {key}, with {weight}: as you predicted.")
    elif np.isnan(weights[predicted]):
        sentence = _(
            "The most important key is {key}, with {weight}; {predicted}, which you predicted, may not be looked at."
        )
    else:
        sentence = _(
            "The most important key is {key}, with {weight}; {predicted}, which you predicted, gets {predicted_weight}."
        )
    sentence = sentence.format(
        key=visible(keys[best]),
        weight=number(float(weights[best])),
        predicted=visible(keys[predicted]),
        predicted_weight=number(float(weights[predicted])),
    )
    total = float(np.nansum(weights))
    also = (
        []
        if abs(total - 1) < 0.005
        else [_("The weights add up to {total}; shares of that are compared.", total=number(total))]
    )
    return [sentence, _overlap_sentence(keys, overlaps(prediction, weights)), *also]


def _overlap_sentence(keys: Sequence[str], common: Float[np.ndarray, " keys"]) -> str:
    """Returns a sentence about what a prediction and weights have in common, and where."""
    scale = _("(1 would be the same, 0 nothing in common)")
    right = [i for i in np.argsort(-common, kind="stable")[:MOST_PICKED] if common[i] >= LEAST_OVERLAP]
    if not right:
        return _(
            "Your prediction and the attention overlap by {overlap} {scale}.",
            overlap=number(float(common.sum())),
            scale=scale,
        )
    places = enumeration([_("{common} on {key}", common=number(float(common[i])), key=visible(keys[i])) for i in right])
    return _(
        "Your prediction and the attention overlap by {overlap}: {places} {scale}.",
        overlap=number(float(common.sum())),
        places=places,
        scale=scale,
    )


def _prediction(key: str, query: str, keys: Sequence[str]) -> Float[np.ndarray, " keys"] | None:
    """Returns the prediction in the widgets, or None."""
    names = [visible(token) for token in keys]
    if len(set(names)) < len(names):
        names = numbered_tokens(range(len(keys)), keys)
    label = _(
        "Where does **{query}** look? Pick one key, or up to {most_picked}.",
        query=plain(visible(query)),
        most_picked=MOST_PICKED,
    )
    if len(keys) > MOST_PILLS:
        picked = st.multiselect(label, names, key=f"{key}-picked", max_selections=MOST_PICKED, select_all=False)
    else:
        picked = st.pills(label, names, selection_mode="multi", format_func=plain, key=f"{key}-picked")
    if len(picked) > MOST_PICKED:
        st.caption(_("At most {most_picked} keys: take one back.", most_picked=MOST_PICKED))
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
    key: str, prediction: Float[np.ndarray, " keys"] | None, weights: Float[np.ndarray, " keys"], keys: Sequence[str]
) -> None:
    picture = bars(
        np.zeros(len(keys)) if prediction is None else prediction,
        weights,
        keys,
        names=(_("Your prediction"), _("Attention")),
    )
    if prediction is None and np.isnan(weights).all():
        picture.figure.update_yaxes(range=[0, 1])
    picture.figure.layout.yaxis.title.text = _("share")
    chart(picture, f"{key}-prediction", height=240)
