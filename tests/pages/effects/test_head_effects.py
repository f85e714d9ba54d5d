"""Effects of heads, MLPs and words as Effects shows them, of SmolLM2 and of tiny models."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from attnviz.effects import NEUTRAL_TEXTS, ablations, knockout, mlp_ablations, sweep
from attnviz.models import MINILM, TRANSLATOR
from attnviz.page.blocks import page_view
from attnviz.pages.effects.blocks import effects as effects_page
from attnviz.pages.effects.head_detail import head_detail, sum_of_measure
from attnviz.pages.effects.head_effects import HeadEffects, head_effects, other_effects
from attnviz.pages.effects.sentences import effect_colors, measure_notes, measure_sentence
from attnviz.pages.effects.state import COSINE, DIVERGENCE, LOGIT, LOSS, PROBABILITY, EffectsState
from attnviz.pages.effects.without_heads import effect_numbers
from attnviz.pages.effects.word_effects import word_effects
from tests.support.tiny_models import TEXT

MARY_OR_JOHN = EffectsState()
OTHERS = f"{TEXT} A dog.\n{TEXT} It jumps."


@cache
def measured(state: EffectsState = MARY_OR_JOHN) -> HeadEffects:
    return head_effects(state)


def first_parts(state: EffectsState) -> list[HeadEffects]:
    """What is known at first, with estimates, and when the first head has been measured."""

    class PartKnownError(Exception):
        pass

    parts: list[HeadEffects] = []

    def stop(share: float, effects: HeadEffects) -> None:
        parts.append(effects)
        if share:
            raise PartKnownError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "MOST_TOKENS", 1)  # of a batch, which has one changed run then
        with pytest.raises(PartKnownError):
            head_effects(state, stop)
    return parts


def tiny(saved, **values) -> EffectsState:
    """A tiny model, with two other texts rather than sixteen."""
    return EffectsState(model=str(saved / "gpt2"), text=TEXT, **{"other_texts": OTHERS} | values)


def test_the_head_that_looks_at_john_has_the_largest_effect_above_layer_0() -> None:
    effects = measured()
    assert effects.own == pytest.approx(6.094, abs=1e-3)
    assert effects.heads.shape == (30, 9)
    assert effects.is_complete
    assert effects.measured == 300
    assert effects.heads[23, 3] == pytest.approx(-3.11, abs=0.01)
    order = np.argsort(-np.abs(effects.heads), axis=None)
    assert [divmod(int(place), 9) for place in order[:2]] == [(0, 0), (23, 3)]
    assert np.isfinite(effects.mlps).all()


def test_by_kl_other_heads_come_first() -> None:
    heads = measured(EffectsState(measure=DIVERGENCE)).heads
    order = np.argsort(-heads, axis=None)
    assert [divmod(int(place), 9) for place in order[:4]] == [(0, 0), (29, 1), (0, 8), (23, 3)]
    assert heads[0, 0] == pytest.approx(2.84, abs=0.01)
    assert heads[23, 3] == pytest.approx(0.063, abs=1e-3)


def test_weight_share_and_effect_of_a_head_are_beside_each_other() -> None:
    looks_at_john, looks_at_mary = head_detail(MARY_OR_JOHN, (23, 3)), head_detail(MARY_OR_JOHN, (24, 4))
    assert looks_at_john.share == pytest.approx(2.954, abs=1e-3)  # 2.949 of them from “to”
    assert looks_at_john.keys[looks_at_john.weights.argmax()] == "John"
    assert looks_at_mary.keys[looks_at_mary.weights.argmax()] == "Mary"
    assert looks_at_mary.weights.max() == pytest.approx(0.81, abs=0.005)
    assert looks_at_mary.share == pytest.approx(-1.09, abs=0.005)
    batch, metric = MARY_OR_JOHN.measured_runs[0]
    hidden = knockout(MARY_OR_JOHN.run.linearized.model, batch, metric, layer=24, head=4)
    np.testing.assert_allclose(looks_at_mary.effects, hidden.numpy())
    assert len(looks_at_mary.rows) == 3
    assert looks_at_mary.sentence("+0.50").startswith("Layer 24, head 4 looks from “to” most at “Mary” (0.81). What it")


def test_estimates_are_marked_until_heads_are_measured(saved) -> None:
    state = tiny(saved)
    part = first_parts(state)[-1]
    assert part.estimated is not None
    assert part.measured == 1
    assert not part.is_complete
    numbers = effect_numbers(state, part)
    known = np.isfinite(part.heads)
    np.testing.assert_array_equal(numbers.values, np.where(known, part.heads, part.estimated))
    heads = known.shape[1]
    sentences = np.array(numbers.sentences, dtype=object).reshape(numbers.cells.shape)[:, :heads]
    is_estimated = np.char.endswith(sentences.astype(str), ", estimated")
    assert (is_estimated == ~known).all()
    assert sentences[1, 1].startswith("layer 1, head 1: about ")
    assert not any("estimated" in sentence for sentence in effect_numbers(state, head_effects(state)).sentences)


def test_a_measure_at_its_extreme_has_no_estimates(saved) -> None:
    assert first_parts(tiny(saved, measure=DIVERGENCE))[-1].estimated is None
    assert first_parts(EffectsState(model=MINILM, other_texts=OTHERS))[-1].estimated is None


def test_the_measure_comes_before_all_else(saved) -> None:
    state = tiny(saved)
    first = first_parts(state)[0]
    assert first.own == head_effects(state).own
    assert not first.measured
    assert first.estimated is None
    assert not [sentence for sentence in effect_numbers(state, first).sentences if sentence]


def test_cells_are_heads_and_then_an_mlp() -> None:
    numbers = effect_numbers(MARY_OR_JOHN, measured())
    grid = numbers.grid("grid", "", numbers.opens_head(MARY_OR_JOHN), (23, 3))
    spec = grid.picture.spec
    links = {grid.opens(row, column) for row in range(spec.rows) for column in range(spec.columns)}
    heads = {(layer, head) for layer in range(30) for head in range(9)}
    assert links == {None} | {MARY_OR_JOHN.link_with(head=head) for head in heads}
    assert [*map(numbers.name, numbers.farthest(4))] == [
        "layer 0, MLP",
        "layer 11, MLP",
        "layer 0, head 0",
        "layer 2, MLP",
    ]


@pytest.mark.parametrize("how", ["mean", "resample", "zero"])
def test_other_texts_say_what_heads_and_mlps_write(saved, how) -> None:
    state = tiny(saved, ablation=how)
    batch, metric = state.measured_runs[0]
    model, found = state.run.linearized.model, head_effects(state)
    for measure, effects in ((ablations, found.heads), (mlp_ablations, found.mlps)):
        expected = measure(model, batch, metric, how=how, texts=state.other_runs)
        np.testing.assert_allclose(effects, expected, rtol=0, atol=1e-9)


def test_neutral_texts_say_what_heads_write_at_first(saved) -> None:
    state = EffectsState(model=str(saved / "gpt2"), text=TEXT)
    assert state.ablation == "mean"
    assert all(text.startswith(line) for text, line in zip(NEUTRAL_TEXTS, state.lines, strict=True))
    batch, metric = state.measured_runs[0]
    expected = ablations(state.run.linearized.model, batch, metric, texts=state.other_runs)
    np.testing.assert_allclose(head_effects(state).heads, expected, rtol=0, atol=1e-9)
    assert MARY_OR_JOHN.lines == [*NEUTRAL_TEXTS]


def test_zero_and_mean_are_both_known_of_a_head(saved) -> None:
    state = EffectsState(model=str(saved / "gpt2"), text=TEXT)  # with zeros there is no field for other texts
    other = state.updated(ablation="zero")
    place = (1, 2)
    assert other_effects(state, [place]) == {place: pytest.approx(head_effects(other).heads[place], abs=1e-5)}
    assert other_effects(other, [place]) == {place: pytest.approx(head_effects(state).heads[place], abs=1e-5)}


def test_progress_grows_with_heads_and_then_mlps(saved) -> None:
    steps: list[tuple[float, int, bool]] = []
    head_effects(tiny(saved), lambda share, so_far: steps.append((share, so_far.measured, so_far.is_complete)))
    assert steps == sorted(steps)
    assert (8 / 10, 8, False) in steps
    assert steps[-1] == (1.0, 10, True)


def test_words_are_hidden_from_all_heads_or_from_some(saved) -> None:
    everywhere, in_layer = tiny(saved), tiny(saved, hidden_from=1)
    of_head = in_layer.updated(hidden_from_head=2)
    batch, metric = everywhere.measured_runs[0]
    for state, places in ((everywhere, {}), (in_layer, {"layer": 1}), (of_head, {"layer": 1, "head": 2})):
        expected = knockout(everywhere.run.linearized.model, batch, metric, **places)
        np.testing.assert_allclose(word_effects(state), expected, rtol=0, atol=1e-9)


def test_quantities_are_the_numbers_of_the_tab(saved) -> None:
    state = tiny(saved)
    effects = head_effects(state)
    quantities = page_view(effects_page(state)).quantities
    assert quantities["measure"] == pytest.approx(effects.own)
    assert quantities["effect of 1.2"] == pytest.approx(effects.heads[1, 2])
    assert quantities["effect of MLP 0"] == pytest.approx(effects.mlps[0])
    words = [name for name in quantities if name.startswith("effect without ")]
    assert len(words) == len({*state.run.source})
    assert quantities["effect without The"] == pytest.approx(word_effects(state)[0])


@pytest.mark.parametrize("measure", [LOGIT, PROBABILITY, DIVERGENCE, LOSS])
def test_a_measure_is_said_with_its_value(saved, measure) -> None:
    state = tiny(saved, measure=measure)
    assert (sum_of_measure(state) is None) == (measure != LOGIT)
    logits = AutoModelForCausalLM.from_pretrained(saved / "gpt2")(**state.measured_runs[0][0]).logits[0].double()
    ids = state.measured_runs[0][0]["input_ids"][0]
    expected = {
        LOGIT: logits[-1].max(),
        PROBABILITY: logits[-1].softmax(-1).max(),
        DIVERGENCE: torch.tensor(0.0),
        LOSS: torch.nn.functional.cross_entropy(logits[:-1], ids[1:]) / np.log(2),
    }[measure]
    effects = head_effects(state)
    assert effects.own == pytest.approx(expected.item(), abs=1e-5)
    assert measure_sentence(state, effects)


def test_encoders_and_decoders_have_their_layers() -> None:
    effects = measured(EffectsState(model=TRANSLATOR))
    assert effects.heads.shape == (6, 4)
    assert np.isfinite(effects.mlps).sum() == 4  # cross-attention and self-attention of the decoder share theirs
    sentence = EffectsState(model=MINILM, other_texts=OTHERS)
    assert sentence.measure == COSINE
    assert measured(sentence).own == pytest.approx(1)
    assert (measured(sentence).heads <= 1e-6).all()


def test_it_is_said_where_a_measure_says_little(saved) -> None:
    state, effects = tiny(saved, measure=PROBABILITY), head_effects(tiny(saved))
    assert not measure_notes(state, replace(effects, measures=np.array([0.5])))
    for own in (0.9999, 0.00001):
        [note] = measure_notes(state, replace(effects, measures=np.array([own])))
        assert "the softmax is saturated" in note
    assert not measure_notes(tiny(saved), replace(effects, measures=np.array([0.9999])))
    infinite = np.where(np.arange(4) == 2, np.inf, effects.heads)
    [note] = measure_notes(tiny(saved, measure=DIVERGENCE), replace(effects, heads=infinite))
    assert note.startswith("An effect is infinite")


def test_a_model_in_half_precision_is_measured_in_float32(saved, tmp_path) -> None:
    AutoModelForCausalLM.from_pretrained(saved / "gpt2").bfloat16().save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((saved / "gpt2" / file).read_bytes())
    state = EffectsState(model=str(tmp_path), text=TEXT)
    [note] = measure_notes(state, head_effects(state))
    assert "measured in float32" in note


def test_what_the_measure_falls_without_is_blue_as_its_share_is() -> None:
    assert effect_colors(MARY_OR_JOHN) == (True, ("for “Mary”", "against"))
    assert effect_colors(EffectsState(measure=PROBABILITY)) == (True, ("for “Mary”", "against"))
    assert effect_colors(EffectsState(measure=LOSS)) == (False, ("against", "for the text"))
    assert effect_colors(EffectsState(measure=DIVERGENCE)) == (False, ("", ""))
    assert effect_colors(EffectsState(model=MINILM)) == (True, ("", ""))


def test_the_color_bar_says_that_mlps_do_more_than_heads() -> None:
    effects = measured()
    grid = effect_numbers(MARY_OR_JOHN, effects).chart().figure
    largest = float(np.abs(effects.heads).max())
    assert np.nanmin(effects.mlps) < -largest
    assert grid.layout.coloraxis3.reversescale
    assert grid.layout.coloraxis3.colorbar.ticktext[0] == f"for “Mary” ≤ −{largest:.2g}"
