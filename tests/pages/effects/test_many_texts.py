"""Effects over many texts: each is measured by itself, after its last token."""

import numpy as np
import pytest
import torch

from attnviz.effects import LogitDifference, ablations, estimates
from attnviz.models.smollm2 import smollm2
from attnviz.page.blocks import Anchor, Computed, Figure, Listing, Note, Paragraph, Table, every_block
from attnviz.page.text_list import MOST_MEASURED, MeasuredText
from attnviz.pages.catalogue import read_state
from attnviz.pages.effects.head_effects import head_effects
from attnviz.pages.effects.many_texts import _head_over_texts, effects_over_texts
from attnviz.pages.effects.sentences import effect_colors
from attnviz.pages.effects.state import DIFFERENCE, LOGIT, LOSS, MANY_TEXTS, EffectsState
from tests.support.page_texts import said, summary
from tests.support.tiny_models import TEXT

LINES = f"{TEXT} | brown | dog\n{TEXT} the lazy dog | fox\nover the dog"


def tiny(saved, **values) -> EffectsState:
    others = f"{TEXT} A dog.\n{TEXT} It jumps."
    options = {"inspect": MANY_TEXTS, "other_texts": others, "many": LINES} | values
    return EffectsState(model=str(saved / "gpt2"), text=TEXT, token="fox", other="lazy", **options)


def test_a_line_may_say_what_is_measured(saved) -> None:
    state = tiny(saved)
    assert state.measured_texts == [
        MeasuredText(TEXT, "brown", "dog"),
        MeasuredText(f"{TEXT} the lazy dog", "fox"),
        MeasuredText("over the dog"),
    ]
    names = ("brown", "dog"), ("fox", "lazy"), ("fox", "lazy")
    ids = [[state.run.token_id(name) for name in pair] for pair in names]
    assert [metric for _batch, metric in state.measured_runs] == [LogitDifference(*pair) for pair in ids]


@pytest.mark.parametrize(
    ("many", "measure", "asks"),
    [
        (LINES, DIFFERENCE, True),
        (f"{TEXT} | brown | dog\n{TEXT} | fox | dog", DIFFERENCE, False),
        (f"{TEXT} | brown\n{TEXT} | fox", DIFFERENCE, True),
        (f"{TEXT} | brown\n{TEXT} | fox", LOGIT, False),
        ("", DIFFERENCE, True),
    ],
)
def test_nothing_is_asked_above_texts_that_all_name_it(saved, many: str, measure: str, asks: bool) -> None:
    assert tiny(saved, many=many, measure=measure).asks is asks


