"""What a corrupted text recovers with parts of the run of the clean text."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from attnviz.base.formatting import numbered_tokens
from attnviz.base.language import _, plural
from attnviz.effects.ablation import Head
from attnviz.lessons.checks import Quantities
from attnviz.page import html
from attnviz.page.blocks import (
    AlignedTexts,
    Anchor,
    Block,
    Caption,
    Columns,
    Computed,
    Control,
    Figure,
    Note,
    Paragraph,
    Summary,
    Table,
)
from attnviz.page.token_columns import token_columns
from attnviz.pages.effects.corrected_alignment import add_correction
from attnviz.pages.effects.patching import (
    PatchingView,
    describe,
    head_positions,
    patching_key,
    patching_view,
    paths_view,
)
from attnviz.pages.effects.state import EffectsState

LARGEST = 10  # parts in the table


def patching_blocks(state: EffectsState) -> Iterator[Block]:
    """Yields the corrupted text with its alignment, what each part recovers, and the positions of the chosen head.
    Raises ValueError if nothing can be patched."""
    yield Control(EffectsState.corrupted, state)
    yield Computed(
        "patching",
        partial(patching_view, state),
        partial(patching_key, state),
        describe,
        partial(_of_patching, state),
        subject=(state.source, state.metric),
    )
    yield Control(EffectsState.patched, state, stays=True)
    yield from _alignment(state)
    yield Caption(
        _(
            "**What you are seeing.** The model reads the corrupted text, and one part of its run is replaced by that "
            "of the clean run. At 100% the measure is that of the clean run, at 0% nothing has changed. **What it does "
            "not say:** a part that recovers much carries the difference between these two texts. What is the same in "
            "both texts does not show."
        )
    )


def _alignment(state: EffectsState) -> Iterator[Block]:
    """Yields the tokens of both texts, and for the chosen one of the corrupted text those that it may belong to;
    nothing for a text that cannot be read."""
    try:
        corrupted, aligned = state.corrupted_inputs.source.tokens, state.alignment
    except ValueError:  # the patching says why
        return
    clean, chosen = state.run.source, state.aligned_token
    yield AlignedTexts(
        (_("clean"), _("corrupted")),
        [
            (
                column.kind, "–" if column.first is None else html.token(column.first),
                "–" if column.position is None or column.second is None
                else Anchor(html.token(column.second), state.link_with(aligned_token=column.position),
                            is_current=column.position == chosen),
            )
            for column in token_columns(clean, corrupted, aligned)
        ],
    )  # fmt: skip
    if chosen is not None and chosen < len(corrupted):
        source = {target: own for own, target in state.alignment}.get(chosen)
        names = enumerate(numbered_tokens(range(len(clean)), clean))
        ways: list[object] = [_("“{word}” belongs to:", word=numbered_tokens(range(len(corrupted)), corrupted)[chosen])]
        for position, name in [(None, _("no token")), *names]:
            link = state.link_with(corrections=add_correction(state.corrections, chosen, position))
            ways += [" ", Anchor(name, link, is_current=position == source)]
        yield Paragraph(tuple(ways), "attnviz-choices")
    if count := len(state.corrections):
        text = plural("Undo {count} correction", "Undo {count} corrections", count, count=count)
        yield Paragraph(Anchor(text, state.link_with(corrections=())))
    elif chosen is None:
        yield Note(_("To correct which tokens belong together, click one of the corrupted text."))


def _of_patching(state: EffectsState, shown: PatchingView) -> Iterator[Block]:
    is_known = shown.is_complete
    yield Summary(shown.sentence, partial(patching_quantities, shown) if is_known else None)
    if not shown.has_way:
        return
    chosen = shown.numbers.farthest(1)[0] if state.head is None and is_known and shown.is_of_heads else state.head
    yield _grid(shown, "effects-patching", chosen if shown.is_of_heads else None)
    if state.patched == "residual":
        return
    of_head: list[Block] = []
    if shown.is_of_heads:
        of_head.append(Control(EffectsState.head, state))
        if chosen is not None:
            of_head.append(Figure(head_positions(state, chosen), "effects-positions", 200))
    yield Columns([(0.4, [_table(shown)]), (0.6, of_head)])
    if shown.is_of_heads and chosen is not None:
        yield from _paths(state, chosen)


def _paths(state: EffectsState, head: Head) -> Iterator[Block]:
    """Yields what direct paths from the heads before the chosen one recover."""
    yield Control(EffectsState.received, state)
    if state.received is None:
        return
    if head[0] == 0:
        yield Note(_("Paths lead from heads of earlier layers, and this head is in the first one."))
        return
    compute, key = partial(paths_view, state, head), partial(patching_key, state, head, state.received)
    yield Computed("paths", compute, key, describe, partial(_of_paths, head), subject=key())


def _of_paths(head: Head, shown: PatchingView) -> Iterator[Block]:
    yield _grid(shown, "effects-paths", head, _("Recovered by direct paths from heads"))
    yield Note(_("Direct paths: all heads and MLPs between both write what they write in the corrupted run."))
    yield _table(shown)


def _grid(shown: PatchingView, name: str, chosen: Head | None, title: str = "") -> Figure:
    # A click is that on a head, also while numbers are still being replaced.
    numbers = replace(shown.numbers, title=title or shown.numbers.title)
    cells = (shown.state.source, shown.recovered.shape)
    if not shown.is_of_heads:
        return numbers.grid(name, _("Point at a cell to read it."), cells=cells)
    return numbers.grid(
        name, _("Click a head to see its positions."), numbers.opens_head(shown.state), chosen, cells=cells
    )


def _table(shown: PatchingView) -> Table:
    return shown.numbers.table((_("Taken"), _("recovers")), shown.state, shown.numbers.farthest(LARGEST))


def patching_quantities(shown: PatchingView) -> Quantities:
    """Returns the numbers that lessons check: the measure in both runs, and what each head, or the part of a layer at a
    position, recovers."""
    ends = {"clean": shown.patching.clean, "corrupted": shown.patching.corrupted}
    return {**ends, **shown.numbers.quantities("recovered by")}
