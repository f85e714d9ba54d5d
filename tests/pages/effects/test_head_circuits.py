"""Circuits of heads and kinds of heads, as the page shows them, against those of the library."""

import gc
import weakref
from typing import TypeVar

import numpy as np
import pytest

from attnviz.attribution.text_attribution import read_text
from attnviz.models import MINILM, TRANSLATOR
from attnviz.models.loading import inspect_folder
from attnviz.page import model_circuits
from attnviz.page.blocks import Block, page_view
from attnviz.pages.effects.blocks import effects as effects_page
from attnviz.pages.effects.head_circuits import CircuitsView, circuits_of_model, circuits_view
from attnviz.pages.effects.state import CIRCUITS, MORE, EffectsState

B = TypeVar("B", bound=Block)


def state(tab: str = CIRCUITS, **link: str) -> EffectsState:
    opened = [("inspect", MORE), ("effects-more", tab)]
    return EffectsState.read([*opened, *((name.replace("_", "-"), text) for name, text in link.items())])


@pytest.fixture(scope="module")
def opening() -> CircuitsView:
    return circuits_view(state())


def test_the_head_that_suppresses_most_opens_first(opening: CircuitsView) -> None:
    assert opening.head == (23, 3)
    assert opening.word == "Mary"
    assert [row.token for row in opening.lowered[:2]] == [" Mary", "Mary"]
    assert opening.copying_score == pytest.approx(-0.98, abs=0.005)
    assert opening.written_sentence == (
        "When layer 23, head 3 looks at “Mary”, it lowers “Mary” itself by 5.34 standard deviations: number 1 of all "
        "49,152 tokens that it lowers."
    )
    raised, lowered = opening.copied_shares
    assert raised == 0
    assert 0.4 < lowered < 0.7
    assert f"{lowered:.1%}".replace("%", "") in opening.copying_sentence


def test_lists_are_the_ends_of_all_tokens(opening: CircuitsView) -> None:
    own = opening.circuits
    for values, most, least in (
        (own.writes(23, 3, opening.token), opening.raised, opening.lowered),
        (own.preferred_keys(23, 3, opening.token), opening.preferred, opening.avoided),
    ):
        order = values.argsort(descending=True).tolist()
        assert [row.token for row in most] == [opening.text(token)[:24] for token in order[:8]]
        assert [row.token[:23] for row in least] == [opening.text(token)[:23] for token in order[: -8 - 1 : -1]]
        assert float(most[0].value) == pytest.approx(float(values.max()), abs=0.006)


def test_the_previous_token_head_writes_what_the_induction_head_finds() -> None:
    shown = circuits_view(state(effects_head="layer 18, head 6", reads="river"))
    assert shown.head == (18, 6)
    assert "looks at “river”, it raises “river” itself by 2.76 standard deviations" in shown.written_sentence
    assert [(row.writer, row.reader) for row in shown.compositions[:3]] == [
        ((17, 8), (18, 6)),
        ((16, 0), (18, 6)),
        ((18, 6), (19, 8)),
    ]
    names = shown.composition.chart().spec.names
    assert "layer 16, head 0: +0.12" in names
    assert sum(name == "" for name in names) == 9  # heads of one layer do not read each other
    assert "0.042" in shown.composition_note


def test_embeddings_may_be_taken_as_they_are() -> None:
    shown = circuits_view(state(tokens_as="as embeddings", effects_head="layer 23, head 3"))
    assert shown.circuits.tokens is shown.circuits.maps.embedding
    assert shown.copied_shares[1] < 0.1


def test_a_translator_has_circuits_of_embeddings() -> None:
    shown = circuits_view(state(why_model=TRANSLATOR))
    assert shown.circuits.tokens is shown.circuits.maps.embedding
    assert shown.head[0] >= 2  # of the decoder, which writes to logits
    assert len(shown.raised) == 8
    encoder = circuits_view(state(why_model=TRANSLATOR, effects_head="encoder 0, head 1"))
    assert encoder.copying_score is None
    assert {row.writer for row in encoder.compositions} == {(0, 1)}  # nothing comes before it
    with pytest.raises(ValueError, match="encoder 0 writes to no logits"):
        _ = encoder.raised


def test_what_has_no_circuits_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="norms or other maps lie in the residual stream"):
        circuits_view(state(why_model=MINILM))
    with pytest.raises(ValueError, match=r"There is no token 99999: there are 49152"):
        circuits_view(state(reads="#99999"))
    monkeypatch.setattr(model_circuits, "MOST_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="take too much memory here"):
        circuits_view(state())


def test_lessons_can_check_what_is_shown(opening: CircuitsView) -> None:
    circuits = page_view(effects_page(state()))
    assert circuits.quantities["copying score"] == pytest.approx(opening.copying_score)
    assert circuits.quantities["composition with 22.1"] == pytest.approx(float(opening.composition.values[22, 1]))
    np.testing.assert_array_equal(circuits.panels[1].weights, opening.composition.values)


def test_the_circuits_of_a_model_end_with_it(saved) -> None:
    loaded = inspect_folder(saved / "llama").load()
    run = read_text(loaded, "the cat")
    circuits = weakref.ref(circuits_of_model(loaded, run, "first layer").maps)
    assert circuits() is not None
    del loaded, run
    gc.collect()
    assert circuits() is None
