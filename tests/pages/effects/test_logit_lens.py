"""The tab of the logit lens: the likeliest tokens of each layer, and questions for Why."""

import numpy as np
import pytest
import torch

from attnviz.models import MINILM, TRANSLATOR
from attnviz.page.blocks import page_view
from attnviz.pages.effects import logit_lens
from attnviz.pages.effects.blocks import effects as effects_page
from attnviz.pages.effects.logit_lens import lens_view
from attnviz.pages.effects.state import CHOSEN, DIVERGENCE, ENTROPY, LENS, MORE, EffectsState
from attnviz.pages.why.state import WhyState


def state_of(**values: object) -> EffectsState:
    return EffectsState(model=TRANSLATOR, inspect=MORE, more=LENS, **values)


def test_the_top_row_is_what_the_model_says() -> None:
    state = state_of()
    shown, run = lens_view(state), state.run
    picture = shown.chart()
    words = [run.names([run.likeliest(position, 1)[0][0]])[0] for position in range(len(run.predicting))]
    assert [text.replace("&lt;", "<").replace("&gt;", ">") for text in picture.figure.data[0].text[0]] == words
    assert shown.layer_names == ["input", "0", "1"]
    assert shown.sentence.startswith("At “rouge”, “est” is the likeliest token")
    assert picture.spec.names[shown.position].startswith("At “rouge”, after layer 1: “est” 0.95")


def test_colors_are_the_chosen_numbers() -> None:
    likeliest = lens_view(state_of(position=2, token="est"))
    torch.testing.assert_close(torch.tensor(likeliest.colors), likeliest.predictions.probabilities[..., 0])
    entropy = lens_view(state_of(lens_color=ENTROPY))
    assert entropy.chart().figure.layout.coloraxis.cmax == pytest.approx(float(entropy.colors.max()))
    chosen = lens_view(state_of(position=2, token="est", lens_color=CHOSEN))
    likeliest_tokens = dict(chosen.state.run.likeliest(2, 500))
    assert chosen.colors[-1, 2] == pytest.approx(likeliest_tokens[chosen.token], rel=1e-4)
    assert "“est” has its best rank" in chosen.sentence
    numbers = page_view(effects_page(chosen.state)).quantities
    assert numbers["probability after 1"] == pytest.approx(chosen.colors[-1, 2])


def test_a_cell_asks_why_the_model_says_a_token_there() -> None:
    shown = lens_view(state_of(lens_cell=(1, 2)))
    assert shown.title == "At “petite”, after layer 0"
    for row in shown.rows:
        assert row.link is not None
        why = WhyState.read(row.link)
        assert not why.refused
        assert why.position == 2
        assert why.run.name(why.tokens[0]) == row.token
        assert why.tokens[0] != why.tokens[1]
    assert lens_view(state_of(lens_cell=(99, 99))).cell == (2, 7)


def test_long_texts_are_drawn_up_to_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logit_lens, "MOST_COLUMNS", 3)
    shown = lens_view(state_of(position=3))
    assert shown.positions == range(1, 4)
    assert shown.note == "Drawn are tokens 2 to 4 of 8."
    assert shown.chart().spec.columns == 3
    assert np.shape(shown.colors) == (3, 8)
    assert shown.chart().figure.layout.shapes[0].x0 == 1.5
    assert lens_view(state_of(position=0)).positions == range(3)


def test_a_measure_without_a_token_names_none() -> None:
    shown = lens_view(state_of(measure=DIVERGENCE))
    assert shown.token is None
    assert "rank" not in shown.chart().spec.names[0]
    assert CHOSEN not in EffectsState.lens_color.options(shown.state)


def test_a_model_without_next_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="Choose a language model"):
        lens_view(EffectsState(model=MINILM, inspect=MORE, more=LENS))


def test_a_cell_that_is_not_one_is_refused() -> None:
    state = EffectsState.read(
        [("why-model", TRANSLATOR), ("inspect", MORE), ("effects-more", LENS), ("lens-cell", "12")]
    )
    assert state.lens_cell is None
    assert "A cell is written as a layer and a position" in state.refused[0]
