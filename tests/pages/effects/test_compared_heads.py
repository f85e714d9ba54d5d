"""Weight, share and effect of heads, and why they differ, as the page shows them."""

from dataclasses import replace

import numpy as np
import pytest

from attnviz.page.blocks import page_view
from attnviz.pages.effects.blocks import effects as effects_page
from attnviz.pages.effects.compared_heads import ComparedHeads, compared_heads, reasons
from attnviz.pages.effects.head_effects import HeadEffects
from attnviz.pages.effects.state import EFFECT, SHARE, WEIGHT, EffectsState
from tests.support.tiny_models import TEXT


def tiny_state(saved, name: str = "gpt2", **link: object) -> EffectsState:
    values = {"why-model": saved / name, "text": TEXT, "other-texts": f"{TEXT} A dog."} | {
        key.replace("_", "-"): text for key, text in link.items()
    }
    return EffectsState.read([(key, str(text)) for key, text in values.items()])


@pytest.fixture(scope="module")
def opening() -> ComparedHeads:
    """SmolLM2 with the effects that some of its heads have."""
    state = EffectsState()
    effects = np.zeros((30, 9))
    effects[23, 3], effects[24, 4], effects[20, 0], effects[1, 3] = -3.11, 0.69, -1.60, -0.23
    return compared_heads(state, HeadEffects(6.09, effects, np.zeros(30)))


def test_numbers_are_those_of_the_measured_position(opening: ComparedHeads) -> None:
    assert list(opening.values) == [WEIGHT, SHARE, EFFECT]
    assert opening.word((24, 4)) == "Mary"
    assert [opening.text(name, (24, 4)) for name in opening.values] == ["0.81", "−1.09", "+0.69"]
    assert opening.text(SHARE, (23, 3)) == "+2.95"
    run = opening.state.run
    weights = run.weights(11, 5, 13)
    assert opening.values[WEIGHT][11, 5] == pytest.approx(float(weights[1:].max()))
    assert opening.strongest[11, 5] == 1 + int(weights[1:].argmax())


def test_the_first_word_counts_where_it_is_wanted(opening: ComparedHeads) -> None:
    state = opening.state.updated(without_first=False)
    every = compared_heads(state, HeadEffects(6.09, opening.values[EFFECT], np.zeros(30)))
    assert (every.values[WEIGHT] >= opening.values[WEIGHT]).all()
    assert (every.strongest == 0).mean() > 0.4  # many heads look there


def test_heads_whose_share_and_effect_add_up_come_last(opening: ComparedHeads) -> None:
    order = opening.farthest(270)
    apart = [abs(opening.values[SHARE][head] + opening.values[EFFECT][head]) for head in order]
    assert apart == sorted(apart, reverse=True)
    assert order[:2] == [(20, 0), (29, 1)]  # −0.24 − 1.60, and 1.73 + 0, as its effect is not known here
    by_weight = replace(opening, state=opening.state.updated(across=WEIGHT))
    assert opening.values[WEIGHT][by_weight.farthest(1)[0]] > 0.9


def test_the_picture_colors_the_number_that_is_on_no_axis(opening: ComparedHeads) -> None:
    points = opening.chart((24, 4)).figure.data[0]
    np.testing.assert_allclose(points.marker.color, opening.values[WEIGHT].flatten())
    assert opening.chart(None).spec.sentences[24 * 9 + 4] == (
        "layer 24, head 4: weight 0.81, share −1.09, effect +0.69"
    )
    across = replace(opening, state=opening.state.updated(across=WEIGHT))
    np.testing.assert_allclose(across.chart(None).figure.data[0].marker.color, opening.values[SHARE].flatten())


def test_reasons_name_what_was_measured(opening: ComparedHeads) -> None:
    suppressing, through_others, zero_misleads = reasons(opening, [(24, 4), (20, 0), (1, 3)])
    assert suppressing.sentences == (
        "Others make up for a part of it: without it, its own share changes by +1.09 and those of others by −0.20, "
        "most of all 29.0 from −1.16 to −1.71; 28.1 from +0.21 to +0.13; MLP 24 from −0.26 to −0.32. The scales of "
        "norms, by which all shares change, add −0.21.",
    )
    assert through_others.sentences[-1] == (
        "It works through others: without it, the measure changes by +0.20 while all later heads and MLPs write what "
        "they write now, and by −1.60 otherwise. Their shares change by −1.94, most of all 23.0 from +0.78 to +0.17; "
        "29.1 from +1.73 to +1.18; MLP 29 from +1.44 to +1.09."
    )
    assert zero_misleads.sentences[0] == (
        "Its effect is −0.23 if it writes its mean over other texts, but −2.36 if it writes zeros."
    )
    assert not any("through others" in sentence for sentence in zero_misleads.sentences)


def test_the_size_of_what_is_read_is_said_where_the_weight_is_large(opening: ComparedHeads) -> None:
    small, direct, large = (texts for _head, texts in reasons(opening, [(3, 2), (23, 3), (10, 1)]))
    assert small[1] == (
        "It looks at “the” (0.62), but what it reads there is small: 6.9% of the largest vector that a head of its "
        "layer writes here from a word."
    )
    assert "It looks at" not in "".join(direct)  # its share is what it writes from there
    assert large[1] == (
        "It looks at “gave” (0.95), and what it reads there is 100% of the largest vector of its layer, but the "
        "measure hardly depends on it directly."
    )


def test_an_encoder_has_no_weights_at_a_position_of_the_decoder(saved) -> None:
    state = tiny_state(saved, "t5", compares=True)
    layers = len(state.run.layers)
    unknown = np.full((layers, max(state.run.heads)), np.nan)
    weights = compared_heads(state, HeadEffects(0.0, unknown, np.zeros(layers))).values[WEIGHT]
    for layer, own in zip(state.run.ids, weights, strict=True):
        assert np.isnan(own).all() if layer.stack == "encoder" else np.isfinite(own).all()


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_a_link_is_a_view_without_a_page(saved, name: str) -> None:
    shown = page_view(effects_page(tiny_state(saved, name, compared="true")))
    assert [panel.title for panel in shown.panels] == ["weight", "share", "effect", "Effects of hiding words"]
