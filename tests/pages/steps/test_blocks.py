"""The blocks of Steps: each stage and what is said of it, why dot products are scaled, and weights to predict."""

import numpy as np
import pytest

from attnviz.base.formatting import number
from attnviz.masks import Causal
from attnviz.page.block_html import block_html
from attnviz.page.blocks import (
    Anchor,
    Drawing,
    Figure,
    Note,
    Paragraph,
    Prediction,
    Summary,
    Table,
    every_block,
    page_view,
)
from attnviz.pages.steps.all_steps import compute_steps
from attnviz.pages.steps.blocks import steps
from attnviz.pages.steps.scaling import WIDTHS, measure_scaling
from attnviz.pages.steps.sentence_example import SentenceExample
from attnviz.pages.steps.stages import matrices_content, stages
from attnviz.pages.steps.state import StepsState
from attnviz.pages.steps.translator_example import TranslatorExample
from attnviz.translator.encoder_decoder import USES

TITLES = ["Queries", "Keys", "Similarity", "Scaling", "Exponential", "Softmax", "Values", "Weighted sum"]


def state_of(**link: str) -> StepsState:
    return StepsState.read([(name.replace("_", "-"), value) for name, value in link.items()])


def of(kind: type, state: StepsState) -> list:
    return [block for block in every_block(steps(state)) if isinstance(block, kind)]


def text(block: object) -> str:
    return block_html(block, lambda anchor: f"{anchor.page}?{anchor.link}").striptags()


def test_it_opens_with_one_product() -> None:
    state = state_of()
    content = matrices_content(state, "")
    assert [stage["title"] for stage in content["stages"]] == TITLES
    assert content["stage"] == "queries"
    assert [one["name"] for one in content["matrices"] if one["stage"] == "queries"] == ["X", "Wq0", "Q0"]
    [summary], tables = of(Summary, state), of(Table, state)
    assert text(summary).startswith("Queries (1 of 8): Every word is a vector.")
    assert [len(table.rows) for table in tables] == [4, 4, 4]
    assert tables[2].rows[1][1:] == ("−1.43", "−2.31", "0.04", "0.88")
    assert "Q[cat, 1] = 1.36·(−0.77) + 1.68·(−0.70) + (−0.84)·0.16 + 2.17·0.43 = −1.43" in map(
        text, of(Paragraph, state)
    )


def test_links_lead_from_stage_to_stage() -> None:
    state, read = state_of(masked="Causal", heads="2"), list[str]()
    while state:
        read.append(state.stage)
        anchors = [part for block in of(Paragraph, state) for part in block.content if isinstance(part, Anchor)]
        state = next((state.opened(anchor.link) for anchor in anchors if anchor.text.startswith("→")), None)
    assert read[1:] == [stage.name for stage in stages(state_of(masked="Causal", heads="2"))][1:]


def test_every_stage_says_what_is_true_of_its_numbers() -> None:
    state = state_of(masked="Causal", query="2 · sat")
    matrices = compute_steps(SentenceExample(mask=Causal())).matrices
    sentences = {stage.name: stage.caption for stage in stages(state)}
    best = int(matrices["weights0"].values[2].argmax())
    assert f"Most comes from “{matrices['weights0'].columns[best]}”" in sentences["output"]
    assert "√4" in sentences["scaling"]
    assert float(matrices["weights0"].values[2].sum()) == pytest.approx(1)
    for stage in stages(state):
        name, row, _column = stage.cell
        assert row == (best if stage.name in ("keys", "values") else 2)
        assert matrices[name].stage == stage.name
        assert " = " in matrices[name].formula(row, 0)


def test_what_lights_up_is_what_a_number_was_computed_from() -> None:
    matrices = compute_steps(SentenceExample(heads=2, mask=Causal())).matrices
    for one in matrices_content(state_of(heads="2", masked="Causal"), "")["matrices"]:
        matrix = matrices[one["name"]]
        rows, columns = matrix.values.shape
        assert one["formulas"] == [[matrix.formula(i, j) for j in range(columns)] for i in range(rows)]
        for i in range(rows):
            for j in range(columns):
                sources = [
                    (cells.matrix, cells.rows.start, cells.rows.stop, cells.columns.start, cells.columns.stop)
                    for cells in matrix.operands(i, j)
                ]
                assert one["operands"][i][j] == sources


def test_the_weights_are_a_map_with_the_numbers_that_lessons_check() -> None:
    view = page_view(steps(state_of(masked="Causal", query="1 · cat")))
    [panel] = view.panels
    weights = compute_steps(SentenceExample(mask=Causal())).matrices["weights0"].values.numpy()
    np.testing.assert_allclose(np.nan_to_num(panel.weights), weights, atol=1e-6)
    assert np.isnan(panel.weights[0, 3])
    assert view.quantities["weight of the"] == pytest.approx(weights[1, 0])
    assert of(Drawing, state_of())[0].panels[0].query_tokens == ("the", "cat", "sat", "down")


def test_numbers_of_a_link_that_have_no_place_are_named_and_left_out() -> None:
    state = state_of(sentence="to be or not", edits="X.0.0_1.0~Y.0.0_1.0~K0.0.9_1.0")
    assert "2 numbers written by hand had a place that does not exist here" in text(of(Note, state)[0])
    assert state.fitting_edits == {"X": {(0, 0): 1.0}}
    assert state.steps.matrices["X"].values[0, 0] == 1
    assert state_of(edits="nonsense").refused


def test_a_stage_that_is_not_there_is_the_first() -> None:
    assert matrices_content(state_of(masked="Causal", stage="mask"), "")["stage"] == "mask"
    assert matrices_content(state_of(stage="mask"), "")["stage"] == "queries"


@pytest.mark.parametrize("width", [2, 64, 512])
def test_why_dot_products_are_divided_is_said_in_numbers(width: int) -> None:
    state = state_of(part="Why scale", d=str(width))
    assert len(of(Figure, state)) == 3
    measured, at = measure_scaling(), WIDTHS.index(width)
    [summary] = of(Summary, state)
    for values in (measured.variance, measured.greatest, measured.gradient):
        for value in values[:, at]:
            assert f"<b>{number(float(value))}</b>" in summary.content
    assert f"(in theory {width})" in summary.content
    assert page_view(steps(state)).quantities["variance"] == pytest.approx(float(measured.variance[0, at]))


def test_weights_are_known_after_they_were_predicted() -> None:
    [prediction] = of(Prediction, state_of(part="Predict"))
    before, after = ([*prediction.above(is_known)][1].rows for is_known in (False, True))
    assert before == [["score", "2.87", "2.37", "1.10", "−0.36"]]
    assert after[1] == ["weight", "0.55", "0.33", "0.093", "0.022"]
    np.testing.assert_allclose(prediction.weights, compute_steps(SentenceExample()).matrices["weights0"].values[1])


def test_a_head_of_the_translator_says_where_all_heads_of_its_layer_are() -> None:
    link = {"translator_use": USES["encoder"], "english": "I sleep .", "similarity": "Dot"}
    state = state_of(attention="Translator", **link)
    assert (
        state.steps.matrices.keys() == compute_steps(TranslatorExample("I sleep .", "dot", "encoder")).matrices.keys()
    )
    [note] = [block for block in of(Note, state) if "Several heads" in text(block)]
    [anchor] = [part for part in note.content if isinstance(part, Anchor)]
    assert anchor.page == "transformer"
    assert {("text", "I sleep ."), ("open", "encoder 0"), ("unfolded", "Several heads")} <= set(anchor.link)
