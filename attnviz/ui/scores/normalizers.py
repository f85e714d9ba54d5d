"""One row of scores under every normalizer."""

from dataclasses import replace
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
from attnviz.ui import presentation, quantities, widgets
from attnviz.ui.chart import chart
from attnviz.ui.head_map import selected_map
from attnviz.ui.magnification import magnification_sentence
from attnviz.ui.markdown import plain
from attnviz.ui.selection import Selection
from attnviz.ui.widgets import by_title, parameter, title

MOST = 12  # keys whose names fit side by side in a small picture
CARD, HEIGHT = 300, 190
HEIGHT_PRESENTED = 160  # so that all cards stand on a screen of 1080 pixels


def show(selection: Selection, pinned: int | None) -> None:
    """Draws the pinned query's weights under each normalizer, as bars with their sum."""
    if pinned is None:
        st.info(_("Pin a query above to see its row of scores under every normalizer."))
        return
    with st.popover(_("Parameters"), icon=":material/tune:"):
        normalizers = widgets.configure_all(NORMALIZERS)

    weights_by_name: dict[str, np.ndarray] = {}
    refused: dict[str, str] = {}
    for one in normalizers:
        mechanism = replace(selection.mechanism, normalizer=one)
        try:
            weights_by_name[title(type(one))] = selected_map(selection.with_mechanism(mechanism)).weights[pinned]
        except ValueError as problem:
            refused[title(type(one))] = str(problem)
    if not weights_by_name:
        st.error(plain(next(iter(refused.values()))))
        return
    inputs = selection.layer.inputs
    under = {f" under {name}": weights for name, weights in weights_by_name.items()}
    quantities.publish(partial(rows_quantities, inputs.key_tokens, under))
    query = plain(visible(inputs.query_tokens[pinned]))
    with st.container(key="contents"):
        st.markdown(contents())
    with st.container(key="weights-of"):
        st.markdown(
            _("What **{query}** gives to the keys that get most, normalizer by normalizer:").format(query=query)
        )
    _show_magnification(selection, pinned)
    # The keys that any normalizer gives most, in their order.
    strongest = np.max([np.abs(np.nan_to_num(weights)) for weights in weights_by_name.values()], axis=0)
    keys = np.sort(np.argsort(-strongest, kind="stable")[:MOST])
    tokens = [inputs.key_tokens[i] for i in keys]
    lowest = min(0.0, *(float(np.nanmin(weights, initial=0)) for weights in weights_by_name.values()))
    highest = max(float(np.nanmax(weights, initial=0)) for weights in weights_by_name.values())
    with st.container(horizontal=True, key="normalizers"):
        for family, kinds in families().items():
            with st.container(width="content", key=f"family-{parameter(family)}"):
                st.markdown(f"#### {_(family.capitalize())}")
                with st.container(horizontal=True):
                    for name in map(title, kinds):
                        bars = None
                        if name in weights_by_name:
                            heights = weights_by_name[name][keys]
                            bars = row_bars(heights, tokens, lowest=lowest * 1.05, highest=highest * 1.05 or 1.0)
                        _show_card(by_title(kinds)[name], bars, weights_by_name.get(name), refused.get(name, ""))


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
    mechanism = replace(selection.mechanism, normalizer=Identity())
    scores = selected_map(selection.with_mechanism(mechanism)).weights[pinned]
    tokens = [visible(token) for token in selection.layer.inputs.key_tokens]
    scores = np.where(np.isnan(scores), -np.inf, scores)
    with st.container(key="magnification"):
        st.caption(plain(magnification_sentence(scores.tolist(), tokens)))


def _show_card(kind: type[Normalizer], bars: Chart[PlainSpec] | None, weights: np.ndarray | None, refusal: str) -> None:
    name = title(kind)
    with st.container(width=CARD, border=True, key=f"card-{parameter(name)}"):
        presented = presentation.presenting() and weights is not None
        if not presented:
            st.markdown(f"**{_(name)}**", help=widgets.help_text(kind))
        if bars is None or weights is None:
            st.caption(plain(refusal))
            return
        row = row_summary(torch.from_numpy(weights))
        sentence = summary_sentence(row)
        if presented:
            st.markdown(f"**{_(name)}** {plain(short_summary(row))}")
        else:
            st.caption(plain(sentence))
        chart(
            bars,
            f"row-{parameter(name)}",
            label=_("The row under {name}").format(name=_(name)),
            name=_("{name} of one row").format(name=_(name)),
            description=f"{_(name)}: {sentence}",
            height=HEIGHT_PRESENTED if presented else HEIGHT,
            grows=False,
        )


def summary_sentence(row: RowSummary) -> str:
    """Returns a sentence about a row: its sum, its entropy, and whether weights are negative."""
    total = _total(row) + ("" if _is_share(row) else _(", not 1"))
    spread = "" if row.entropy is None else _("; entropy {entropy} bits").format(entropy=number(row.entropy))
    return _("It {total}; {keys}{spread}{sign}.").format(total=total, keys=_keys(row), spread=spread, sign=_sign(row))


def short_summary(row: RowSummary) -> str:
    """Returns what follows the name of a normalizer in presentations: the sum of a row and the keys with weight."""
    return f"{_total(row)}; {_keys(row)}{_sign(row)}."


def _is_share(row: RowSummary) -> bool:
    return abs(row.total - 1) < 1e-5


def _total(row: RowSummary) -> str:
    return _("adds up to 1") if _is_share(row) else _("adds up to {total}").format(total=number(row.total))


def _keys(row: RowSummary) -> str:
    if row.allowed == 1:
        return _("{nonzero} of 1 key gets weight").format(nonzero=row.nonzero)
    return plural(
        "{nonzero} of {allowed} keys gets weight", "{nonzero} of {allowed} keys get weight", row.nonzero
    ).format(nonzero=row.nonzero, allowed=row.allowed)


def _sign(row: RowSummary) -> str:
    return _("; some weights are negative") if row.negative else ""
