"""The Scores page without a browser."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from attnviz.analysis.head_maps import row_summary
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES
from attnviz.state.parts import title
from attnviz.ui.scores.normalizers import families, short_summary, summary_sentence
from attnviz.ui.scores.similarities import change_sentences
from tests.support.app import open_page
from tests.support.array_files import npz

ROOT = Path(__file__).parents[2]


page = partial(open_page, "scores")


def charts(app: AppTest) -> int:
    assert not app.exception
    return len(app.get("bidi_component"))


@pytest.mark.parametrize("source", ["Model", "Toy"])
def test_three_similarities_and_the_difference_of_two(source: str) -> None:
    app = page(source=source)
    assert charts(app) == 4
    assert not app.error


def test_every_similarity_can_stand_beside_the_others() -> None:
    app = page()
    names = [title(score) for score in SCORES]
    app.multiselect(key="similarities").set_value(names).run()
    assert charts(app) == len(names) + 1
    app.multiselect(key="similarities").set_value(names[:1]).run()
    assert charts(app) == 1
    app.multiselect(key="similarities").set_value([]).run()
    assert not app.exception
    assert "at least one similarity" in app.info[0].value


def test_every_normalizer_has_its_row_and_says_what_it_adds_up_to() -> None:
    app = page(look="Normalizers")
    assert charts(app) == len(NORMALIZERS)
    told = [one.value for one in app.caption if "adds up to" in one.value]
    assert len(told) == len(NORMALIZERS)


def test_normalizers_stand_in_groups_that_the_top_of_the_page_names() -> None:
    app = page(look="Normalizers")
    headings = [one.value.removeprefix("#### ") for one in app.markdown if one.value.startswith("#### ")]
    assert headings == ["Soft", "With a sink", "Sparse", "Not adding up to 1"]
    assert [kind for kinds in families().values() for kind in kinds] == list(NORMALIZERS)
    [contents] = [one.value for one in app.markdown if "(#sparse)" in one.value]
    assert all(title(kind) in contents for kind in NORMALIZERS)
    assert any("the score of animal is 2.0 times that of" in one.value.replace("\\", "") for one in app.caption)


def test_the_difference_says_from_what_to_what_and_what_is_random() -> None:
    app = page()
    headings = [one.value for one in app.markdown]
    assert "**Cosine − Scaled dot**" in headings
    assert "**Additive** · random weights" in headings
    assert "Its weights are random: its numbers mean nothing." in [one.value for one in app.caption]
    sentence = change_sentences("Scaled dot", "Cosine").reweighted
    assert sentence.format(query="it", key="animal", before="0.68", after="0.10") == (
        "it gives animal 0.10 (Cosine) instead of 0.68 (Scaled dot)."
    )


def test_a_row_needs_a_query() -> None:
    app = page(look="Normalizers", pinned="none")
    assert charts(app) == 0
    assert "Pin a query" in app.info[0].value


def test_a_text_of_ones_own_has_a_query_pinned() -> None:
    app = page(look="Normalizers", text="one two three four five")
    assert app.selectbox(key="pinned").value == "3 · three"  # behind [CLS], one and two
    assert charts(app) == len(NORMALIZERS)
    app.text_input(key="text").set_value("six seven").run()
    assert app.selectbox(key="pinned").value == "2 · seven"


def test_the_row_follows_the_normalizers_parameters() -> None:
    app = page(look="Normalizers")
    before = [one.value for one in app.caption]
    app.number_input(key="softmax.temperature").set_value(5.0).run()
    assert [one.value for one in app.caption] != before


def test_a_similarity_that_does_not_fit_is_said_and_the_last_picture_stays() -> None:
    app = page(source="Upload")
    file = npz(query=np.ones((3, 4)), key=np.ones((5, 6)))
    app.file_uploader[0].upload("widths.npz", file)
    app.run()
    assert not app.exception
    assert app.error


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([0.5, 0.5], "It adds up to 1; 2 of 2 keys get weight; entropy 1.00 bits."),
        ([1.0, 0.0], "It adds up to 1; 1 of 2 keys gets weight; entropy 0.00 bits."),
        ([0.25, 0.25], "It adds up to 0.50, not 1; 2 of 2 keys get weight; entropy 1.00 bits."),
        ([0.75, -0.25], "It adds up to 0.50, not 1; 2 of 2 keys get weight; some weights are negative."),
        ([-0.5, -0.25], "It adds up to −0.75, not 1; 2 of 2 keys get weight; some weights are negative."),
        ([0.0, float("nan")], "It adds up to 0.00, not 1; 0 of 1 key gets weight."),
    ],
)
def test_what_is_said_of_a_row(weights: list[float], sentence: str) -> None:
    assert summary_sentence(row_summary(torch.tensor(weights))) == sentence


def test_what_is_said_of_a_row_in_a_presentation() -> None:
    row = row_summary(torch.tensor([0.75, -0.25]))
    assert short_summary(row) == "adds up to 0.50; 2 of 2 keys get weight; some weights are negative."
