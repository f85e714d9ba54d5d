"""The same tokens under several similarities, side by side."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import streamlit as st
import torch

from attnviz.analysis.difference import ADDED, REMOVED, difference, outcomes
from attnviz.figures.difference import difference_heatmap
from attnviz.figures.sentences import ChangeSentences
from attnviz.language import N_, _
from attnviz.lessons.checks import rows_quantities
from attnviz.scores import SCORES, Additive, Cosine, General, ScaledDot, Score
from attnviz.ui import cache, mechanism_controls, pinned_query, quantities, widgets
from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.head_map import HeadMap, selected_map, zoom_key
from attnviz.ui.menus import names_of
from attnviz.ui.selection import Selection
from attnviz.ui.widgets import title

START = (ScaledDot(), Cosine(), Additive())
LINK = "scores"
HEIGHT = 330
ACROSS = 3  # maps in a row
RANDOM = N_("Its weights are random: its numbers mean nothing.")


def show(selection: Selection, pinned: int | None) -> None:
    """Draws a map for each chosen similarity with one color range, and beside the first two their difference."""
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    with controls:
        with st.popover(_("Choose similarities"), icon=":material/tune:", width=220):
            scores: list[Score] = widgets.choose_several(_("Similarities"), SCORES, START)
        shared = mechanism_controls.choose_normalizer(selection.mechanism)
    notes = st.container()

    def compute() -> dict[str, HeadMap]:
        mechanisms = {title(type(score)): replace(shared, score=score) for score in scores}
        return {name: selected_map(selection.with_mechanism(one)) for name, one in mechanisms.items()}

    subject = selection.source, selection.index, selection.head
    maps = cache.or_last_good("similarities", subject, compute, lambda: None, notes)
    if not maps:
        if not scores:
            notes.info(_("Choose at least one similarity."))
        return
    end = largest_weight([one.weights for one in maps.values()])
    if pinned is not None:
        under = {f" under {name}": one.weights[pinned] for name, one in maps.items()}
        quantities.publish(partial(rows_quantities, selection.layer.inputs.key_tokens, under))

    def toggle(row: int, column: int) -> None:
        pinned_query.toggle(selection.query_names, row)

    names = list(maps)
    compared: tuple[str, str] | tuple[()] = ()
    if len(maps) > 1:
        with controls:
            first = st.selectbox(
                _("Difference: from"), names, 0, key="from", bind="query-params", format_func=names_of("from", names)
            )
            second = st.selectbox(_("to"), names, 1, key="to", bind="query-params", format_func=names_of("to", names))
        compared = first, second
    columns = st.columns(ACROSS, gap="medium")
    if compared:
        with columns[2]:
            _show_difference(maps, *compared, pinned, toggle)
    random = {title(type(score)) for score in scores if isinstance(score, Additive | General)}
    places = [*columns[:2], *columns] if compared else columns  # the difference has the third one of the first row
    for i, name in enumerate(dict.fromkeys([*compared, *names])):
        head_map = maps[name]
        with places[i % len(places)]:
            st.markdown(f"**{_(name)}**" + _(" · random weights") * (name in random))
            chart(
                head_map.chart(largest=end, link=LINK),
                chart_key(name),
                label=_("Attention weights with {name}").format(name=_(name)),
                name=_("attention {name}").format(name=_(name)),
                description=_("Weights of {size}, similarity: {name}.").format(size=head_map.size, name=_(name)),
                height=HEIGHT,
                pinned=pinned,
                hint=_("Point at a cell: it is marked in all maps."),
                on_click=toggle,
            )
            if name in random:
                st.caption(_(RANDOM))


def change_sentences(before: str, after: str) -> ChangeSentences:
    """Returns the sentences of a cell under two similarities.

    >>> change_sentences("Dot", "Cosine").reweighted
    '{query} gives {key} {after} (Cosine) instead of {before} (Dot).'
    """
    return ChangeSentences(
        kept=_("{query} gives {key} {after} with both."),
        reweighted=_("{{query}} gives {{key}} {{after}} ({after}) instead of {{before}} ({before}).").format(
            after=after, before=before
        ),
        removed=_("{{query}} gives {{key}} nothing with {after}, and {{before}} with {before}.").format(
            after=after, before=before
        ),
        added=_("{{query}} gives {{key}} {{after}} with {after}, and nothing with {before}.").format(
            after=after, before=before
        ),
    )


def _show_difference(
    maps: dict[str, HeadMap], first: str, second: str, pinned: int | None, toggle: Callable[[int, int], None]
) -> None:
    st.markdown(f"**{_(second)} − {_(first)}**")
    before, after = (torch.from_numpy(maps[name].weights) for name in (first, second))
    cell_kinds = outcomes(before, after).numpy()
    chart(
        difference_heatmap(
            difference(before, after).numpy(), cell_kinds == REMOVED, cell_kinds == ADDED, *maps[first].labels,
            charts=(chart_key(first), chart_key(second)), sentences=change_sentences(_(first), _(second)),
            zoom_key=zoom_key(maps[first].inputs), link=LINK,
        ),
        "score-change",
        label=_("{second} minus {first}").format(second=_(second), first=_(first)),
        name=_("{second} minus {first}").format(second=_(second), first=_(first)),
        description=_("{second} minus {first}, cell by cell.").format(second=_(second), first=_(first)),
        height=HEIGHT,
        pinned=pinned,
        hint=_("More attention with {second} is blue, less is brown.").format(second=_(second)),
        on_click=toggle,
    )  # fmt: skip


def chart_key(similarity: str) -> str:
    """Returns the key of the chart of a similarity."""
    return f"score-{similarity.lower().replace(' ', '-')}"
