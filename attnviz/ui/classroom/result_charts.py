"""The charts of a poll: what the room has answered, and beside it the truth once it is revealed."""

import numpy as np

from attnviz.chart import header, pack
from attnviz.classroom import Poll, Question, Results
from attnviz.figures import Chart
from attnviz.figures.bars import share_bars
from attnviz.figures.chart_spec import ChartSpec
from attnviz.figures.heatmap import heatmap
from attnviz.figures.sentences import CellSentences
from attnviz.ui import scripts

VOTE, FIRST, SECOND, TRUTH = "the room", "first vote", "second vote", "the truth"
HEIGHT = 300  # pixels
CELL = CellSentences("{query}, {key}: {weight} of the room's answers.", "", "")
TRUE_CELL = CellSentences("{query}, {key}: {weight}.", "", "")


def result_charts(poll: Poll, results: Results) -> list[tuple[str, Chart[ChartSpec]]]:
    """Returns the charts of the result of a poll that is closed or revealed, each with its title."""
    question = poll.question
    options, votes = results.series()
    names = (VOTE,) if len(votes) == 1 else (FIRST, SECOND)
    shares = dict(zip(names, votes, strict=True))
    if poll.phase == "revealed" and question.truth:
        shares[TRUTH] = np.array(question.truth)
    if len(question.rows) == 1:
        return [("", share_bars(shares, options))]
    return [(name, _grid(question, one, TRUE_CELL if name == TRUTH else CELL)) for name, one in shares.items()]


def _grid(question: Question, shares: np.ndarray, sentences: CellSentences) -> Chart[ChartSpec]:
    size = len(question.rows), len(question.columns)
    largest = max(float(shares.max()), 1e-9)  # of no answers at all
    picture = heatmap(
        shares.reshape(size), question.rows, question.columns, largest=largest, fan=False, sentences=sentences
    )
    rows, columns = question.axes
    picture.figure.update_layout(yaxis_title_text=rows, xaxis_title_text=columns)
    return picture


def packed(picture: Chart[ChartSpec], number: int) -> bytes:
    """Returns what the browser draws a chart from."""
    sent = header(
        picture, f"result-{number}", label="Answers of the room", name="answers of the room", grows=False,
        description="The share of the answers that each option has.", height=HEIGHT,
    )  # fmt: skip
    return pack(sent | {"plotly": scripts.plotly_address()})
