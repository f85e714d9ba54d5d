"""The charts of a poll: what the room has answered, and beside it the truth once it is revealed."""

from base64 import b64encode
from itertools import pairwise

import numpy as np

from attnviz.base.formatting import significant
from attnviz.base.language import N_, _
from attnviz.chart import header, pack
from attnviz.classroom.results import Results
from attnviz.figures import Chart
from attnviz.figures.bars import share_bars
from attnviz.figures.chart_spec import ChartSpec
from attnviz.figures.heatmap import heatmap
from attnviz.figures.sentences import CellSentences
from attnviz.ui.server import scripts

VOTE, FIRST, SECOND, TRUTH = N_("the room"), N_("first vote"), N_("second vote"), N_("the truth")
HEIGHT = 300  # pixels
CELL = CellSentences("{query}, {key}: {weight}.", "", "")


def result_charts(results: Results, *, revealed: bool) -> list[tuple[str, Chart[ChartSpec]]]:
    """Returns the charts of the results of a question, each with its title: bars of a list or of numbers, and of a grid
    a heatmap for each vote and for the truth."""
    question, votes = results.question, results.rounds
    names = (_(VOTE),) if len(votes) == 1 else (_(FIRST), _(SECOND))
    if question.numeric:
        return [
            (name, share_bars({name: vote.bin_counts / vote.answers}, _bins(vote.bin_edges)))
            for name, vote in zip(names, votes, strict=True)
            if vote.bin_counts is not None and vote.bin_edges is not None
        ]
    shares = {name: vote.distribution for name, vote in zip(names, votes, strict=True)}
    if revealed and question.truth:
        shares[_(TRUTH)] = np.array(question.truth).reshape(len(question.rows), len(question.columns))
    if len(question.rows) == 1:
        return [("", share_bars({name: one.ravel() for name, one in shares.items()}, question.columns, _(TRUTH)))]
    return [(name, _grid(results, one)) for name, one in shares.items()]


def _grid(results: Results, shares: np.ndarray) -> Chart[ChartSpec]:
    largest = max(float(shares.max()), 1e-9)  # of no answers at all
    question = results.question
    picture = heatmap(shares, question.rows, question.columns, largest=largest, fan=False, sentences=CELL)
    picture.figure.update_layout(yaxis_title_text="", xaxis_title_text="")
    return picture.with_about(
        label=_("Answers of the room"), description=_("The share of the answers that each option has."), hint=""
    )


def _bins(edges: np.ndarray) -> list[str]:
    return [_("{low} to {high}", low=significant(low, 3), high=significant(high, 3)) for low, high in pairwise(edges)]


def packed_chart(picture: Chart[ChartSpec], number: int) -> str:
    """Returns what the browser draws a chart from, as base64."""
    sent = header(picture, f"result-{number}", height=HEIGHT, grows=False)
    return b64encode(pack(sent | {"plotly": scripts.plotly_address()})).decode()
