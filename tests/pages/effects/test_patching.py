"""The tab of patching: what parts of the clean run recover, at which tokens, in words."""

import numpy as np
import pytest

from attnviz.effects import Logit, patch
from attnviz.models import MINILM, TRANSLATOR
from attnviz.page.blocks import page_view
from attnviz.page.token_columns import TokenColumn, token_columns
from attnviz.pages.effects import patching
from attnviz.pages.effects.blocks import effects as effects_page
from attnviz.pages.effects.patching import PatchingView, describe, head_positions, patching_view, paths_view
from attnviz.pages.effects.state import DIVERGENCE, LOGIT, PATCHING, EffectsState

LONGER = "The big small red cars are beautiful."


def state_of(**values: object) -> EffectsState:
    return EffectsState(model=TRANSLATOR, inspect=PATCHING, **values)


def test_the_page_opens_with_a_text_that_says_something_else() -> None:
    shown = patching_view(state_of())
    assert shown.patching.clean > shown.patching.corrupted + 1
    assert "Most is recovered at “are” before layers encoder 0 to encoder 1" in shown.sentence
    assert shown.recovered[0, 4] == pytest.approx(np.nanmax(shown.recovered[0]))
    assert shown.numbers.columns == [*map(str, range(8))]  # an encoder and a decoder have their own tokens
    assert describe(shown) == f"{np.isfinite(shown.recovered).sum()} of 32 cells so far."


def test_heads_recover_what_the_library_says() -> None:
    state = state_of(patched="value", measure=LOGIT, token="est", position=4)
    shown = patching_view(state)
    model, clean = state.run.linearized.model, state.source.model().encode(state.text)
    written = {"decoder_input_ids": state.run.linearized.arguments.kwargs["decoder_input_ids"]}
    other = state.source.model().encode(state.corrupted).batch | written
    expected = patch(model, clean.batch, other, Logit(state.run.token_id("est"), 4), "value")
    np.testing.assert_allclose(shown.recovered, expected.recovered.numpy(), atol=1e-5)
    numbers = shown.numbers
    layer, head = numbers.farthest(1)[0]
    assert (layer, head) == np.unravel_index(np.nanargmax(np.abs(shown.recovered)), shown.recovered.shape)
    assert numbers.name((layer, head)) == f"{state.run.layers[layer]}, head {head}"
    assert numbers.text((layer, head)) == f"{100 * shown.recovered[layer, head]:.0f}%".replace("-", "−")
    grid = numbers.grid("grid", "", numbers.opens_head(state), (5, 1))
    assert len(grid.picture.figure.layout.shapes) == 1
    assert grid.opens(5, 1) == state.link_with(head=(5, 1))


def test_positions_of_a_head_are_those_it_reads() -> None:
    cross = state_of(patched="key")
    assert [sentence.split(":")[0] for sentence in head_positions(cross, (3, 0)).spec.sentences][:4] == [
        "The",
        "small",
        "red",
        "cars",
    ]
    queries = state_of(patched="output")
    assert head_positions(queries, (3, 0)).spec.sentences[0].startswith("<start>: ")


def test_paths_lead_from_heads_before() -> None:
    shown = paths_view(state_of(patched="output", received="query"), (4, 1))
    assert np.isfinite(shown.recovered[:4]).all()
    assert np.isnan(shown.recovered[4:]).all()
    with pytest.raises(ValueError, match="A path leads from a head"):
        paths_view(state_of(patched="output", received="query"), (0, 1))


def test_the_same_text_has_nothing_to_recover() -> None:
    state = state_of(patched="output")
    shown = patching_view(state.updated(corrupted=state.text))
    assert not shown.has_way
    assert shown.sentence.endswith("Both are the same, so there is nothing to recover. Change the corrupted text.")


def columns_of(state: EffectsState) -> list[TokenColumn]:
    return token_columns(state.run.source, state.corrupted_inputs.source.tokens, state.alignment)


def test_tokens_stand_below_those_they_belong_to() -> None:
    state = state_of(corrupted=LONGER)
    columns = [(column.first, column.second, column.kind) for column in columns_of(state)]
    assert columns[:3] == [("The", "The", "same"), (None, "big", "alone"), ("small", "small", "same")]
    assert columns[4] == ("car", "cars", "other")
    state = state.updated(corrections=((2, None), (1, 1)))
    columns = [(column.first, column.second) for column in columns_of(state)]
    assert columns[:3] == [("The", "The"), ("small", "big"), (None, "small")]
    shown = patching_view(state)
    assert np.isnan(shown.recovered[:2, 2]).all()
    assert np.isfinite(shown.recovered[:2, 1]).all()
    with pytest.raises(ValueError, match="A pattern is taken from a text of the same number of tokens"):
        patching_view(state.updated(patched="pattern"))


def test_what_kl_and_cosine_compare_with_is_said() -> None:
    sentence = patching_view(state_of(measure=DIVERGENCE)).sentence
    assert "KL divergence (in bits) from what is said after the clean text: 0.00 in the clean run" in sentence
    shown = patching_view(EffectsState(model=MINILM, patched="mlp"))
    assert shown.state.corrupted.endswith("too wide.")
    assert "the cosine with the vector of the clean text: 1.00 in the clean run" in shown.sentence
    assert shown.numbers.name((0, 13)) == "encoder 0, MLP, at “wide”"


def test_long_texts_are_refused_before_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patching, "MOST_STEPS", 100)
    with pytest.raises(ValueError, match="All runs together read 294 tokens, and at most 100 are read here"):
        patching_view(state_of())


def test_what_is_known_so_far_is_shown() -> None:
    reports: list[tuple[float, PatchingView]] = []
    shown = patching_view(state_of(patched="output"), progress=lambda *report: reports.append(report))
    assert reports[-1][0] == 1
    assert not any("Most is recovered" in view.sentence for _share, view in reports), "before all are known"
    assert "Most is recovered" in shown.sentence
    np.testing.assert_allclose(reports[-1][1].recovered, shown.recovered)


def test_a_link_opens_the_tab_with_its_numbers() -> None:
    state = state_of(patched="output", corrupted=LONGER, corrections=((2, None),), head=(4, 1))
    opened = EffectsState.read(state.link())
    assert (opened, opened.refused) == (state, ())
    shown = page_view(effects_page(opened))
    assert shown.panels[0].weights.shape == (6, 4)
    assert shown.quantities["clean"] != shown.quantities["corrupted"]
    assert "recovered by 4.1" in shown.quantities
