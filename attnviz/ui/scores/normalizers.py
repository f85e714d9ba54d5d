"""One row of scores under every normalizer."""

from functools import partial

import numpy as np
import streamlit as st
import torch

from attnviz.analysis.head_maps import RowSummary, row_summary
from attnviz.figures import Chart
from attnviz.figures.bars import row_bars
from attnviz.figures.chart_spec import PlainSpec
from attnviz.formatting import number, visible
from attnviz.language import _, plural
from attnviz.lessons.checks import rows_quantities
from attnviz.normalizers import NORMALIZERS, Identity, Normalizer
from attnviz.state.parts import help_text, parameter, title
from attnviz.state.scores import ScoresState
from attnviz.state.selection import Selection
from attnviz.ui import presentation, quantities
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import configure_all
from attnviz.ui.magnification import magnification_sentence
from attnviz.ui.markdown import plain
from attnviz.views.scores import normalized_rows

MOST_NAMED_KEYS = 12  # keys whose names fit side by side in a small picture
CARD, HEIGHT = 300, 190
HEIGHT_PRESENTED = 160  # so that all cards stand on a screen of 1080 pixels


def show(selection: Selection, pinned: int | None) -> None:
    """Draws the pinned query's weights under each normalizer, as bars with their sum."""
    if pinned is None:
        st.info(_("Pin a query above to see its row of scores under every normalizer."))
        return
    with st.popover(_("Parameters"), icon=":material/tune:"):
        normalizers = configure_all(ScoresState.normalizers)
    weights_by_name, refused = normalized_rows(selection, pinned, normalizers)
    if not weights_by_name:
        st.error(plain(next(iter(refused.values()))))
        return
    inputs = selection.inputs
    under = {f" under {name}": weights for name, weights in weights_by_name.items()}
    quantities.publish(partial(rows_quantities, inputs.key_tokens, under))
    query = plain(visible(inputs.query_tokens[pinned]))
    with st.container(key="contents"):
        st.markdown(contents())
    with st.container(key="weights-of"):
        st.markdown(_("What **{query}** gives to the keys that get most, normalizer by normalizer:", query=query))
    _show_magnification(selection, pinned)
    # The keys that any normalizer gives most, in their order.
    strongest = np.max([np.abs(np.nan_to_num(weights)) for weights in weights_by_name.values()], axis=0)
    keys = np.sort(np.argsort(-strongest, kind="stable")[:MOST_NAMED_KEYS])
    tokens = [inputs.key_tokens[i] for i in keys]
    lowest = min(0.0, *(float(np.nanmin(weights, initial=0)) for weights in weights_by_name.values()))
    highest = max(float(np.nanmax(weights, initial=0)) for weights in weights_by_name.values())
    with st.container(horizontal=True, key="normalizers"):
        for family, kinds in families().items():
            with st.container(width="content", key=f"family-{parameter(family)}"):
                st.markdown(f"#### {_(family.capitalize())}")
                with st.container(horizontal=True):
                    for kind in kinds:
                        weights, bars = weights_by_name.get(title(kind)), None
                        if weights is not None:
                            bars = row_bars(weights[keys], tokens, lowest=lowest * 1.05, highest=highest * 1.05 or 1.0)
                        _show_card(kind, bars, weights, refused.get(title(kind), ""))


def families() -> dict[str, list[type[Normalizer]]]:
    """Returns the normalizers by their family, in the order of the menu."""
    names = dict.fromkeys(kind.family for kind in NORMALIZERS)
    return {family: [kind for kind in NORMALIZERS if kind.family == family] for family in names}


def contents() -> str:
    """Returns a list of the families, as links to their headings, and their normalizers, as Markdown."""
    groups = families().items()
    names = {
        f"[**{_(family.capitalize())}**](#{parameter(family)})": [_(title(kind)) for kind in kinds]
        for family, kinds in groups
    }
    return " · ".join(f"{family}: {', '.join(members)}" for family, members in names.items())


def _show_magnification(selection: Selection, pinned: int) -> None:
    """Draws a sentence about the two highest scores of the row and their weights."""
    if not isinstance(selection.head, int):
        return  # the mean of several rows of weights is not the softmax of a row of scores
    (scores,) = normalized_rows(selection, pinned, [Identity()])[0].values()
    tokens = [visible(token) for token in selection.inputs.key_tokens]
    scores = np.where(np.isnan(scores), -np.inf, scores)
    with st.container(key="magnification"):
        st.caption(plain(magnification_sentence(scores.tolist(), tokens)))


def _show_card(kind: type[Normalizer], bars: Chart[PlainSpec] | None, weights: np.ndarray | None, refusal: str) -> None:
    name = title(kind)
    with st.container(width=CARD, border=True, key=f"card-{parameter(name)}"):
        presented = presentation.presenting() and weights is not None
        if not presented:
            st.markdown(f"**{_(name)}**", help=help_text(kind))
        if bars is None or weights is None:
            st.caption(plain(refusal))
            return
        row = row_summary(torch.from_numpy(weights))
        sentence = summary_sentence(row)
        if presented:
            st.markdown(f"**{_(name)}** {plain(short_summary(row))}")
        else:
            st.caption(plain(sentence))
        bars = bars.with_about(label=_("The row under {name}", name=_(name)), description=f"{_(name)}: {sentence}")
        chart(bars, f"row-{parameter(name)}", height=HEIGHT_PRESENTED if presented else HEIGHT)


def summary_sentence(row: RowSummary) -> str:
    """Returns a sentence about a row: its sum, its entropy, and whether weights are negative."""
    total = _("It adds up to 1") if _is_share(row) else _("It adds up to {total}, not 1", total=number(row.total))
    spread = [] if row.entropy is None else [_("entropy {entropy} bits", entropy=number(row.entropy))]
    return f"{'; '.join([total, _keys(row), *spread, *_sign(row)])}."


def short_summary(row: RowSummary) -> str:
    """Returns what follows the name of a normalizer in presentations: the sum of a row and the keys with weight."""
    total = _("adds up to 1") if _is_share(row) else _("adds up to {total}", total=number(row.total))
    return f"{'; '.join([total, _keys(row), *_sign(row)])}."


def _is_share(row: RowSummary) -> bool:
    return abs(row.total - 1) < 1e-5


def _keys(row: RowSummary) -> str:
    if row.allowed == 1:
        return _("{nonzero} of 1 key gets weight", nonzero=row.nonzero)
    return plural(
        "{nonzero} of {allowed} keys gets weight",
        "{nonzero} of {allowed} keys get weight",
        row.nonzero,
        nonzero=row.nonzero,
        allowed=row.allowed,
    )


def _sign(row: RowSummary) -> list[str]:
    return [_("some weights are negative")] if row.negative else []
