"""How attention forms: the translator at the checkpoints of its recorded training."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.base.formatting import grouped, percent
from attnviz.base.language import _
from attnviz.figures import curves
from attnviz.page import html
from attnviz.page.blocks import Block, Caption, Columns, Control, Figure, Row, Summary
from attnviz.pages.transformer.attention_uses import uses_blocks
from attnviz.pages.transformer.state import TransformerState
from attnviz.pages.transformer.translated_text import translated_text
from attnviz.translator.training_history import training_history
from attnviz.translator.weights import TEST_SENTENCES

CURVE = 170  # pixels


def training(state: TransformerState) -> Iterator[Block]:
    """Yields the translation at a step of the training, its maps, and the curves of the whole training. Raises
    ValueError if the translator does not know a word."""
    translation = state.checkpoint.translator().translate(state.text)
    yield Row([Control(TransformerState.training_step, state, stays=True)], "training-steps")
    is_right = translation.reference is not None and translation.french == translation.reference.french
    verdict = [html.element("small", " ", _("Correct translation."))] * is_right
    written = _("After {step} steps it writes", step=grouped(state.training_step))
    yield Summary((html.element("small", written), " ", translated_text(translation), *verdict))
    yield from uses_blocks(state, dict.fromkeys(state.uses))
    yield Columns([(1 / 3, [curve]) for curve in _curves(state)])
    yield Caption(
        _(
            "**What you are seeing.** *Exact sentences*: the share of {count} test sentences with every word right. "
            "*Agreement*: the share of their French words for which the largest weight of the selected head of "
            "encoder–decoder attention lies on an English word that the French word translates; gray lines are the "
            "other heads. Words that are not in the right translation are struck out. The maps are made with teacher "
            "forcing: the decoder is given the right French words, so the rows are the same whatever it predicts.",
            count=TEST_SENTENCES,
        )
    )


def _curves(state: TransformerState) -> Iterator[Figure]:
    """Yields loss, exact sentences and agreement over the training, with a mark at the step."""
    history, now = training_history(), state.checkpoint.evaluation
    steps, last = [one.step for one in history.checkpoints], history.steps
    agreement = np.array([one.evaluation.agreement for one in history.checkpoints], dtype="f4")
    layer, head = state.heads["cross"]
    line, agrees = layer * agreement.shape[2] + head, now.agreement[layer][head]
    losses = np.array([history.losses], dtype="f4")
    exact = np.array([[one.evaluation.exact for one in history.checkpoints]], dtype="f4")
    logged = range(0, history.every * len(history.losses), history.every)
    shares, of_heads = partial(curves, steps, last=last, share=True), agreement.reshape(len(steps), -1).T
    charts = {
        "loss": (_("Loss"), f"{now.loss:.2f}", curves(logged, losses, last=last, marked=(now.step, now.loss))),
        "exact": (_("Exact sentences"), percent(now.exact, 2), shares(exact, marked=(now.step, now.exact))),
        "agreement": (_("Agreement"), percent(agrees, 2), shares(of_heads, line=line, marked=(now.step, agrees))),
    }
    for name, (label, value, picture) in charts.items():
        title = f"{label}: {value}"
        picture.figure.update_layout(title_text=title)
        description = _("After step {step}. {title}.", step=grouped(now.step), title=title)
        yield Figure(picture.with_about(label=label, description=description), f"curve-{name}", CURVE)
