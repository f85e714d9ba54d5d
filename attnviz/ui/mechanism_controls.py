"""Controls of a mechanism: score, biases, mask and normalizer."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.biases import BIASES, Bias
from attnviz.language import N_, _
from attnviz.masks import GROUPS, MASKS, Mask
from attnviz.mechanism import Mechanism
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES
from attnviz.ui.widgets import (
    GROUP,
    by_title,
    choose_object,
    choose_several,
    configure,
    field_state,
    fits_widgets,
)

MASK_MENU: dict[str, type[Mask]] = {
    name: kind
    for group, kinds in GROUPS.items()
    for name, kind in {f"{GROUP}{group} —": kinds[0], **by_title(kinds)}.items()
}


def choose_mechanism(start: Mechanism, others: DeltaGenerator) -> Mechanism:
    """Draws the widgets of a mechanism, which begin with `start`, those of all but the mask in `others`; returns the
    chosen one."""
    mask = choose_object(N_("Mask"), MASK_MENU, start.mask)
    with others:
        score = choose_object(N_("Score"), by_title(SCORES), start.score)
        biases = choose_biases(N_("Biases"), start.biases)
        normalizer = choose_object(N_("Normalizer"), by_title(NORMALIZERS), start.normalizer)
    return Mechanism(score, biases, mask, normalizer)


def choose_mask_and_biases(start: Mechanism) -> Mechanism:
    """Returns `start` with other biases and another mask."""
    return replace(
        start, biases=choose_biases(N_("Biases"), start.biases), mask=choose_object(N_("Mask"), MASK_MENU, start.mask)
    )


def choose_normalizer(start: Mechanism) -> Mechanism:
    """Returns `start` with another normalizer."""
    return replace(start, normalizer=choose_object(N_("Normalizer"), by_title(NORMALIZERS), start.normalizer))


def choose_score_and_normalizer(start: Mechanism) -> Mechanism:
    """Returns `start` with another score and normalizer."""
    return choose_normalizer(replace(start, score=choose_object(N_("Score"), by_title(SCORES), start.score)))


def choose_biases(label: str, start: Sequence[Bias], prefix: str = "") -> tuple[Bias, ...]:
    """Draws the widgets of biases and returns the biases; `prefix` distinguishes the widgets of two mechanisms."""
    return tuple(choose_several(label, BIASES, start, prefix, _("What is done to the scores before the mask.")))


def choose_unlinked_parameters(key: str, text: str, mask: Mask) -> Mask:
    """Draws the widgets of a mask's parameters, none of them in the link; returns the mask with their values.

    They show `mask`, which was parsed from `text`, whenever the text is new and was not written by them. A mask that is
    not in the catalogue by itself has none.
    """
    if not is_in_menu(mask):
        return mask
    followed_text = f"{key} followed"
    if st.session_state.get(followed_text) != text:
        st.session_state.update(field_state(mask, key))
    chosen = configure(mask, key, linked=False)
    st.session_state[followed_text] = text if chosen == mask else str(chosen)
    return chosen


def is_in_menu(mask: Mask) -> bool:
    """Returns whether a mask is one of the catalogue, with parameters that widgets can hold."""
    return isinstance(mask, MASKS) and fits_widgets(mask)
