"""What each head keeps of its attention under A when B is laid over it, and patterns at equal cost to take as B."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

import numpy as np
import streamlit as st
from jaxtyping import Float

from attnviz.analysis.mass_kept import DenseHead, MassKept, dense_head, mass_kept_by_head
from attnviz.analysis.sparse_presets import BLOCKS, LONG, SparseCost, SparsePreset, sparse_presets
from attnviz.analysis.work import MOST_MAP_WORK, MOST_WORK
from attnviz.figures.head_grid import MOST, head_grid
from attnviz.formatting import grouped, number, percent, visible
from attnviz.language import N_, _
from attnviz.layer import Layer
from attnviz.masks import Mask, MaskError, parse
from attnviz.mechanism import Mechanism
from attnviz.ui import cache, html, jobs
from attnviz.ui.addresses import address
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.ui.jobs import OnResult
from attnviz.ui.long_maps import LONG_WORK
from attnviz.ui.markdown import plain
from attnviz.ui.masks.comparison import MaskPair
from attnviz.ui.masks.mask_editor import set_mask
from attnviz.ui.mechanism_sentences import STREAMING_LLM
from attnviz.ui.selection import Selection, similar_layers

MOST_QUERIES = 512  # of each head; of more, so many that are evenly spread
LISTED = 8  # queries that lose most
LONGEST_LINK = 4000  # characters of a mask
TEXT = 48  # characters of a mask in the table
BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the pairs that A allows
CAPTION = N_(
    "**What you are seeing.** The weights under A are taken as they are, and those on keys that B "
    "hides are crossed out: mass kept is what is left, as a share, on average over the queries. A "
    "kernel computes only blocks that hold an allowed pair."
)

LEFT_OUT = N_(
    "A pattern is left out where even its smallest size has more pairs. Vertical-slash and blocks "
    "are chosen from the weights under A; of more than {long} tokens only where A is causal."
)


@dataclass(frozen=True, eq=False)
class LayerGroup:
    """The layers whose heads are shown, each with its mechanism under A."""

    indices: Sequence[int]
    layers: Sequence[Layer]
    mechanisms: Sequence[Mechanism]


def show(pair: MaskPair) -> None:
    """Draws the mass that heads keep, the queries that lose most, the cost of A and B, and patterns at equal cost."""
    selection, (before, after) = pair.selection, pair.mechanisms
    sample = MOST_QUERIES if pair.inputs.queries > 2 * MOST_QUERIES else None
    notes = st.container()
    left, right = st.columns([0.5, 0.5], gap="medium")
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
    own = selection.layer.mechanism.mask
    if before.mask != own and _is_in_language(own):
        with notes:
            st.button(
                _("Take this layer’s own mask as A: {short}").format(short=_short(str(own))),
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
    query = urlencode({"inspect": "What if", "if-own": "true", "if-sparse": mask})
    link = html.element(
        "a",
        _("What does a model say then?"),
        class_="attnviz-link",
        href=f"{address('/models')}?{query}",
        target="_blank",
    )
    st.html(html.element("p", link, _(" Models runs one with B laid over its masks: next token, KL, maps.")))


# One head


def _head_key(selection: Selection, before: Mechanism, sample: int | None) -> tuple[object, ...]:
    return selection.source, selection.index, selection.head, before, sample


def _dense(selection: Selection, before: Mechanism, sample: int | None) -> DenseHead:
    inputs, head = selection.layer.inputs, selection.head
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
        return _("{name}: under A no query may look at anything, so there is nothing to keep.").format(name=name)
    many = len(kept.queries) < selection.layer.inputs.queries
    queries = _("{count} of its {queries} queries, evenly spread").format(
        count=grouped(len(kept.queries)), queries=grouped(selection.layer.inputs.queries)
    )
    return _("{name} keeps {share} of its attention under B, on average over {queries}.").format(
        name=name, share=percent(kept.mean), queries=queries if many else _("its queries")
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
    group = _layer_group(selection, pair[0], sample)
    with st.container():  # the progress comes and goes here, and the chart stays where it is
        kept = _heads_kept(selection, group, pair[1], sample)
    layers, heads = kept.shape
    names = [
        ""
        if head >= layer.inputs.heads
        else _("{name}, head {head} {share}").format(name=layer.name, head=head, share=_share(kept[i, head]))
        for head in range(heads)
        for i, layer in enumerate(group.layers)
    ]
    is_shown = selection.index in group.indices and isinstance(selection.head, int)
    chosen = [selection.head * layers + group.indices.index(selection.index)] if is_shown else []
    picture = head_grid(kept.T, names, largest=1.0, chosen=chosen)
    labels = [str(html.Markup.escape(layer.name)) for layer in group.layers]
    picture.figure.update_xaxes(tickvals=list(range(layers)), ticktext=labels, title=None)
    if layers <= MOST:
        picture.figure.update_traces(texttemplate="%{z:.2f}", textfont={"size": 11})

    def open_at(row: int, column: int) -> None:
        place = picture.spec.head_at(row, column)
        if place is not None and names[place]:
            head, layer = divmod(place, layers)
            open_head(selection.layers, group.indices[layer], head)

    chart(
        picture,
        "kept",
        label=_("Mass kept by each head"),
        name=_("mass kept"),
        description=". ".join(filter(None, names)),
        height=150 + 30 * min(heads, 12),
        grows=False,
        hint=_("1: nothing is lost. Click a head to open it."),
        on_click=open_at,
    )


def _share(kept: float) -> str:
    return (
        _("is still to come") if np.isnan(kept) else _("keeps {kept} of its attention").format(kept=number(float(kept)))
    )


def _layer_group(selection: Selection, before: Mechanism, sample: int | None) -> LayerGroup:
    """Returns the layers like the selected one, or this one alone if all take too much work."""
    indices = [i for i in similar_layers(selection.layers, selection.index) if not selection.layers[i].locked]
    layers = [selection.layers[i] for i in indices]
    if sum(2 * layer.inputs.heads * _work(layer, before, sample) for layer in layers) > MOST_MAP_WORK:
        indices, layers = [selection.index], [selection.layer]
    changed = (layer.mechanism.updated(selection.layer.mechanism, before) for layer in layers)
    mechanisms = [replace(mechanism, mask=before.mask) for mechanism in changed]
    return LayerGroup(indices, layers, mechanisms)


def _heads_kept(
    selection: Selection, group: LayerGroup, after: Mechanism, sample: int | None
) -> Float[np.ndarray, "layers heads"]:
    """Returns the mean mass that each head keeps; NaN where a job has not come yet."""

    def compute(on_result: OnResult | None = None) -> Float[np.ndarray, "layers heads"]:
        progress = (lambda share, means: on_result(share, means.numpy())) if on_result else None
        means = mass_kept_by_head(group.layers, group.mechanisms, after.mask, sample=sample, progress=progress)
        return means.numpy()

    steps = (
        2 * layer.inputs.heads * _work(layer, mechanism, sample)
        for layer, mechanism in zip(group.layers, group.mechanisms, strict=True)
    )
    work, key = (
        sum(steps),
        ("heads' mass kept", selection.source, group.indices, group.mechanisms, after.mask, sample),
    )
    if work <= LONG_WORK:
        return cache.once(compute, *key, work=work)
    job = jobs.request(compute, *key)
    kept = job.first()
    jobs.show_progress(job, _("{sum} of {size} heads so far.").format(sum=int(np.isfinite(kept).sum()), size=kept.size))
    return kept


# Patterns at equal cost


def _show_presets(pair: MaskPair, dense: DenseHead, kept: MassKept) -> None:
    """Draws the cost of A and B, and the patterns that a budget pays for, with a button that takes one as B."""
    before, after = pair.mechanisms
    st.markdown(_("**At equal cost: patterns by the mass that this head keeps**"))
    budget = st.segmented_control(
        _("Pairs computed, of those that A allows"), BUDGETS, default=0.2, required=True, key="budget",
        bind="query-params", format_func=lambda share: percent(share),
    )  # fmt: skip
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
        *(_("blocks of {block}").format(block=block) for block in BLOCKS),
        _("mask"),
    ]
    st.html(html.table(headings, (_row(*row, own, pair) for row in rows), marked=1))
    with st.container(horizontal=True, vertical_alignment="center"):
        for i, preset in enumerate(presets):
            st.button(
                _("{name} as B").format(name=_(preset.name)),
                key=f"take-{i}",
                help=_short(str(preset.mask)),
                on_click=set_mask,
                args=("B", str(preset.mask)),
            )
    if not presets:
        st.info(_("No pattern has so few pairs. Choose a larger share."))
    st.caption(_(LEFT_OUT).format(long=grouped(LONG)))
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
    key = "sparse presets", *_head_key(pair.selection, dense.mechanism, sample), budget
    work = 12 * _work(pair.selection.layer, dense.mechanism, sample)
    if work <= LONG_WORK:
        return cache.once(partial(sparse_presets, dense, budget), *key, work=work)

    def compute(on_result: OnResult) -> list[SparsePreset]:
        on_result(0.0, [])
        return sparse_presets(dense, budget, on_result)

    job = jobs.request(compute, *key)
    presets = job.first()
    jobs.show_progress(job, _("{count} patterns so far.").format(count=len(presets)))
    return presets
