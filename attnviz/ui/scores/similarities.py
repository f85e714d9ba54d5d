"""The same tokens under several similarities, side by side."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from attnviz.figures.sentences import ChangeSentences
from attnviz.language import N_, _
from attnviz.lessons.checks import rows_quantities
from attnviz.scores import Additive, General
from attnviz.state.color_range import largest_weight
from attnviz.state.parts import title
from attnviz.state.scores import ScoresState
from attnviz.state.selection import Selection
from attnviz.ui import cache, mechanism_controls, pinned_query, quantities
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.views.head_difference import head_difference
from attnviz.views.scores import similarity_maps
from attnviz.views.selected_maps import HeadMap

LINK = "scores"
HEIGHT = 330
ACROSS = 3  # maps in a row
RANDOM = N_("Its weights are random: its numbers mean nothing.")


def show(selection: Selection, pinned: int | None) -> None:
    """Draws a map for each chosen similarity with one color range, and beside the first two their difference."""
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    with controls:
        with st.popover(_("Choose similarities"), icon=":material/tune:", width=220):
            scores = draw(ScoresState.similarities)
        shared = mechanism_controls.change_parts(selection.mechanism, ScoresState.normalizer)
        selection = selection.with_mechanism(shared)
    notes = st.container()
    subject = selection.source, selection.index, selection.head
    maps = cache.or_last_good("similarities", subject, lambda: similarity_maps(selection, scores), lambda: None, notes)
    if not maps:
        if not scores:
            notes.info(_("Choose at least one similarity."))
        return
    end = largest_weight([one.weights for one in maps.values()])
    if pinned is not None:
        under = {f" under {name}": one.weights[pinned] for name, one in maps.items()}
        quantities.publish(partial(rows_quantities, selection.inputs.key_tokens, under))
    names, toggle = list(maps), pinned_query.toggler(selection)
    state = ScoresState.partial(similarities=scores)
    with controls:
        first, second = draw(ScoresState.difference_from, state), draw(ScoresState.difference_to, state)
    compared = (first, second) if first and second else ()
    columns = st.columns(ACROSS, gap="medium")
    if compared:
        with columns[2]:
            _show_difference(maps, *compared, pinned, toggle)
    random = {title(type(score)) for score in scores if isinstance(score, Additive | General)}
    places = [*columns[:2], *columns] if compared else columns  # the difference has the third one of the first row
    for i, name in enumerate(dict.fromkeys([*compared, *names])):
        head_map = maps[name]
        with places[i % len(places)]:
            st.markdown(f"**{_(name)}**" + f" · {_('random weights')}" * (name in random))
            picture = head_map.chart(largest=end, link=LINK).with_about(
                label=_("Attention weights with {name}", name=_(name)), name=_("attention {name}", name=_(name)),
                hint=_("Point at a cell: it is marked in all maps."),
            )  # fmt: skip
            chart(picture, chart_key(name), height=HEIGHT, pinned=pinned, on_click=toggle)
            if name in random:
                st.caption(_(RANDOM))


def change_sentences(before: str, after: str) -> ChangeSentences:
    """Returns the sentences of a cell under two similarities.

    >>> change_sentences("Dot", "Cosine").reweighted
    '{query} gives {key} {after} (Cosine) instead of {before} (Dot).'
    """
    return ChangeSentences(
        kept=_("{query} gives {key} {after} with both."),
        reweighted=_(
            "{{query}} gives {{key}} {{after}} ({after}) instead of {{before}} ({before}).", after=after, before=before
        ),
        removed=_(
            "{{query}} gives {{key}} nothing with {after}, and {{before}} with {before}.", after=after, before=before
        ),
        added=_(
            "{{query}} gives {{key}} {{after}} with {after}, and nothing with {before}.", after=after, before=before
        ),
    )


def _show_difference(
    maps: dict[str, HeadMap], first: str, second: str, pinned: int | None, toggle: Callable[[int, int], None]
) -> None:
    st.markdown(f"**{_(second)} − {_(first)}**")
    names = _(first), _(second)
    picture = head_difference(
        maps[first], maps[second], charts=(chart_key(first), chart_key(second)), names=names,
        sentences=change_sentences(*names), link=LINK,
    )  # fmt: skip
    chart(picture, "score-change", height=HEIGHT, pinned=pinned, on_click=toggle)


def chart_key(similarity: str) -> str:
    """Returns the key of the chart of a similarity."""
    return f"score-{similarity.lower().replace(' ', '-')}"
