"""The blocks of Side by side: both maps, which tokens belong together, and the difference."""

from pathlib import Path

import numpy as np
import pytest
import torch

import attnviz
from attnviz.base.text import EXAMPLE
from attnviz.models import TRANSLATOR, model_cache
from attnviz.models.hub import MINILM
from attnviz.models.minilm import minilm
from attnviz.page.blocks import AlignedTexts, Columns, Figure, Note, Summary, every_block, page_view
from attnviz.pages.side_by_side.blocks import shared_tokens, side_by_side
from attnviz.pages.side_by_side.state import TWINS, SideBySideState
from attnviz.sources.model import TRANSLATED
from tests.support.tiny_models import TEXT

WIDER = "The animal didn't cross the very wide street because it was too wide."
LEFT, RIGHT = [*range(16)], [*range(8), *range(10, 18)]  # the rows of both that are left without “very wide”


def state_of(**link: str) -> SideBySideState:
    state = SideBySideState.read((name.replace("_", "-"), value) for name, value in link.items())
    assert not state.refused
    assert not state.problem
    return state


def blocks(**link: str) -> list:
    return [*every_block(side_by_side(state_of(**link)))]


def of(kind: type, shown: list) -> list:
    return [block for block in shown if isinstance(block, kind)]


def cells(figure: Figure) -> np.ndarray:
    return np.asarray(figure.picture.figure.data[0].z, dtype=float)


@torch.no_grad()
def weights(text: str, layer: int, head: int) -> np.ndarray:
    """The weights of a head as the default model itself computes them."""
    kept = minilm()
    with kept.lock:
        out = kept.model(**kept.encode(text).batch, output_attentions=True)
    return out.attentions[layer][0, head].double().numpy()


def largest(change: np.ndarray) -> tuple[int, int]:
    row, column = np.unravel_index(np.abs(change).argmax(), change.shape)
    return int(row), int(column)


def test_it_opens_with_the_example_and_its_twin_in_one_range_of_colors() -> None:
    left, right, change = of(Figure, blocks())
    before, after = weights(EXAMPLE, 3, 1), weights(EXAMPLE.replace("tired", "wide"), 3, 1)
    np.testing.assert_allclose(cells(left), before, atol=2e-6)
    np.testing.assert_allclose(cells(right), after, atol=2e-6)
    np.testing.assert_allclose(cells(change), after - before, atol=4e-6)
    ends = [each.picture.figure.layout.coloraxis.cmax for each in (left, right)]
    assert ends == pytest.approx([max(before.max(), after.max())] * 2)
    assert len({each.picture.spec.link for each in (left, right, change)}) == 1
    assert change.picture.spec.query_tokens[13] == "tired / wide"
    assert [each.picture.spec.places for each in (left, right, change)] == [None] * 3


def test_longer_texts_have_the_difference_of_tokens_that_belong_together() -> None:
    shown = blocks(right_text=WIDER)
    left, right, change = of(Figure, shown)
    before, after = weights(EXAMPLE, 3, 1), weights(WIDER, 3, 1)
    assert (cells(left).shape, cells(right).shape) == ((16, 16), (18, 18))
    expected = after[np.ix_(RIGHT, RIGHT)] - before
    np.testing.assert_allclose(cells(change), expected, atol=4e-6)
    for figure, places in ((left, LEFT), (right, [RIGHT.index(i) if i in RIGHT else -1 for i in range(18)])):
        assert figure.picture.spec.places == (tuple(places), tuple(places))
    assert change.picture.spec.places == (tuple(LEFT), tuple(LEFT))
    row, column = largest(expected)
    tokens = minilm().encode(EXAMPLE).source.tokens
    (summary,) = of(Summary, shown)
    more = "more" if expected[row, column] > 0 else "less"
    numbers = f"{abs(expected[row, column]):.2f} {more} of its attention on the right"
    assert f"{tokens[row]} gives {tokens[column]} {numbers}" in summary.content
    assert f"({after[RIGHT[row], RIGHT[column]]:.2f}) than on the left ({before[row, column]:.2f})" in summary.content
    (note,) = of(Note, shown)
    assert note.content.endswith("0 of 16 on the left, 2 of 18 on the right.")
    (texts,) = of(AlignedTexts, shown)
    assert [kind for kind, *_tokens in texts.columns].count("alone") == 2
    assert [kind for kind, *_tokens in texts.columns].count("other") == 1


def test_the_pinned_query_has_its_weights_on_both_sides() -> None:
    state = state_of(right_text=WIDER)
    quantities = page_view(side_by_side(state)).quantities
    before, after = weights(EXAMPLE, 3, 1), weights(WIDER, 3, 1)
    assert quantities["weight of animal on the left"] == pytest.approx(before[10, 2], abs=1e-5)
    assert quantities["weight of animal on the right"] == pytest.approx(after[12, 2], abs=1e-5)
    expected = after[np.ix_(RIGHT, RIGHT)] - before
    assert quantities["largest difference"] == pytest.approx(np.abs(expected).max(), abs=1e-5)
    assert quantities["compared queries"] == quantities["compared keys"] == 16
    figures = of(Figure, [*every_block(side_by_side(state))])
    assert [figure.pinned for figure in figures] == [10, 12, 10]


