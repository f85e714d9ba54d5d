"""What each head keeps of its attention under A when B is laid over it, and patterns at equal cost to take as B."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.mass_kept import DenseHead, MassKept, dense_head, mass_kept_by_head
from attnviz.analysis.sparse_presets import BLOCKS, LONG, SparseCost, SparsePreset, sparse_presets
from attnviz.analysis.work import MOST_MAP_WORK, MOST_WORK
from attnviz.base.formatting import grouped, number, percent, visible
from attnviz.base.language import N_, _
from attnviz.base.link import Link
from attnviz.layer import Layer
from attnviz.lessons.checks import Quantities
from attnviz.masks import Mask, MaskError, parse
from attnviz.mechanism import Mechanism
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Computed,
    Control,
    Heading,
    Note,
    OtherStates,
    Paragraph,
    Summary,
    Table,
)
from attnviz.page.head_numbers import HeadNumbers, Place
from attnviz.page.html import element
from attnviz.page.result_cache import result_cache
from attnviz.page.selection import Selection, similar_layers
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.state import MasksState

STREAMING_LLM = N_(
    "This is the mask of StreamingLLM alone: the paper also numbers positions anew among the keys that are left. Here "
    "every token keeps its position."
)
MOST_QUERIES = 512  # of each head; of more, this number of evenly spread ones
LISTED = 8  # queries that lose most
TEXT = 48  # characters of a mask in the table
CAPTION = N_(
    "**What you are seeing.** The weights under A are used as they are, and those on keys that B "
    "hides are crossed out: mass kept is what is left, as a share, on average over the queries. A "
    "kernel computes only blocks that hold an allowed pair."
)

LEFT_OUT = N_(
    "A pattern is left out where even its smallest size has more pairs. Vertical-slash and blocks "
    "are chosen from the weights under A; for more than {long} tokens only where A is causal."
)


def mass_kept_blocks(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    """Yields the mass that heads keep, the queries that lose most, the cost of A and B, and patterns at equal cost."""
    selection, (before, after) = pair.selection, pair.mechanisms
    sample = MOST_QUERIES if pair.inputs.queries > 2 * MOST_QUERIES else None
    lost: list[Block] = []
    if isinstance(pair.head, int):
        dense = _dense(selection, before, sample)
        kept = _kept(selection, dense, after, sample)
        yield Summary(_sentence(selection, kept), partial(_quantities, kept))
        lost = [*_lost_blocks(pair, kept)]
    else:
        lost = [Note(_("Choose one head to see which of its queries lose most, and patterns that keep more."))]
    own = selection.mechanism.mask
    if before.mask != own and _is_in_language(own):
        take = _("Take this layer’s own mask as A: {short}", short=_short(str(own)))
        yield OtherStates([Paragraph(Anchor(take, state.link_with(mask_a=own)))])
    yield Columns([(0.5, [*_heads(state, pair, sample)]), (0.5, lost)])
    if isinstance(pair.head, int):
        yield from _presets(state, pair, dense, kept)
    yield Caption(_(CAPTION))


def _quantities(kept: MassKept) -> Quantities:
    return {"mass kept": kept.mean} if np.isfinite(kept.mean) else {}


# One head


def _head_key(selection: Selection, before: Mechanism, sample: int | None) -> tuple[object, ...]:
    return selection.source, selection.index, selection.head, before, sample


def _dense(selection: Selection, before: Mechanism, sample: int | None) -> DenseHead:
    inputs, head = selection.inputs.vectors, selection.head
    assert isinstance(head, int)
    return result_cache().once(
        partial(dense_head, inputs, before, head, sample=sample),
        *("dense head", *_head_key(selection, before, sample)),
        work=_work(selection.layer, before, sample),
    )


def _kept(selection: Selection, dense: DenseHead, after: Mechanism, sample: int | None) -> MassKept:
    return result_cache().once(
        partial(dense.kept, after.mask),
        *("mass kept", *_head_key(selection, dense.mechanism, sample), after.mask),
        work=_work(selection.layer, dense.mechanism, sample),
    )


def _work(layer: Layer, mechanism: Mechanism, sample: int | None) -> int:
    """Returns the approximate steps that one head takes."""
    inputs = layer.inputs
    return (sample or inputs.queries) * inputs.keys * mechanism.score.work


def _sentence(selection: Selection, kept: MassKept) -> str:
    name = selection.title[0].upper() + selection.title[1:]
    if np.isnan(kept.mean):
        return _("{name}: under A no query may look at anything, so there is nothing to keep.", name=name)
    many = len(kept.queries) < selection.inputs.queries
    queries = _(
        "{count} of its {queries} queries, evenly spread",
        count=grouped(len(kept.queries)),
        queries=grouped(selection.inputs.queries),
    )
    return _(
        "{name} keeps {share} of its attention under B, on average over {queries}.",
        name=name,
        share=percent(kept.mean),
        queries=queries if many else _("its queries"),
    )


def _lost_blocks(pair: MaskPair, kept: MassKept) -> Iterator[Block]:
    yield Heading(_("The queries that lose most"))
    if not (lowest := kept.lowest(LISTED)):
        yield Note(_("No query loses anything."))
        return
    tokens = pair.inputs.query_tokens
    rows = [(visible(tokens[query]), grouped(query), number(share)) for query, share in lowest]
    yield Table((_("query"), _("position"), _("mass lost")), rows)


# All heads


def _heads(state: MasksState, pair: MaskPair, sample: int | None) -> Iterator[Block]:
    """Yields the mean mass that each head of each layer keeps, as colors."""
    selection, (before, after) = pair.selection, pair.mechanisms
    indices, layers = _measured_layers(selection, before, sample)
    mechanisms = [layer.mechanism for layer in layers]
    yield Heading(_("Mass kept by each head"))
    yield Computed(
        "heads-kept",
        partial(mass_kept_by_head, layers, after.mask, sample=sample),
        lambda: ("heads' mass kept", selection.source, indices, mechanisms, after.mask, sample),
        lambda kept: _("{done} of {heads} heads so far.", done=int(kept.isfinite().sum()), heads=kept.numel()),
        partial(_of_heads, state, indices),
        subject=selection.source.subject,
        work=sum(2 * layer.inputs.heads * _work(layer, layer.known_mechanism, sample) for layer in layers),
    )


def _of_heads(state: MasksState, indices: Sequence[int], kept: Float[Tensor, "layers heads"]) -> Iterator[Block]:
    layers, index, head = state.layers, state.layer, state.head
    numbers = HeadNumbers(
        _("Mass kept by each head"),
        [layers[i].id for i in indices],
        kept.numpy(),
        largest=1.0,
        counts=[layers[i].inputs.heads for i in indices],
    )
    chosen = (indices.index(index), head) if index in indices and isinstance(head, int) else None

    def opens(place: Place) -> Link | None:
        return state.link_with(layer=indices[place[0]], head=place[1]) if numbers.is_head(place) else None

    yield numbers.grid("kept", _("1: nothing is lost. Click a head to open it."), opens, chosen)


def _measured_layers(selection: Selection, before: Mechanism, sample: int | None) -> tuple[list[int], list[Layer]]:
    """Returns the indices of the layers like the selected one, or of this one alone if all take too much work, and the
    layers with their mechanisms under A."""
    indices = [i for i in similar_layers(selection.layers, selection.index) if not selection.layers[i].locked]
    layers = [selection.layers[i] for i in indices]
    if sum(2 * layer.inputs.heads * _work(layer, before, sample) for layer in layers) > MOST_MAP_WORK:
        indices, layers = [selection.index], [selection.layer]
    changed = [layer.updated(selection.mechanism, before).known_mechanism for layer in layers]
    mechanisms = [replace(mechanism, mask=before.mask) for mechanism in changed]
    return indices, [replace(layer, mechanism=one) for layer, one in zip(layers, mechanisms, strict=True)]


# Patterns at equal cost


def _presets(state: MasksState, pair: MaskPair, dense: DenseHead, kept: MassKept) -> Iterator[Block]:
    """Yields the cost of A and B, and the patterns that a budget pays for, each with a link that takes it as B."""
    before, after = pair.mechanisms
    yield Heading(_("At equal cost: patterns by the mass that this head keeps"))
    yield Control(MasksState.budget, state)
    sample = None if len(dense.queries) == pair.inputs.queries else len(dense.queries)
    try:
        costs = [_counted(pair, mechanism) for mechanism in (before, replace(after, mask=before.mask & after.mask))]
    except ValueError as problem:
        yield Note(str(problem))
        return
    sides = [("A", str(before.mask), costs[0], 1.0), ("B", str(after.mask), costs[1], kept.mean)]
    yield Computed(
        "sparse-presets",
        partial(sparse_presets, dense, state.budget),
        lambda: ("sparse presets", *_head_key(pair.selection, dense.mechanism, sample), state.budget),
        lambda presets: _("{count} patterns so far.", count=len(presets)),
        partial(_of_presets, state, pair, sides),
        subject=pair.selection.source.subject,
        work=12 * _work(pair.selection.layer, dense.mechanism, sample),
    )


def _of_presets(
    state: MasksState,
    pair: MaskPair,
    sides: list[tuple[str, str, SparseCost, float]],
    presets: Sequence[SparsePreset],
) -> Iterator[Block]:
    own = sides[0][2]
    names = [Anchor(_("{name} as B", name=_(one.name)), state.link_with(mask_b=one.mask)) for one in presets]
    entries = [(name, str(one.mask), one.cost, one.kept.mean) for name, one in zip(names, presets, strict=True)]
    headings = ("", _("mass kept"), _("pairs"), *(_("blocks of {block}", block=block) for block in BLOCKS), _("mask"))
    yield Table(headings, [_row(*row, own, pair) for row in (*sides, *entries)], marked=1)
    if not presets:
        yield Note(_("No pattern has so few pairs. Choose a larger share."))
    yield Note(_(LEFT_OUT, long=grouped(LONG)))
    if any(preset.name == "StreamingLLM" for preset in presets):
        yield Note(_(STREAMING_LLM))


def _row(name: object, mask: str, cost: SparseCost, kept: float, own: SparseCost, pair: MaskPair) -> list[object]:
    sizes = [-(-pair.inputs.queries // block) * -(-pair.inputs.keys // block) for block in BLOCKS]
    return [
        name,
        percent(kept) if np.isfinite(kept) else "–",
        f"{cost.pairs:,} ({percent(cost.pairs / own.pairs) if own.pairs else '–'})",
        *(f"{count:,} ({percent(count / size)})" for count, size in zip(cost.blocks, sizes, strict=True)),
        element("code", _short(mask), title=mask[:1000]),
    ]


def _is_in_language(mask: Mask) -> bool:
    """Returns whether the text of a mask says all of it."""
    try:
        return parse(str(mask)) == mask
    except MaskError:
        return False


def _short(mask: str) -> str:
    return mask if len(mask) <= TEXT else f"{mask[: TEXT - 1]}…"


def _counted(pair: MaskPair, mechanism: Mechanism) -> SparseCost:
    sizes = pair.inputs.queries, pair.inputs.keys
    assert isinstance(pair.head, int)
    return result_cache().once(
        partial(SparseCost.counted, mechanism.mask, *sizes, pair.head),
        *("sparse cost", mechanism.mask, sizes, pair.head),
        work=min(sizes[0] * sizes[1], MOST_WORK),
    )
