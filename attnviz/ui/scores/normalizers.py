"""One row of scores under every normalizer."""

from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st
import torch

from attnviz.analysis.head_maps import RowSummary, row_summary
from attnviz.figures.bars import row_bars
from attnviz.formatting import number, visible
from attnviz.lessons.checks import rows_quantities
from attnviz.normalizers import NORMALIZERS
from attnviz.ui import quantities, widgets
from attnviz.ui.chart import chart
from attnviz.ui.head_map import selected_map
from attnviz.ui.markdown import plain
from attnviz.ui.selection import Selection
from attnviz.ui.widgets import title

MOST = 24  # keys that fit side by side in a small picture
CARD = 300


def show(selection: Selection, pinned: int | None) -> None:
    """Draws the pinned query's weights under each normalizer, as bars with their sum."""
    if pinned is None:
        st.info("Pin a query above to see its row of scores under every normalizer.")
        return
    with st.popover("Parameters", icon=":material/tune:"):
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
    st.markdown(f"What **{plain(visible(inputs.query_tokens[pinned]))}** gives to each key, normalizer by normalizer:")
    # The keys that any normalizer gives most, in their order.
    strongest = np.max([np.abs(np.nan_to_num(weights)) for weights in weights_by_name.values()], axis=0)
    keys = np.sort(np.argsort(-strongest, kind="stable")[:MOST])
    tokens = [inputs.key_tokens[i] for i in keys]
    lowest = min(0.0, *(float(np.nanmin(weights, initial=0)) for weights in weights_by_name.values()))
    highest = max(float(np.nanmax(weights, initial=0)) for weights in weights_by_name.values())
    with st.container(horizontal=True, key="normalizers"):
        for kind in NORMALIZERS:
            name = title(kind)
            with st.container(width=CARD, border=True):
                st.markdown(f"**{name}**", help=widgets.help_text(kind))
                if name in refused:
                    st.caption(plain(refused[name]))
                    continue
                sentence = summary_sentence(row_summary(torch.from_numpy(weights_by_name[name])))
                st.caption(plain(sentence))
                chart(
                    row_bars(weights_by_name[name][keys], tokens, lowest=lowest * 1.05, highest=highest * 1.05 or 1.0),
                    f"row-{name.lower().replace(' ', '-')}",
                    label=f"The row under {name}",
                    name=f"{name} of one row",
                    description=f"{name}: {sentence}",
                    height=190,
                    grows=False,
                )


def summary_sentence(row: RowSummary) -> str:
    """Returns a sentence about a row: its sum, its entropy, and whether weights are negative."""
    signed = f"{'−' * (row.total < 0)}{number(abs(row.total))}"
    total = "adds up to 1" if abs(row.total - 1) < 1e-5 else f"adds up to {signed}, not 1"
    spread = "" if row.entropy is None else f"; entropy {number(row.entropy)} bits"
    negative = "; some weights are negative" if row.negative else ""
    keys = f"{row.nonzero} of {row.allowed} key{'s' * (row.allowed != 1)}"
    verb = "gets" if 1 in (row.nonzero, row.allowed) else "get"
    return f"It {total}; {keys} {verb} weight{spread}{negative}."
