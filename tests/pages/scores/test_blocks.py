"""The blocks of Scores: maps under similarities, one row under normalizers, and what is said of them."""

import numpy as np
import pytest
import torch

from attnviz.base.language import _
from attnviz.normalizers import NORMALIZERS
from attnviz.page.blocks import Figure, Table, every_block, page_view
from attnviz.page.parts import title
from attnviz.pages.scores.blocks import change_sentences, scores
from attnviz.pages.scores.state import ScoresState


def state_of(**link: str) -> ScoresState:
    state = ScoresState.read(link.items())
    assert not state.refused
    return state


def blocks(**link: str) -> list:
    return [*every_block(scores(state_of(**link)))]


def of(kind: type, shown: list) -> list:
    return [block for block in shown if isinstance(block, kind)]


def test_a_map_for_each_similarity_and_the_difference_of_two() -> None:
    figures = of(Figure, blocks())
    assert [each.name for each in figures] == ["score-scaled-dot", "score-cosine", "score-change"]
    before, after, change = (np.asarray(each.picture.figure.data[0].z) for each in figures)
    np.testing.assert_allclose(change, after - before, atol=1e-6)


def test_a_click_pins_a_row_and_a_second_one_lets_it_go() -> None:
    (first, *_others) = of(Figure, blocks())
    assert first.pinned == 10
    assert dict(first.opens(3, 0))["pinned"] == "3 · didn"
    assert dict(first.opens(10, 0))["pinned"] == "none"


def test_every_normalizer_has_its_row_and_says_what_it_adds_up_to() -> None:
    shown = blocks(look="Normalizers")
    (figure,), (table,) = of(Figure, shown), of(Table, shown)
    assert [row[0] for row in table.rows] == [title(kind) for kind in NORMALIZERS]
    assert len(figure.picture.figure.data[0].z) == len(NORMALIZERS)
    by_name = {row[0]: row[1:] for row in table.rows}
    assert by_name["Softmax"] == ("Soft", "1.00", "16 of 16", "1.82")
    assert by_name["Sparsemax"][:3] == ("Sparse", "1.00", "1 of 16")
    assert by_name["Differential"][1].endswith("(some are negative)")
    rows = torch.from_numpy(
        np.stack([panel.weights[0] for panel in page_view(scores(state_of(look="Normalizers"))).panels])
    )
    assert [number[1].split()[0].replace("−", "-") for number in by_name.values()] == [
        f"{total:.2f}" for total in rows.double().nansum(1).tolist()
    ]


def test_the_row_follows_the_normalizers_parameters() -> None:
    before, after = (of(Table, blocks(look="Normalizers", **more))[0] for more in ({}, {"softmax.temperature": "5"}))
    assert before.rows[0] != after.rows[0]
    assert before.rows[1:] == after.rows[1:]


@pytest.mark.parametrize("look", ["Similarities", "Normalizers"])
def test_a_page_has_a_state_without_a_query(look: str) -> None:
    shown = blocks(look=look, pinned="none")
    assert page_view(scores(state_of(look=look, pinned="none"))).quantities == {}
    assert bool(of(Figure, shown)) == (look == "Similarities")


def test_random_weights_are_said_to_be_random() -> None:
    shown = blocks(similarities="Additive")
    assert any("Its weights are random" in str(getattr(block, "content", "")) for block in shown)


def test_a_cell_is_said_under_both_similarities() -> None:
    sentence = change_sentences("Scaled dot", "Cosine").reweighted
    assert _(sentence, query="it", key="animal", before="0.68", after="0.10") == (
        "it gives animal 0.10 (Cosine) instead of 0.68 (Scaled dot)."
    )
