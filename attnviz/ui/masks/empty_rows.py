"""Empty rows: the queries that may look at nothing, and what each convention makes of them."""

from dataclasses import replace
from html import escape

import numpy as np
import streamlit as st
import torch

from attnviz.formatting import number, visible
from attnviz.masks import Full
from attnviz.masks.empty_rows import CONVENTIONS, filled
from attnviz.normalizers import Identity
from attnviz.ui.markdown import plain
from attnviz.ui.masks.charts import Comparison
from attnviz.ui.masks.mask_editor import SIDES

FEW = 12


def show(comparison: Comparison) -> None:
    """Names the empty rows of both masks, and what a convention makes of them."""
    names = {one.name: one for one in CONVENTIONS}
    chosen = st.segmented_control(
        "An empty row becomes", list(names), default=CONVENTIONS[0].name, required=True, key="empty-row",
        bind="query-params",
    )  # fmt: skip
    way = names[chosen]
    st.caption(plain(f"Here {way.does}. An empty row becomes {way.becomes}. So it is in {way.who}."))
    inputs = comparison.inputs
    heads = [comparison.head] if isinstance(comparison.head, int) else list(range(inputs.heads))
    for side, mechanism in zip(SIDES, comparison.mechanisms, strict=True):
        allowed = [mechanism.mask.matrix(inputs.queries, inputs.keys, head) for head in heads]
        empty = ~torch.stack(allowed).any(-1)
        if not bool(empty.any()):
            st.markdown(f"**{side}** has no empty row: every query may look at something.")
            continue
        first = int(empty.any(-1).nonzero()[0])
        rows = empty[first].nonzero().flatten().tolist()
        who = ", ".join(visible(inputs.query_tokens[row]) for row in rows[:FEW]) + (" …" if len(rows) > FEW else ".")
        where = f" in head {heads[first]} (heads with empty rows: {int(empty.any(-1).sum())} of {len(heads)})"
        st.markdown(
            f"**{side}**: {len(rows)} of {inputs.queries} queries may look at nothing"
            f"{plain(where) if len(heads) > 1 else ''}: {plain(who)}"
        )
        unmasked = replace(mechanism, mask=Full(), normalizer=Identity())
        [scores] = unmasked(inputs, heads=[heads[first]], rows=rows[:FEW]).scores
        made = filled(scores, torch.zeros_like(scores, dtype=torch.bool), chosen).numpy()
        st.html(_table([inputs.query_tokens[row] for row in rows[:FEW]], inputs.key_tokens, made))


def _table(queries: list[str], keys: tuple[str, ...], weights: np.ndarray) -> str:
    more = "<td>…</td>" if len(keys) > FEW else ""
    head = "".join(f"<th>{escape(visible(key))}</th>" for key in keys[:FEW]) + more
    body = "".join(
        f"<tr><th>{escape(visible(query))}</th>"
        + "".join(f"<td>{'NaN' if np.isnan(weight) else number(float(weight))}</td>" for weight in row[:FEW])
        + more
        + "</tr>"
        for query, row in zip(queries, weights, strict=True)
    )
    return f"<table class='attnviz-table'><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
