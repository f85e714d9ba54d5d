"""Why dot products are divided by √d_k: a tab of Steps."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.figures.scaling import scaling as figure
from attnviz.lessons.checks import Quantities
from attnviz.page.blocks import Block, Caption, Columns, Control, Figure, Heading, Note, Summary
from attnviz.page.html import Markup
from attnviz.page.result_cache import result_cache
from attnviz.pages.steps.scaling import KEYS, QUERIES, WIDTHS, Scaling, measure_scaling
from attnviz.pages.steps.state import StepsState

HEIGHT = 270  # pixels


def scaling_blocks(state: StepsState) -> Iterator[Block]:
    """Yields three charts over the width of the vectors, and the numbers of one width."""
    scaling = result_cache().once(measure_scaling, "scaling")
    yield Control(StepsState.width, state, stays=True)
    yield Summary(scaling_sentence(scaling, state.width), partial(scaling_quantities, scaling, state.width))
    yield Columns([(1 / 3, blocks) for blocks in _charts(scaling, state.width)])
    yield Caption(
        _(
            "**What you are seeing.** {queries} random queries for each width, each with {keys} random keys of its "
            "own, of numbers with mean 0 and variance 1, drawn and computed here. Dashes: the theory; a "
            "variance of d, and of 1 after the division.",
            queries=QUERIES,
            keys=KEYS,
        )
    )


def _charts(scaling: Scaling, width: int) -> Iterator[list[Block]]:
    widths = np.array(WIDTHS, dtype="f4")
    charts: tuple[tuple[str, str, str, Tensor, dict[str, Any]], ...] = (
        ("spread", _("Dot products spread"), _("Their variance."),
         scaling.variance, {"theory": np.stack([widths, np.ones_like(widths)]), "logarithmic": True}),
        ("peak", _("The softmax peaks"), _("The greatest of {keys} weights, on average.", keys=KEYS),
         scaling.greatest, {"dashes": "even", "theory": np.full((1, len(widths)), 1 / KEYS, dtype="f4")}),
        ("gradient", _("The gradient shrinks"), _("The norm of ∂weights/∂scores, on average."),
         scaling.gradient, {}),
    )  # fmt: skip
    for name, title, about, measured, options in charts:
        picture = figure(WIDTHS, measured.numpy(), width, **options)
        picture = picture.with_about(label=title, description=f"{about} {picture.about.description}")
        yield [Heading(title), Note(about), Figure(picture, f"why-{name}", HEIGHT)]


def scaling_quantities(scaling: Scaling, width: int) -> Quantities:
    """Returns the measurements of one width, plain and divided by √d."""
    i = scaling.widths.index(width)
    measured = {"variance": scaling.variance, "largest weight": scaling.greatest, "gradient": scaling.gradient}
    return {
        f"{name}{suffix}": float(values[j, i])
        for name, values in measured.items()
        for j, suffix in enumerate(("", " after division"))
    }


def scaling_sentence(scaling: Scaling, width: int) -> Markup:
    """Returns a sentence about the effect of scaling at one width."""
    i = scaling.widths.index(width)
    (plain, scaled), (peak, calm), (small, large) = (
        (number(float(one[0, i])), number(float(one[1, i])))
        for one in (scaling.variance, scaling.greatest, scaling.gradient)
    )
    names = {"variance": plain, "scaled_variance": scaled, "weight": peak, "scaled_weight": calm}
    return Markup(
        _(
            "At d = {width} dot products have a variance of <b>{variance}</b> (in theory {width}); divided by "
            "√{width}, <b>{scaled_variance}</b> (1). The greatest of {keys} weights is <b>{weight}</b> on average "
            "instead of <b>{scaled_weight}</b>, and the gradient of the softmax <b>{gradient}</b> instead of "
            "<b>{scaled_gradient}</b>."
        )
    ).format(width=width, keys=KEYS, gradient=small, scaled_gradient=large, **names)
