"""Why dot products are divided by √d_k."""

from typing import Any

import numpy as np
import streamlit as st
from torch import Tensor

from attnviz.figures.scaling import scaling as figure
from attnviz.formatting import number
from attnviz.language import _
from attnviz.lessons.checks import Quantities
from attnviz.lessons.scaling import KEYS, QUERIES, WIDTHS, Scaling, measure_scaling
from attnviz.ui import cache, presentation, quantities
from attnviz.ui.chart import chart
from attnviz.ui.html import Markup, element

HEIGHT_PRESENTED = 360  # fills a screen of 1080 pixels


def show() -> None:
    """Draws three charts over the width of the vectors, and the numbers of one width."""
    scaling: Scaling = cache.once(measure_scaling, "scaling")
    place = st.container()
    with presentation.control("d"):
        width = st.select_slider(_("Width d of the vectors"), WIDTHS, 64, key="d", bind="query-params", width=420)
    place.html(element("p", scaling_sentence(scaling, width), class_="attnviz-why"))
    quantities.publish(lambda: scaling_quantities(scaling, width))
    widths = np.array(WIDTHS, dtype="f4")
    views: tuple[tuple[str, str, str, Tensor, dict[str, Any]], ...] = (
        ("spread", _("Dot products spread"), _("Their variance."),
         scaling.variance, {"theory": np.stack([widths, np.ones_like(widths)]), "logarithmic": True}),
        ("peak", _("The softmax peaks"), _("The greatest of {keys} weights, on average.").format(keys=KEYS),
         scaling.greatest, {"dashes": "even", "theory": np.full((1, len(widths)), 1 / KEYS, dtype="f4")}),
        ("gradient", _("The gradient vanishes"), _("The norm of ∂weights/∂scores, on average."),
         scaling.gradient, {}),
    )  # fmt: skip
    for column, (key, title, about, measured, more) in zip(st.columns(3, gap="medium"), views, strict=True):
        with column:
            st.markdown(f"**{title}**")
            st.caption(about)
            chart(
                figure(WIDTHS, measured.numpy(), width, **more),
                f"why-{key}",
                label=_("{title}: against the width d").format(title=title),
                name=key,
                description=_(
                    "{about} At d = {widths}, {widths_2}: plain {measured}, {measured_2}; divided by "
                    "√d {measured_3}, {measured_4}."
                ).format(
                    about=about,
                    widths=WIDTHS[0],
                    widths_2=WIDTHS[-1],
                    measured=number(float(measured[0, 0])),
                    measured_2=number(float(measured[0, -1])),
                    measured_3=number(float(measured[1, 0])),
                    measured_4=number(float(measured[1, -1])),
                ),
                height=HEIGHT_PRESENTED if presentation.presenting() else 270,
                grows=False,
            )
    st.caption(
        _(
            "{queries} random queries for each width, each with {keys} random keys of its own, of "
            "numbers with mean 0 and variance 1, drawn and computed here. Dashes: the theory; a "
            "variance of d, and of 1 after the division."
        ).format(queries=QUERIES, keys=KEYS)
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
            "At d = {} dot products have a variance of <b>{}</b> (in theory {}); divided by √{}, <b>{}</b> (1). "
            "The greatest of {} weights is <b>{}</b> on average instead of <b>{}</b>, "
            "and the gradient of the softmax <b>{}</b> instead of <b>{}</b>."
        )
    ).format(width, plain, width, width, scaled, KEYS, peak, calm, small, large)
