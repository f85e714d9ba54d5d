"""What each head keeps of its attention under A when B is laid over it, and patterns at equal cost to take as B."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st
from jaxtyping import Float

from attnviz.analysis.mass_kept import DenseHead, MassKept, dense_head, mass_kept_by_head
from attnviz.analysis.sparse_presets import BLOCKS, LONG, SparseCost, SparsePreset, sparse_presets
from attnviz.analysis.work import MOST_MAP_WORK, MOST_WORK
from attnviz.formatting import grouped, number, percent, visible
from attnviz.language import N_, _
from attnviz.layer import Layer, head_name
from attnviz.link import page_address
from attnviz.masks import Mask, MaskError, parse
from attnviz.mechanism import Mechanism
from attnviz.page import html
from attnviz.server.addresses import address
from attnviz.state.masks import MasksState
from attnviz.state.selection import Selection, similar_layers
from attnviz.ui import cache, head_grid
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.masks.mask_editor import set_mask
from attnviz.ui.mechanism_sentences import STREAMING_LLM
from attnviz.views.mask_pair import MaskPair

MOST_QUERIES = 512  # of each head; of more, this number of evenly spread ones
LISTED = 8  # queries that lose most
LONGEST_LINK = 4000  # characters of a mask
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


def show(pair: MaskPair) -> None:
    """Draws the mass that heads keep, the queries that lose most, the cost of A and B, and patterns at equal cost."""
    selection, (before, after) = pair.selection, pair.mechanisms
    sample = MOST_QUERIES if pair.inputs.queries > 2 * MOST_QUERIES else None
    notes = st.container()
    left, right = head_grid.two_places(replace(selection, all_layers=True).tiles, 0.5)
    try:
        if isinstance(pair.head, int):
            dense = _dense(selection, before, sample)
            kept = _kept(selection, dense, after, sample)
            with notes:
                st.html(html.summary(_sentence(selection, kept), role="status"))
            with right:
                _show_queries(pair, kept)
        else:
            notes.info(_("Choose one head to see which of its queries lose most, and patterns that keep more."))
        with left:
            _show_heads(selection, pair.mechanisms, sample)
    except ValueError as problem:
        notes.info(plain(str(problem)))
        return
    own = selection.mechanism.mask
    if before.mask != own and _is_in_language(own):
        with notes:
            st.button(
                _("Take this layer’s own mask as A: {short}", short=_short(str(own))),
                key="own-mask",
                type="tertiary",
                on_click=set_mask,
                args=("A", str(own)),
            )
    if isinstance(pair.head, int):
        _show_presets(pair, dense, kept)
    _show_models_link(str(after.mask))
    st.caption(_(CAPTION))


def _show_models_link(mask: str) -> None:
    """Draws the link to a model that runs with this mask laid over its own ones."""
    if len(mask) > LONGEST_LINK:
        return
    page = page_address("models", [("inspect", "What if"), ("if-own", "true"), ("if-sparse", mask)])
    link = html.element(
        "a",
        _("How does the output of a model change?"),
        class_="attnviz-link",
        href=address(f"/{page}"),
        target="_blank",
    )
    sentence = _("{link} Models runs one with B laid over its masks: next token, KL, maps.")
    st.html(html.element("p", html.Markup(sentence).format(link=link)))


# One head


def _head_key(selection: Selection, before: Mechanism, sample: int | None) -> tuple[object, ...]:
    return selection.source, selection.index, selection.head, before, sample


def _dense(selection: Selection, before: Mechanism, sample: int | None) -> DenseHead:
    inputs, head = selection.inputs.vectors, selection.head
    assert isinstance(head, int)
    return cache.once(
        partial(dense_head, inputs, before, head, sample=sample),
        *("dense head", *_head_key(selection, before, sample)),
        work=_work(selection.layer, before, sample),
    )


def _kept(selection: Selection, dense: DenseHead, after: Mechanism, sample: int | None) -> MassKept:
    return cache.once(
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


def _show_queries(pair: MaskPair, kept: MassKept) -> None:
    """Draws the queries that lose most."""
    st.markdown(_("**The queries that lose most**"))
    lowest = kept.lowest(LISTED)
    if not lowest:
        st.markdown(_("No query loses anything."))
        return
    tokens = pair.inputs.query_tokens
    rows = ([visible(tokens[query]), grouped(query), number(share)] for query, share in lowest)
    st.html(html.table([_("query"), _("position"), _("mass lost")], rows))


# All heads


def _show_heads(selection: Selection, pair: tuple[Mechanism, Mechanism], sample: int | None) -> None:
    """Draws the mean mass that each head of each layer keeps, as colors and numbers."""
    st.markdown(_("**Mass kept by each head**"))
    indices, layers = _measured_layers(selection, pair[0], sample)
    with st.container():  # the progress comes and goes here, and the chart stays where it is
        kept = _heads_kept(selection, indices, layers, pair[1], sample)
    names = [
        "" if head >= layer.inputs.heads else f"{head_name(layer.id, head)} {_share(kept[i, head])}"
        for i, layer in enumerate(layers)
        for head in range(kept.shape[1])
    ]
    head_grid.show(
        selection, indices, kept, names, "kept", _("Mass kept by each head"), largest=1.0,
        description=". ".join(filter(None, names)), hint=N_("1: nothing is lost. Click a head to open it."),
        numbers=True,
    )  # fmt: skip


def _share(kept: float) -> str:
    return _("is still to come") if np.isnan(kept) else _("keeps {kept} of its attention", kept=number(float(kept)))


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


def _heads_kept(
    selection: Selection, indices: Sequence[int], layers: Sequence[Layer], after: Mechanism, sample: int | None
) -> Float[np.ndarray, "layers heads"]:
    """Returns the mean mass that each head keeps; NaN where a job has not come yet."""
    mechanisms = [layer.mechanism for layer in layers]
    return cache.once_or_so_far(
        partial(mass_kept_by_head, layers, after.mask, sample=sample),
        *("heads' mass kept", selection.source, indices, mechanisms, after.mask, sample),
        work=sum(2 * layer.inputs.heads * _work(layer, layer.known_mechanism, sample) for layer in layers),
        describe=lambda kept: _("{done} of {heads} heads so far.", done=int(kept.isfinite().sum()), heads=kept.numel()),
    ).numpy()


# Patterns at equal cost


def _show_presets(pair: MaskPair, dense: DenseHead, kept: MassKept) -> None:
    """Draws the cost of A and B, and the patterns that a budget pays for, with a button that takes one as B."""
    before, after = pair.mechanisms
    st.markdown(_("**At equal cost: patterns by the mass that this head keeps**"))
    budget = draw(MasksState.budget, widget=st.segmented_control)
    try:
        costs = [_counted(pair, mechanism) for mechanism in (before, replace(after, mask=before.mask & after.mask))]
        with st.container():
            presets = _presets(pair, dense, budget)
    except ValueError as problem:
        st.info(plain(str(problem)))
        return
    own, sparse = costs
    entries = [(_(one.name), str(one.mask), one.cost, one.kept.mean) for one in presets]
    rows = [("A", str(before.mask), own, 1.0), ("B", str(after.mask), sparse, kept.mean), *entries]
    headings = [
        "",
        _("mass kept"),
        _("pairs"),
        *(_("blocks of {block}", block=block) for block in BLOCKS),
        _("mask"),
    ]
    st.html(html.table(headings, (_row(*row, own, pair) for row in rows), marked=1))
    with st.container(horizontal=True, vertical_alignment="center"):
        for i, preset in enumerate(presets):
            st.button(
                _("{name} as B", name=_(preset.name)),
                key=f"take-{i}",
                help=_short(str(preset.mask)),
                on_click=set_mask,
                args=("B", str(preset.mask)),
            )
    if not presets:
        st.info(_("No pattern has so few pairs. Choose a larger share."))
    st.caption(_(LEFT_OUT, long=grouped(LONG)))
    if any(preset.name == "StreamingLLM" for preset in presets):
        st.caption(_(STREAMING_LLM))


def _row(name: str, mask: str, cost: SparseCost, kept: float, own: SparseCost, pair: MaskPair) -> list[object]:
    sizes = [-(-pair.inputs.queries // block) * -(-pair.inputs.keys // block) for block in BLOCKS]
    return [
        name,
        percent(kept) if np.isfinite(kept) else "–",
        f"{cost.pairs:,} ({percent(cost.pairs / own.pairs) if own.pairs else '–'})",
        *(f"{count:,} ({percent(count / size)})" for count, size in zip(cost.blocks, sizes, strict=True)),
        html.element("code", _short(mask), title=mask[:1000]),
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
    return cache.once(
        partial(SparseCost.counted, mechanism.mask, *sizes, pair.head),
        *("sparse cost", mechanism.mask, sizes, pair.head),
        work=min(sizes[0] * sizes[1], MOST_WORK),
    )


def _presets(pair: MaskPair, dense: DenseHead, budget: float) -> list[SparsePreset]:
    """Returns the patterns; of long inputs those that a job has computed so far."""
    sample = None if len(dense.queries) == pair.inputs.queries else len(dense.queries)
    return cache.once_or_so_far(
        partial(sparse_presets, dense, budget),
        *("sparse presets", *_head_key(pair.selection, dense.mechanism, sample), budget),
        work=12 * _work(pair.selection.layer, dense.mechanism, sample),
        describe=lambda presets: _("{count} patterns so far.", count=len(presets)),
    )
