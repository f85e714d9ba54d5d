"""Where the mass went: what B took from the pinned query's keys, and what the others got of it."""

from html import escape

import streamlit as st

from attnviz.analysis.difference import Moved, moved
from attnviz.analysis.head_maps import Aggregate
from attnviz.figures.bars import bars
from attnviz.formatting import number, significant, visible
from attnviz.ui.chart import chart
from attnviz.ui.masks.charts import Comparison

FEW = 5
LEAST = 1e-4  # of mass that is worth a word


def show(comparison: Comparison, row: int | None) -> None:
    """Sentences about the pinned query, and its weights under A and under B."""
    if row is None:
        st.info("Pin a query above, or click its row in a map.")
        return
    before, after = (one.weights[row] for one in comparison.maps)
    query, keys = comparison.inputs.query_tokens[row], comparison.inputs.key_tokens
    if comparison.head == Aggregate.MAXIMUM:
        st.info("The greatest weights of several heads do not add up to 1. Choose one head to follow its mass.")
    else:
        sentences = said(moved(before, after), query, keys, mean=comparison.head == Aggregate.MEAN)
        st.html("".join(f"<p>{sentence}</p>" for sentence in sentences))
    chart(
        bars(before, after, keys),
        "went",
        label="The pinned query's weights under A and B",
        name="where the mass went",
        description="Two bars for each key: its weight under A, and under B.",
        height=300,
        grows=False,
    )


def said(went: Moved, query: str, keys: tuple[str, ...], mean: bool = False) -> list[str]:
    """What happened to one query's attention, in sentences of HTML; `mean` is that of several heads."""
    who = f"<b>{escape(visible(query))}</b>"
    sees = [side for side, keys_seen in (("A", went.keys_before), ("B", went.keys_after)) if keys_seen]
    if len(sees) < 2:
        where = f"under {'B' if 'A' in sees else 'A'}" if sees else "under A and B alike"
        return [f"{who} may look at nothing {where}, so there is no attention to follow."]
    sentences = []
    if went.removed:
        sentences.append(
            f"Under B {who} no longer sees {_count(went.removed)}, to which A gave <b>{number(went.removed_mass)}</b> "
            f"of its attention: {_listed(went.removed, keys)}."
        )
    if went.added:
        sentences.append(
            f"Under B {who} sees {_count(went.added)} more, which get <b>{number(went.added_mass)}</b>: "
            f"{_listed(went.added, keys)}."
        )
    if went.gained:
        sentences.append(f"<b>{number(went.gained_mass)}</b> went to {_listed(went.gained, keys)}.")
    if went.lost:
        sentences.append(f"<b>{number(went.lost_mass)}</b> came from {_listed(went.lost, keys)}.")
    if went.before - went.after > LEAST:
        why = " in heads where it may look at nothing" if mean else ""
        sentences.append(f"<b>{number(went.before - went.after)}</b> went nowhere{why}: the row adds up to less.")
    if went.removed and mean:
        sentences.append("These are means of several heads; each of them shares out what is taken by itself.")
    elif went.factor is not None and went.removed:
        how = f"1 / {significant(went.before / went.factor, 3)} = {significant(went.factor, 3)} times"
        if went.proportional:
            sentences.append(
                f"Every key that stayed has {how} what it had, one divided by what was left: softmax shares out what "
                f"is taken in proportion (checked on these numbers: the largest deviation is {went.deviation:.0e})."
            )
        else:
            sentences.append(
                f"A softmax over the same scores would give every key that stayed {how} what it had. Here it is "
                f"another normalizer, or other scores: weights differ from that by up to {number(went.deviation or 0)}."
            )
    return sentences or [f"Nothing changes for {who}: every weight is the same under A and B."]


def _count(moves: tuple[tuple[int, float], ...]) -> str:
    return "1 key" if len(moves) == 1 else f"{len(moves)} keys"


def _listed(moves: tuple[tuple[int, float], ...], keys: tuple[str, ...]) -> str:
    few = ", ".join(f"<bdi><b>{escape(visible(keys[key]))}</b></bdi> ({number(mass)})" for key, mass in moves[:FEW])
    return few + (f" and {len(moves) - FEW} more" if len(moves) > FEW else "")
