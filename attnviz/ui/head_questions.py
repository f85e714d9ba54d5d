"""Questions to a class about all heads of a text."""

from functools import partial

import numpy as np

from attnviz.analysis.head_metrics import First, HeadMetric, Previous, head_metrics
from attnviz.analysis.work import heads_work
from attnviz.classroom.question import Question, head_question
from attnviz.language import N_, _, value_error
from attnviz.state.selection import Selection
from attnviz.turns import is_heavy
from attnviz.ui import cache
from attnviz.ui.classroom import class_questions

QUESTIONS: dict[str, HeadMetric] = {
    N_("the previous-token head"): Previous(),
    N_("the one that gives most to the first token"): First(),
}


def offer_head_questions(selection: Selection) -> None:
    """Offers the questions which head has the largest value of a metric."""
    for name, metric in QUESTIONS.items():
        class_questions.offer_question(
            _("Which head is {name}?", name=_(name)), partial(_question, selection, _(name), metric)
        )


def _question(selection: Selection, name: str, metric: HeadMetric) -> Question:
    """Raises ValueError if the heads take long, as each run of a teacher asks, or no head has the metric."""
    layers = selection.layers
    work = heads_work(layers)
    if is_heavy(work):
        raise value_error("The metrics of all heads take too long.")
    metrics = cache.once(
        lambda: head_metrics(layers, metrics=[*QUESTIONS.values()]),
        *("head questions", selection.source, [layer.mechanism for layer in layers]),
        work=work,
    )
    values = np.full((len(layers), max(layer.inputs.heads for layer in layers)), np.nan)
    values[metrics.layers, metrics.heads] = metrics.values[metric.name]
    return head_question(name, values)
