"""Questions to a class about all heads of a text."""

from functools import partial

import numpy as np

from attnviz.analysis.head_metrics import First, HeadMetric, Previous, head_metrics
from attnviz.analysis.work import heads_work, is_affordable
from attnviz.classroom import Question, head_question
from attnviz.ui import cache
from attnviz.ui.classroom import questions
from attnviz.ui.selection import Selection

QUESTIONS: dict[str, HeadMetric] = {
    "Which head is the previous-token head?": Previous(),
    "Which head gives most to the first token?": First(),
}


def offer_head_questions(selection: Selection) -> None:
    """Offers the questions which head has the largest value of a metric."""
    for ask, metric in QUESTIONS.items():
        questions.offer_question(ask, partial(_question, selection, ask, metric))


def _question(selection: Selection, ask: str, metric: HeadMetric) -> Question:
    """Raises ValueError if the heads are too many for a phone, or take too long."""
    layers, mechanisms = selection.layers, selection.mechanisms
    work = heads_work(layers, mechanisms)
    if not is_affordable(work):
        raise ValueError("The metrics of all heads take too long.")
    metrics = cache.once(
        lambda: head_metrics(layers, mechanisms=mechanisms, metrics=[metric]),
        *("head question", selection.source, mechanisms, metric.name),
        work=work,
    )
    values = np.full((len(layers), max(layer.inputs.heads for layer in layers)), np.nan)
    values[metrics.layers, metrics.heads] = metrics.values[metric.name]
    if np.isnan(values).all():
        raise ValueError("No head has this metric.")
    return head_question(ask, [layer.name for layer in layers], values, hides=False)
