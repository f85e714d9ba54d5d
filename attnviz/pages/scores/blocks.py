"""What Scores shows: the same tokens under several similarities, or a row of scores under every normalizer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import row_summary, strongest_keys
from attnviz.base.formatting import enumeration, number, visible
from attnviz.base.language import N_, _
from attnviz.figures import heatmap
from attnviz.figures.sentences import CellSentences, ChangeSentences, escaped
from attnviz.lessons.checks import Quantities, rows_quantities
from attnviz.normalizers import Identity, Normalizer
from attnviz.page.blocks import (
    Block,
    Caption,
    Columns,
    Control,
    Figure,
    More,
    Note,
    Row,
    Summary,
    Table,
    Tabs,
    Unavailable,
    available,
)
from attnviz.page.color_range import largest_weight
from attnviz.page.head_difference import head_difference
from attnviz.page.magnification import magnification_sentence
from attnviz.page.page_view import Panel
from attnviz.page.parts import title
from attnviz.page.selected_maps import HeadMap, map_panel, selected_map
from attnviz.page.selection import Selection
from attnviz.pages.scores.state import NORMALIZERS_TAB, SIMILARITIES, ScoresState
from attnviz.scores import Additive, General, Score

LINK = "scores"
MAP, ACROSS = 330, 3  # pixels, and maps in a row
ROW, AROUND_ROWS = 24, 130  # pixels of a normalizer
MOST_KEYS = 32  # that are shown of a row
RANDOM = N_("Its weights are random: its numbers mean nothing.")
UNDER = N_("Under {{query}}, {token} gives {{weight}} to {{key}}.")
MASKED_UNDER = N_("{token} may not look at {{key}}.")


def scores(state: ScoresState) -> Iterator[Block]:
    """Yields the open tab; of a layer whose mechanism is locked, why there is nothing to compare."""
    layer = state.selection.layer
    if layer.locked:
        more = _("Upload queries and keys to compare similarities and normalizers.")
        yield Unavailable(f"{layer.locked_reason} {more}")
        return
    parts: dict[str, Callable[[ScoresState], Iterable[Block]]] = {
        SIMILARITIES: _similarities,
        NORMALIZERS_TAB: _normalizers,
    }
    yield Tabs(ScoresState.look, state, available(parts[state.look](state)))


def _similarities(state: ScoresState) -> Iterator[Block]:
    """Yields a map for each similarity with one color range, and beside the first two their difference."""
    maps = similarity_maps(state.selection, state.similarities)
    if not maps:
        yield Note(_("Choose at least one similarity."))
    else:
        yield _summary(state, maps)
        pictures = [*_maps(state, maps)]
        for first in range(0, len(pictures), ACROSS):
            row = pictures[first : first + ACROSS]
            yield Columns([(1 / ACROSS, blocks) for blocks in (*row, *[[]] * (ACROSS - len(row)))])
    compared = [Control(field, state) for field in (ScoresState.difference_from, ScoresState.difference_to)]
    yield Row(compared, "scores-compared")
    yield More(_("Which similarities"), [Control(ScoresState.similarities, state)])
    yield Caption(
        _(
            "**What you are seeing.** The same queries and keys, compared in different ways; the mask and the "
            "normalizer are the same. **What it does not say:** what a model would look at that was trained with "
            "another similarity: its vectors would be others."
        )
    )


def _maps(state: ScoresState, maps: dict[str, HeadMap]) -> Iterator[list[Block]]:
    """Yields the pictures: of the two similarities that are compared, of their difference, and of the others."""
    end, row = largest_weight([one.weights for one in maps.values()]), state.pinned
    compared = [name for name in (state.difference_from, state.difference_to) if name]
    random = {title(type(score)) for score in state.similarities if isinstance(score, Additive | General)}
    opens = state.cell_link
    for i, name in enumerate(dict.fromkeys([*compared, *maps])):
        head_map = maps[name]
        if i == len(compared) == 2:
            yield _difference(state, maps)
        picture = head_map.chart(largest=end, link=LINK).with_about(
            label=_("Attention weights with {name}", name=_(name)),
            name=_("attention {name}", name=_(name)),
            hint=_("Point at a cell: it is marked in all maps."),
        )
        panel = map_panel(head_map, name, row)
        shown = f"{_(name)} · {_('random weights')}" if name in random else _(name)
        figure = Figure(picture, chart_name(name), MAP, opens, [panel], pinned=row, title=shown, grows="beside")
        yield [figure, *([Note(_(RANDOM))] if name in random else [])]
    if len(compared) == len(maps) == 2:
        yield _difference(state, maps)


def _summary(state: ScoresState, maps: dict[str, HeadMap]) -> Summary:
    """Returns what the pinned query gives to the key to which it gives most under the first similarity, under each."""
    (first, *_others), row = maps.values(), state.pinned
    if row is None or not (best := strongest_keys(torch.from_numpy(first.weights[row]), 1)):
        return Summary(_("Click a row of a map to read it under each similarity."))
    key, tokens = best[0][0], first.inputs.key_tokens
    weights = [f"{number(float(one.weights[row, key]))} ({_(name)})" for name, one in maps.items()]
    names = {"query": visible(first.query_tokens[row]), "key": visible(first.key_tokens[key])}
    sentence = _("{query} gives {key} {weights}.", weights=enumeration(weights), **names)
    return Summary(sentence, partial(_quantities, tokens, {name: one.weights for name, one in maps.items()}, row))


def _difference(state: ScoresState, maps: dict[str, HeadMap]) -> list[Block]:
    first, second = state.difference_from or "", state.difference_to or ""
    names = _(first), _(second)
    picture = head_difference(
        maps[first],
        maps[second],
        charts=(chart_name(first), chart_name(second)),
        names=names,
        sentences=change_sentences(*names),
        link=LINK,
    )
    title = f"{_(second)} − {_(first)}"
    return [Figure(picture, "score-change", MAP, state.cell_link, pinned=state.pinned, title=title, grows="beside")]


def _normalizers(state: ScoresState) -> Iterator[Block]:
    """Yields the weights of the pinned query under each normalizer, a row for each, and what they add up to."""
    selection, pinned = state.selection, state.pinned
    if pinned is None:
        yield Note(_("Pin a query above to see its row of scores under every normalizer."))
        return
    rows, refused = normalized_rows(selection, pinned, state.normalizers)
    if not rows:
        raise ValueError(next(iter(refused.values())))
    tokens, token = selection.inputs.key_tokens, visible(selection.inputs.query_tokens[pinned])
    sentence = _("What {query} gives to each key, normalizer by normalizer.", query=token)
    if isinstance(selection.head, int):  # the mean of several rows of weights is not the softmax of a row of scores
        sentence = _magnification(selection, pinned)
    yield Summary(sentence, partial(_quantities, tokens, {name: row[None] for name, row in rows.items()}, 0))
    yield _rows(rows, tokens, token)
    yield Table(
        (_("Normalizer"), _("group"), _("adds up to"), _("keys with weight"), _("entropy, bits")),
        [_summary_row(each, rows[name]) for each in state.normalizers if (name := title(type(each))) in rows],
    )
    yield from (Note(f"{_(name)}: {reason}") for name, reason in refused.items())
    yield More(_("Parameters"), [Control(ScoresState.normalizers, state)])
    yield Caption(
        _(
            "**What you are seeing.** One row of scores, made into weights in different ways. Rows that do not add up "
            "to 1 are no shares. **What it does not say:** how a model would do that was trained with another "
            "normalizer."
        )
    )


def _magnification(selection: Selection, pinned: int) -> str:
    """Returns a sentence about the two highest scores of a row and their weights under softmax."""
    (row,) = normalized_rows(selection, pinned, [Identity()])[0].values()
    scores = np.where(np.isnan(row), -np.inf, row)
    return magnification_sentence(scores.tolist(), [visible(key) for key in selection.inputs.key_tokens])


def _rows(rows: dict[str, Float[np.ndarray, " keys"]], tokens: Sequence[str], token: str) -> Figure:
    weights = np.stack([*rows.values()])
    # The keys that any normalizer gives most, in their order.
    keys = np.sort(np.argsort(-np.abs(np.nan_to_num(weights)).max(0), kind="stable")[:MOST_KEYS])
    names, shown = [_(name) for name in rows], [tokens[i] for i in keys]
    picture = heatmap(
        weights[:, keys],
        names,
        shown,
        largest=largest_weight([weights]),
        fan=False,
        sentences=CellSentences(_(UNDER, token=token), _(MASKED_UNDER, token=token)),
    ).with_about(label=_("One row under each normalizer"), hint=_("Point at a cell to read it."))
    labels = tuple(map(escaped, names))  # whole
    picture.figure.update_layout(yaxis={"title": {"text": _("normalizers")}, "ticktext": labels})
    picture = replace(picture, spec=replace(picture.spec, query_labels=labels))
    panels = [Panel(name, row[None], [token], tokens, 0) for name, row in rows.items()]
    return Figure(picture, "normalizer-rows", AROUND_ROWS + ROW * len(rows), panels=panels)


def _summary_row(normalizer: Normalizer, weights: Float[np.ndarray, " keys"]) -> tuple[str, ...]:
    row = row_summary(torch.from_numpy(weights))
    total = number(row.total) + (f" ({_('some are negative')})" if row.negative else "")
    counts = _("{nonzero} of {allowed}", nonzero=row.nonzero, allowed=row.allowed)
    entropy = "–" if row.entropy is None else number(row.entropy)
    return _(title(type(normalizer))), _(normalizer.family.capitalize()), total, counts, entropy


def _quantities(keys: Sequence[str], maps: dict[str, Float[np.ndarray, "rows keys"]], row: int | None) -> Quantities:
    if row is None:
        return {}
    return rows_quantities(keys, {f" under {name}": weights[row] for name, weights in maps.items()})


def similarity_maps(selection: Selection, similarities: Iterable[Score]) -> dict[str, HeadMap]:
    """Returns the map of the selected head under each similarity, by its name. Raises ValueError if one cannot be
    computed."""
    mechanisms = {title(type(score)): replace(selection.mechanism, score=score) for score in similarities}
    return {name: selected_map(selection.with_mechanism(mechanism)) for name, mechanism in mechanisms.items()}


def normalized_rows(
    selection: Selection, row: int, normalizers: Iterable[Normalizer]
) -> tuple[dict[str, Float[np.ndarray, " keys"]], dict[str, str]]:
    """Returns the weights of a row under each normalizer, by its name, and why others do not take its scores."""
    rows: dict[str, np.ndarray] = {}
    refused: dict[str, str] = {}
    for normalizer in normalizers:
        mechanism = replace(selection.mechanism, normalizer=normalizer)
        try:
            rows[title(type(normalizer))] = selected_map(selection.with_mechanism(mechanism)).weights[row]
        except ValueError as problem:
            refused[title(type(normalizer))] = str(problem)
    return rows, refused


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


def chart_name(similarity: str) -> str:
    """Returns the name of the chart of a similarity."""
    return f"score-{similarity.lower().replace(' ', '-')}"
