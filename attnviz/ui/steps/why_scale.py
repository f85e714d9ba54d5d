"""Why dot products are divided by √d_k."""

from typing import Any

import numpy as np
import streamlit as st
from torch import Tensor

from attnviz.figures.scaling import scaling as figure
from attnviz.formatting import number
from attnviz.language import _
from attnviz.lessons.checks import Quantities
from attnviz.page.html import Markup, element
from attnviz.state.steps import StepsState
from attnviz.steps.scaling import KEYS, QUERIES, WIDTHS, Scaling, measure_scaling
from attnviz.ui import cache, presentation, quantities
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw

HEIGHT_PRESENTED = 360  # fills a screen of 1080 pixels


def show() -> None:
    """Draws three charts over the width of the vectors, and the numbers of one width."""
    scaling: Scaling = cache.once(measure_scaling, "scaling")
    place = st.container()
    with presentation.control("d"):
        width = draw(StepsState.width, widget=st.select_slider, width=420)
    place.html(element("p", scaling_sentence(scaling, width), class_="attnviz-why"))
    quantities.publish(lambda: scaling_quantities(scaling, width))
    widths = np.array(WIDTHS, dtype="f4")
    views: tuple[tuple[str, str, str, Tensor, dict[str, Any]], ...] = (
        ("spread", _("Dot products spread"), _("Their variance."),
         scaling.variance, {"theory": np.stack([widths, np.ones_like(widths)]), "logarithmic": True}),
        ("peak", _("The softmax peaks"), _("The greatest of {keys} weights, on average.", keys=KEYS),
         scaling.greatest, {"dashes": "even", "theory": np.full((1, len(widths)), 1 / KEYS, dtype="f4")}),
        ("gradient", _("The gradient shrinks"), _("The norm of ∂weights/∂scores, on average."),
         scaling.gradient, {}),
    )  # fmt: skip
    for column, (key, title, about, measured, more) in zip(st.columns(3, gap="medium"), views, strict=True):
        with column:
            st.markdown(f"**{title}**")
            st.caption(about)
            picture = figure(WIDTHS, measured.numpy(), width, **more)
            picture = picture.with_about(label=title, description=f"{about} {picture.about.description}")
            chart(picture, f"why-{key}", height=HEIGHT_PRESENTED if presentation.presenting() else 270)
    st.caption(
        _(
            "{queries} random queries for each width, each with {keys} random keys of its own, of "
            "numbers with mean 0 and variance 1, drawn and computed here. Dashes: the theory; a "
            "variance of d, and of 1 after the division.",
            queries=QUERIES,
            keys=KEYS,
        )
    )


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
    return Markup(
        _(
            "At d = {width} dot products have a variance of <b>{variance}</b> (in theory {width}); divided by "
            "√{width}, <b>{scaled_variance}</b> (1). The greatest of {keys} weights is <b>{weight}</b> on average "
            "instead of <b>{scaled_weight}</b>, and the gradient of the softmax <b>{gradient}</b> instead of "
            "<b>{scaled_gradient}</b>."
        )
    ).format(
        width=width, keys=KEYS, variance=plain, scaled_variance=scaled, weight=peak, scaled_weight=calm, gradient=small,
        scaled_gradient=large,
    )  # fmt: skip