def test_a_click_on_any_map_pins_the_query_on_all() -> None:
    left, right, change = of(Figure, blocks(right_text=WIDER))
    for figure, row in ((left, 12), (right, 14), (change, 12)):
        assert dict(figure.opens(row, 0))["pinned"] == "12 · too"
    assert right.opens(8, 0) is None  # “very” is on the right alone


def test_unlike_texts_are_read_by_themselves() -> None:
    shown = blocks(text="the cat sat", right_text="a dog ran")
    assert [figure.name for figure in of(Figure, shown)] == ["left-map", "right-map"]
    assert not any(figure.picture.spec.link for figure in of(Figure, shown))
    assert "too few tokens in common" in of(Summary, shown)[0].content
    assert not of(AlignedTexts, shown)


def test_tokens_of_one_vocabulary_are_known_by_their_ids() -> None:
    """The model reads no case: both texts are the same tokens, which are typed otherwise."""
    shown = blocks(text="the cat sat", right_text="THE CAT SAT")
    assert "Both maps have the same weights." in of(Summary, shown)[0].content
    assert len(of(Figure, shown)) == 3


def test_other_words_of_a_decoder_that_looks_at_like_words_are_compared() -> None:
    left, right, change = of(Figure, blocks(model=TRANSLATOR))
    assert left.picture.spec.query_tokens[1:4] == ("la", "petite", "voiture")
    assert right.picture.spec.query_tokens[1:4] == ("les", "petites", "voitures")
    assert change.picture.spec.key_tokens[3:5] == ("car / cars", "is / are")
    np.testing.assert_allclose(cells(change), cells(right) - cells(left), atol=1e-6)


def test_two_heads_of_one_text_are_compared() -> None:
    shown = blocks(right_text=EXAMPLE, right_layer="encoder 5", right_head="Head 2")
    change = of(Figure, shown)[2]
    np.testing.assert_allclose(cells(change), weights(EXAMPLE, 5, 2) - weights(EXAMPLE, 3, 1), atol=4e-6)


def test_two_models_read_the_same_text(saved: Path, isolated: None) -> None:
    link = {"model": str(saved / "bert"), "right_model": str(saved / "gpt2"), "text": TEXT, "layer": "encoder 1"}
    state = state_of(**link)
    assert state.right_text == TEXT
    last = model_cache.model(str(saved / "gpt2")).layers(TEXT)[-1]
    assert state.right_selection.title == f"{last.name}, head 0"
    shown = blocks(**link)
    assert "There is no encoder 1 on the right: layer 1 is shown there." in [note.content for note in of(Note, shown)]
    (columns,) = of(Columns, shown)
    assert [column[0].title for _share, column in columns.columns][:2] == [
        "Left, bert: encoder 1, head 0",
        "Right, gpt2: layer 1, head 0",
    ]


def test_a_model_with_fewer_heads_has_its_last() -> None:
    link = {"head": "Head 11", "layer": "encoder 5", "right_model": TRANSLATOR, "right_text": TRANSLATED}
    notes = [note.content for note in of(Note, blocks(**link))]
    assert any(note.startswith("There is no head 11 on the right: head ") for note in notes)


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ({}, TWINS[EXAMPLE]),
        ({"model": TRANSLATOR}, TWINS[TRANSLATED]),
        ({"text": "my own words"}, "my own words"),
        ({"right_model": TRANSLATOR}, TRANSLATED),
        ({"text": "my own words", "right_model": MINILM}, "my own words"),
        ({"source": "Toy"}, TWINS[EXAMPLE]),
    ],
)
def test_the_right_opens_with_a_twin_of_the_example_or_the_same_text(link: dict[str, str], text: str) -> None:
    state = state_of(**link)
    assert state.right_text == text
    assert SideBySideState.read(state.link()) == state


def test_the_model_on_the_right_is_that_on_the_left_in_every_language() -> None:
    assert SideBySideState.read([("right-model", "Wie links")]) == SideBySideState()


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ({"right-text": " "}, "There is no text yet."),
        ({"right-model": "/nowhere"}, "There is no folder"),
    ],
)
def test_what_cannot_be_shown_on_the_right_is_said(link: dict[str, str], problem: str) -> None:
    state = SideBySideState.read(link.items())
    assert problem in state.problem
    with pytest.raises(ValueError, match=problem):
        attnviz.view(f"side_by_side?{'&'.join(f'{name}={value}' for name, value in link.items())}")


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("abcd", "abcd", ((0, 0), (1, 1), (2, 2), (3, 3))),
        ("abcd", "xbcd", ((0, 0), (1, 1), (2, 2), (3, 3))),  # one is replaced
        ("abcd", "abxycd", ((0, 0), (1, 1), (2, 4), (3, 5))),
        ("abcd", "wxyz", ()),
        ("ab", "wxyzb", ((1, 4),)),
        ("abcd", "wxyzb", ()),  # one of four
        ("", "ab", ()),
    ],
)
def test_tokens_belong_together(left: str, right: str, pairs: tuple) -> None:
    assert shared_tokens((left, right)) == [pairs]


def test_a_text_whose_map_is_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 17 * 17)
    assert not SideBySideState().problem
    assert "This text is too long for this page" in SideBySideState.read([("right-text", WIDER)]).problem