def test_effects_are_the_mean_of_those_of_each_text(saved) -> None:
    state = tiny(saved)
    model, runs = state.run.linearized.model, state.measured_runs
    each = torch.stack([ablations(model, batch, metric, texts=state.other_runs) for batch, metric in runs]).numpy()
    effects = head_effects(state)
    np.testing.assert_allclose(effects.heads, each.mean(0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(effects.each, each, rtol=0, atol=1e-9)
    np.testing.assert_allclose(effects.errors, each.std(0, ddof=1) / 3**0.5, rtol=0, atol=1e-9)
    for (batch, metric), own in zip(runs, effects.measures, strict=True):
        logits = model(**batch).logits[0, -1].detach()
        assert own == pytest.approx(float(logits[metric.token] - logits[metric.other]), abs=1e-5)
    estimated = torch.stack([estimates(model, batch, metric, texts=state.other_runs) for batch, metric in runs])
    parts: list = []
    head_effects(state, lambda _share, so_far: parts.append(so_far))
    np.testing.assert_allclose(parts[1].estimated, estimated.mean(0), rtol=0, atol=1e-9)
    done = {so_far.texts: so_far for so_far in parts}
    assert [*done] == [0, 1, 2, 3]
    assert not done[0].measured  # means are of whole texts alone
    for texts in (1, 2):
        np.testing.assert_allclose(done[texts].heads, each[:texts].mean(0), rtol=0, atol=1e-9)


def test_while_it_runs_the_page_computes_nothing_and_says_how_many(saved, monkeypatch) -> None:
    state = tiny(saved, circuit=True)
    parts: list = []
    head_effects(state, lambda _share, so_far: parts.append(so_far))
    done = {so_far.texts: so_far for so_far in parts}
    effects, circuits = (block for block in effects_over_texts(state) if isinstance(block, Computed))
    assert effects.key() == circuits.key()  # one job
    monkeypatch.setattr("attnviz.effects.sweep.Text.from_batch", None)  # by which models run
    for texts, note in (
        (0, "Heads that have not been measured yet have an estimate"),
        (1, "These are the effects in the first of 3 texts, so far."),
        (2, "The mean of 2 of 3 texts so far, ± its standard error."),
    ):
        blocks = [*every_block(effects.shows(done[texts]))]
        assert any(note in block.content for block in blocks if isinstance(block, Note)), texts
        assert effects.describe(done[texts]) == f"{texts} of 3 texts so far."
        assert not [*circuits.shows(done[texts])]
        assert [isinstance(block, Table) for block in blocks].count(True) == (texts > 0)
        said = " ".join(str(block.content) for block in blocks if isinstance(block, Paragraph))
        assert ("in one text" in said, "on average" in said) == (texts == 1, texts == 2)
    assert [*circuits.shows(done[3])]


def test_texts_stand_in_the_order_of_the_effect_and_open_alone(saved) -> None:
    state = tiny(saved)
    effects = head_effects(state)
    values = effects.each[:, 1, 2]
    blocks = [*every_block(_head_over_texts(state, (1, 2), effects))]
    items = [item for block in blocks if isinstance(block, Listing) for item in block.items]
    order = np.argsort(values, kind="stable")
    for item, number in zip(items, order, strict=True):
        opened, why = (read_state(each.page or "effects", each.link) for each in item if isinstance(each, Anchor))
        question = state.measured_texts[number]
        assert not any((opened.problem, opened.refused, why.problem, why.refused))
        assert (opened.text, opened.token, opened.other) == (
            question.text, question.token or "fox", question.other or "lazy"
        )  # fmt: skip
        assert (why.text, why.token, why.other) == (opened.text, opened.token, opened.other)
        alone = head_effects(opened)
        assert alone.heads[1, 2] == pytest.approx(values[number], abs=1e-9)
    assert any(isinstance(block, Figure) for block in blocks)


def test_a_loss_is_measured_over_each_whole_text(saved) -> None:
    state = tiny(saved, measure=LOSS)
    for (batch, _metric), own in zip(state.measured_runs, head_effects(state).measures, strict=True):
        ids = batch["input_ids"][0]
        logits = state.run.linearized.model(**batch).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[1:]) / np.log(2)
        assert own == pytest.approx(float(loss.detach()), abs=1e-4)


def test_the_page_says_how_often_the_measure_is_above_0(saved) -> None:
    link = {"why_model": saved / "gpt2", "text": TEXT, "says": "fox", "rather_than": "lazy", "many_texts": LINES}
    text = said("effects", inspect=MANY_TEXTS, **link)
    above = int((head_effects(tiny(saved)).measures > 0).sum())
    assert f"In {above} of 3 it is above 0." in summary(text)
    assert "with a standard error of" in text


def test_it_opens_with_ten_sentences_that_smollm2_answers() -> None:
    state = EffectsState(inspect=MANY_TEXTS)
    model, runs = smollm2().model, state.measured_runs
    assert len(runs) == 10
    with torch.no_grad():
        logits = [model(**batch).logits[0, -1] for batch, _metric in runs]
    assert all(one[metric.token] > one[metric.other] for one, (_batch, metric) in zip(logits, runs, strict=True))


def test_too_many_texts_are_refused(saved) -> None:
    with pytest.raises(ValueError, match=f"Between 1 and {MOST_MEASURED} texts"):
        tiny(saved, many="a fox\n" * (MOST_MEASURED + 1)).measured_texts  # noqa: B018


def test_colors_are_of_no_token_where_texts_have_their_own(saved) -> None:
    assert effect_colors(tiny(saved)) == (True, ("for it", "against"))
    assert "fox" in " ".join(effect_colors(tiny(saved, many="a fox"))[1])
