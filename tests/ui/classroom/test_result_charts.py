"""The charts of what a class has answered."""

import pytest

from attnviz.classroom.question import Answer, Question
from attnviz.classroom.results import measure_results
from attnviz.ui.classroom.result_charts import result_charts


@pytest.mark.parametrize(
    ("right", "number"), [(-3.1174, -3.12), (0.25, 0.25), (0.0, 0.0), (99_999.0, 100_000.0)], ids=str
)
def test_bins_of_numbers_that_are_alike_have_different_names(right: float, number: float) -> None:
    results = measure_results(Question("How much?", numeric=True, right=right), [[Answer(number=number)]])
    [(_, picture)] = result_charts(results, revealed=True)
    names = picture.figure.layout.xaxis.ticktext or picture.figure.data[0].x
    assert len({*names}) == 10
