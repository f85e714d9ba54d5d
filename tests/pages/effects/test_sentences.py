"""Sentences on effects say what the numbers say."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnviz.effects.compensation import Compensation, Shares
from attnviz.pages.effects.head_effects import HeadEffects
from attnviz.pages.effects.sentences import (
    both_effects,
    changes_sentence,
    estimates_sentence,
    progress_sentence,
)

HEAD = (0, 0)


def made(own: float, others: float, norms: float = 0.0, direct: float = np.nan) -> Compensation:
    """A head whose own share changes by `own`, and one other head."""

    def shares(head: float, other: float, total: float) -> Shares:
        return Shares(total, torch.tensor([[head, other]], dtype=torch.float64), torch.zeros(0, dtype=torch.float64))

    before, same_norms = shares(-own, 2.0, 6.0), shares(0.0, 2.0 + others, 6.0 + own + others)
    return Compensation(HEAD, before, shares(0.0, 2.0 + others, same_norms.total + norms), same_norms, direct)


OTHERS = [("1.0", 2.0, 1.5)]


def test_through_others_needs_a_direct_effect_that_is_small() -> None:
    assert changes_sentence(made(0.2, -1.8, direct=0.2), OTHERS, 0.1) == (
        "It works through others: without it, the measure changes by +0.20 while all later heads and MLPs write what "
        "they write now, and by −1.60 otherwise. Their shares change by −1.80, most of all 1.0 from +2.00 to +1.50."
    )
    for direct in (np.nan, -1.0, -1.6, 1.0):
        assert "through others" not in changes_sentence(made(0.2, -1.8, direct=direct), OTHERS, 0.1)


def test_others_make_up_for_no_more_than_the_head_wrote() -> None:
    assert changes_sentence(made(-0.8, 0.4, direct=-0.8), OTHERS, 0.1) == (
        "Others make up for a part of it: without it, its own share changes by −0.80 and those of others by +0.40, "
        "most of all 1.0 from +2.00 to +1.50."
    )
    for own, others in ((-0.8, -0.4), (-0.4, 0.8)):
        sentence = changes_sentence(made(own, others, direct=own), OTHERS, 0.1)
        assert sentence.startswith("Without it, its own share changes by")


def test_the_scales_of_norms_are_a_sentence_of_their_own() -> None:
    assert changes_sentence(made(-0.8, 0.4, 0.3, -0.8), OTHERS, 0.1).endswith(
        " The scales of norms, by which all shares change, add +0.30."
    )
    assert "norms" not in changes_sentence(made(-0.8, 0.4, 0.05, -0.8), OTHERS, 0.1)


def test_what_others_write_may_change_little() -> None:
    assert changes_sentence(made(-0.8, 0.05, direct=-0.8), OTHERS, 0.1) == (
        "Without it, what others write changes the measure little, by +0.050 together."
    )


@pytest.mark.parametrize("how", ["mean", "zero", "resample"])
def test_zero_and_mean_stand_together_where_they_differ(how) -> None:
    for value, other in ((-0.23, -2.36), (0.1, -0.1), (1.0, 0.4)):
        text = both_effects("here", value, other, how)
        assert text.startswith("here if it writes ")
        assert "if it writes zeros" in text
        assert text != "here"
    for value, other in ((-3.12, -3.11), (1.0, 0.6), (0.0, 0.0), (1.0, None), (np.nan, 1.0)):
        assert both_effects("here", value, other, how) == "here"


def test_estimates_say_how_far_they_are_off() -> None:
    effects = np.append(np.arange(11.0), np.nan)[None]
    estimated = np.append(np.arange(11.0), 3.0)[None]
    estimated[0, 4] = -2.0
    assert estimates_sentence(estimated, effects) == (
        "On the 11 heads that have been measured here, estimates have a correlation of 0.89 with the effects; the "
        "farthest is −2.00 where the effect is +4.00."
    )
    assert estimates_sentence(estimated[:, 3:], effects[:, 3:]) == ""
    assert estimates_sentence(estimated, np.zeros_like(effects)) == ""


def test_nothing_is_said_to_be_measured_before_it_is() -> None:
    heads, mlps = np.ones((2, 4)), np.array([1.0, np.nan])
    so_far = HeadEffects(np.ones(1), heads, mlps)
    assert "has been measured by" not in progress_sentence(so_far)
    assert "estimate" in progress_sentence(replace(so_far, estimated=heads))
    done = HeadEffects(np.ones(1), heads, np.ones(2), each=heads[None])
    assert progress_sentence(done) == "Each head and each MLP has been measured by running the model without it."
