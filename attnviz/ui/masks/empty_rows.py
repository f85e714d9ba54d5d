"""Empty rows: the queries without an allowed key, and what each convention computes for them."""

from dataclasses import replace

import numpy as np
import streamlit as st
import torch

from attnviz.formatting import number, visible
from attnviz.language import _
from attnviz.masks import Full
from attnviz.masks.empty_rows import EMPTY_ROW_CONVENTIONS, masked_softmax
from attnviz.normalizers import Identity
from attnviz.ui.html import Markup, table
from attnviz.ui.markdown import plain
from attnviz.ui.masks.comparison import SIDES, Comparison
from attnviz.ui.menus import names_of

MOST_TOKENS = 12  # rows, and columns


def show(comparison: Comparison) -> None:
    """Draws the empty rows of both masks, and the weights of a convention for them."""
    conventions = {convention.name: convention for convention in EMPTY_ROW_CONVENTIONS}
    name = st.segmented_control(
        _("An empty row becomes"), list(conventions), default=EMPTY_ROW_CONVENTIONS[0].name, required=True,
        key="empty-row", bind="query-params", format_func=names_of("empty-row", conventions),
    )  # fmt: skip
    convention = conventions[name]
    st.caption(
        plain(
            _("Here {masking}. An empty row becomes {result}. So it is in {libraries}.").format(
                masking=_(convention.masking), result=_(convention.result), libraries=_(convention.libraries)
            )
        )
    )
    inputs = comparison.inputs
    heads = [comparison.head] if isinstance(comparison.head, int) else list(range(inputs.heads))
    for side, mechanism in zip(SIDES, comparison.mechanisms, strict=True):
        allowed = [mechanism.mask.matrix(inputs.queries, inputs.keys, head) for head in heads]
        empty = ~torch.stack(allowed).any(-1)
        if not bool(empty.any()):
            st.markdown(_("**{side}** has no empty row: every query may look at something.").format(side=side))
            continue
        first = int(empty.any(-1).nonzero()[0])
        rows = empty[first].nonzero().flatten().tolist()
        listed = rows[:MOST_TOKENS]
        tokens = ", ".join(visible(inputs.query_tokens[row]) for row in listed)
        head_note = _(" in head {head} (heads with empty rows: {sum} of {count})").format(
            head=heads[first], sum=int(empty.any(-1).sum()), count=len(heads)
        )
        st.markdown(
            _("**{side}**: {count} of {queries} queries may look at nothing{where}: {tokens}").format(
                side=side, count=len(rows), queries=inputs.queries, where=plain(head_note) if len(heads) > 1 else "",
                tokens=plain(tokens),
            )
            + (" …" if len(rows) > MOST_TOKENS else ".")
        )  # fmt: skip
        unmasked = replace(mechanism, mask=Full(), normalizer=Identity())
        [scores] = unmasked(inputs, heads=[heads[first]], rows=listed).scores
        weights = masked_softmax(scores, torch.zeros_like(scores, dtype=torch.bool), name).numpy()
        st.html(_weights_table([inputs.query_tokens[row] for row in listed], inputs.key_tokens, weights))


def _weights_table(queries: list[str], keys: tuple[str, ...], weights: np.ndarray) -> Markup:
    more = ["…"] * (len(keys) > MOST_TOKENS)
    rows = (
        [visible(query), *("NaN" if np.isnan(weight) else number(float(weight)) for weight in row[:MOST_TOKENS]), *more]
        for query, row in zip(queries, weights, strict=True)
    )
    return table(["", *map(visible, keys[:MOST_TOKENS]), *more], rows)
