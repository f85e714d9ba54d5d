"""The maps under A and under B, and their difference; where the attention of the pinned query went, and what a model
says under both."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from attnviz.analysis.difference import mass_shift, outcome_counts
from attnviz.analysis.head_maps import Aggregate
from attnviz.base.formatting import enumeration, grouped, visible
from attnviz.base.language import N_, _
from attnviz.base.link import Link
from attnviz.figures.bars import bars
from attnviz.masks import Grid
from attnviz.mechanism import Mechanism
from attnviz.page.blocks import Block, Caption, CellsQuestion, Columns, Figure, Heading, Note, Paragraph, Summary
from attnviz.page.head_difference import head_difference
from attnviz.page.html import element
from attnviz.page.long_map_blocks import map_zooms, search_blocks
from attnviz.page.page_view import difference_panel
from attnviz.page.parts import title
from attnviz.page.selected_maps import map_panel
from attnviz.pages.masks.gallery_blocks import mask_links
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.mass_shift_sentences import mass_shift_sentences, mass_shift_summary
from attnviz.pages.masks.model_output import model_output
from attnviz.pages.masks.state import SIDES, MasksState, runs_model

HEIGHT, BARS_HEIGHT = 330, 260  # pixels
LONGEST_NAME = 60  # characters of a mask that is named below its map; the sentence says what a longer one does
LINK_GROUP, CHARTS = "masks", ("map-a", "map-b")
OUTCOMES = {
    "kept": (N_("kept as they were"), N_("Both masks allow these cells, with the same weight.")),
    "re-weighted": (N_("re-weighted"), N_("Both masks allow these cells, with another weight.")),
    "removed": (N_("removed"), N_("Only A allows these cells.")),
    "added": (N_("added"), N_("Only B allows these cells.")),
}


def two_masks(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    """Yields the maps and what follows from them. Raises ValueError if a map cannot be computed."""
    yield mask_links(state)
    is_long, row = pair.selection.is_long, state.pinned
    rest: list[Block] = []
    if is_long:
        yield from search_blocks(state)
    else:
        query = "" if row is None else pair.query_name(row)
        yield Summary(_summary(pair, row), partial(pair.quantities, row), query)
        rest = [] if row is None else [*_mass_shift(pair, row)]
        allowed, left = pair.allowed
        before = pair.maps[0]
        ask = _("Which cells does B lose that A has?")
        yield CellsQuestion(ask, before.query_tokens, before.key_tokens, allowed & ~left)
    yield Columns([(1 / 3, [*side]) for side in (*_maps(state, pair), _difference(state, pair))])
    yield from rest
    if runs_model(state):
        yield from model_output(state)
    yield Caption(
        _(
            "**What you are seeing.** The same scores of one head, under two masks. **What it does not say:** what the "
            "head would do in a model that was trained with the other mask; its scores would be others."
        )
    )


def _legend(pair: MaskPair) -> Paragraph:
    """Returns the outcomes with their numbers of cells."""
    count = outcome_counts(torch.from_numpy(pair.outcomes))
    items = (
        element(
            "span",
            element("b", grouped(int(count[kind]))),
            f" {_(name)}",
            class_=f"attnviz-outcome attnviz-{kind}",
            title=_(meaning),
        )
        for kind, (name, meaning) in OUTCOMES.items()
    )
    return Paragraph(tuple(items), "attnviz-outcomes attnviz-finding")


def _maps(state: MasksState, pair: MaskPair) -> Iterator[list[Block]]:
    is_long = pair.selection.is_long
    sides = zip(SIDES, pair.mechanisms, pair.maps, pair.allowed, strict=True)
    for i, (side, mechanism, head_map, allowed) in enumerate(sides):
        sentence, paints = describe_mask(mechanism), (state.paint_a, state.paint_b)[i]
        picture = head_map.chart(largest=pair.largest, link=LINK_GROUP)
        hint = _("Drag over cells to paint them.") if paints else _("Point at a cell: it is marked in all three maps.")
        picture = picture.with_about(
            label=_("Attention weights under mask {side}", side=side),
            name=_("attention mask {side}", side=side),
            description=f"{_('Mask {side}: {sentence}', side=side, sentence=sentence)} {picture.about.description}",
            hint=picture.about.hint if is_long else hint,
        )
        panel = map_panel(head_map, f"{side}: {mechanism.mask}", state.pinned)
        figure = Figure(
            picture, CHARTS[i], HEIGHT, None if is_long or paints else state.cell_link, [panel],
            pinned=None if is_long else state.pinned, zooms=map_zooms(state, head_map) if is_long else None, title=side,
            grows="beside", paints=partial(_painted, state, side, allowed) if paints else None,
        )  # fmt: skip
        name = str(mechanism.mask)
        yield [figure, Note((element("b", name), ". ", sentence) if len(name) <= LONGEST_NAME else sentence)]


def _difference(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    is_long, (before, after) = pair.selection.is_long, pair.maps
    panels = [map_panel(each, side, state.pinned) for side, each in zip(SIDES, pair.maps, strict=True)]
    yield Figure(
        head_difference(before, after, charts=CHARTS, link=LINK_GROUP), "change", HEIGHT,
        None if is_long else state.cell_link, [difference_panel(panels[0], panels[1], "B − A")],
        pinned=None if is_long else state.pinned, zooms=map_zooms(state, before) if is_long else None, title="B − A",
        grows="beside",
    )  # fmt: skip
    if not is_long:
        yield _legend(pair)


def _painted(state: MasksState, side: str, allowed: np.ndarray, cells: np.ndarray, value: bool) -> Link:
    """Returns the link of the state in which the mask of a side is a grid of what is allowed, with these cells painted.
    Raises ValueError if the grid is too large."""
    painted = allowed.copy()
    painted[cells[:, 0], cells[:, 1]] = value
    return state.link_with(**{f"mask_{side.lower()}": Grid.from_array(painted)})


def _summary(pair: MaskPair, row: int | None) -> object:
    """Returns what B changes for the pinned query, in a sentence."""
    if row is None:
        return _("Click a row of a map to follow the attention of its query.")
    if pair.head == Aggregate.MAXIMUM:
        return _("The greatest weights of several heads do not add up to 1. Choose one head to follow its mass.")
    return mass_shift_summary(mass_shift(*pair.row(row)), pair.inputs.query_tokens[row])


def _mass_shift(pair: MaskPair, row: int) -> Iterator[Block]:
    """Yields the weights of the pinned query under A and under B, and which keys lose and gain."""
    before, after = pair.row(row)
    name, sentences = visible(pair.inputs.query_tokens[row]), []
    if pair.head != Aggregate.MAXIMUM:
        shift, mean = mass_shift(before, after), pair.head == Aggregate.MEAN
        sentences = mass_shift_sentences(shift, pair.inputs.query_tokens[row], pair.inputs.key_tokens, mean)
    picture = bars(before, after, pair.inputs.key_tokens).with_about(
        label=_("The pinned query's weights under A and B")
    )
    yield Heading(_("Where the attention of {query} went", query=name))
    paragraphs = [Paragraph(sentence, "attnviz-finding") for sentence in sentences]
    yield Columns([(0.4, paragraphs), (0.6, [Figure(picture, "went", BARS_HEIGHT)])])


def describe_mask(mechanism: Mechanism) -> str:
    """Returns the mask and the biases as a sentence."""
    if not mechanism.biases:
        return mechanism.mask.describe()
    biases = enumeration([_(title(type(bias))) for bias in mechanism.biases])
    return f"{mechanism.mask.describe()} {_('With {biases}.', biases=biases)}"
