"""How few heads are enough for a measure over many texts, and what is left without them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnviz.base.formatting import fixed, grouped, percent
from attnviz.base.language import _, value_error
from attnviz.effects.circuits import CircuitCurves, circuit_curves
from attnviz.effects.metrics import KL, Cosine
from attnviz.figures.share_lines import share_lines
from attnviz.lessons.checks import Quantities
from attnviz.models.texts import PerText, Texts
from attnviz.page.blocks import Anchor, Block, Caption, Computed, Figure, Heading, Note, Paragraph, Summary, Table
from attnviz.page.page_view import Panel
from attnviz.pages.effects.head_effects import effects_key
from attnviz.pages.effects.state import EffectsState

RANDOM_SETS = 2
HEIGHT = 320  # pixels
ENOUGH = 0.8  # of a measure
NAMED = 8  # heads of a circuit in a sentence


@dataclass(frozen=True, eq=False)
class MeasuredSets:
    """How many of the texts have been measured, and the curves once all have."""

    done: int
    count: int
    curves: CircuitCurves | None = None


def text_circuits(state: EffectsState) -> Iterator[Block]:
    """Yields how much of the measure the first heads of an order have alone, and how much is left without them, on the
    half of the texts that the order was not found on. Raises ValueError if that cannot be measured."""
    if isinstance(state.metric, KL | Cosine) or state.ablation == "zero":
        raise value_error(
            "Circuits are found by estimates of effects on a logit, a probability or a loss, where heads write their "
            "means. Choose another measure, or what a head writes instead."
        )
    if len(state.measured_texts) < 2:
        raise value_error("A circuit is found on some texts and measured on others. Give at least two.")
    yield Heading(_("How few heads are enough?"))
    yield Computed(
        "circuit",
        partial(_measured, state),
        partial(_key, state),
        _so_far,
        partial(_of_sets, state),
        subject=state.model,
    )


def _key(state: EffectsState) -> tuple[object, ...]:
    return "circuit", *effects_key(state)[1:]


def _so_far(sets: MeasuredSets) -> str:
    return _("{done} of {count} texts have been measured.", done=sets.done, count=sets.count)


def _measured(state: EffectsState, progress: Callable[[float, MeasuredSets], None] | None = None) -> MeasuredSets:
    def report(done: int, count: int) -> None:
        if progress is not None:
            progress((1 + done) / (1 + count), MeasuredSets(done, count))  # the first part is the order

    if progress is not None:
        progress(0, MeasuredSets(0, len(state.measured_texts)))
    batches, metrics = zip(*state.measured_runs, strict=True)
    curves = circuit_curves(
        state.run.linearized.model,
        Texts(None, batches),
        PerText(metrics),
        neutral=state.other_runs,
        how=state.ablation,
        random_sets=RANDOM_SETS,
        mlps=False,
        on_progress=report,
    )
    return MeasuredSets(len(curves.whole), len(curves.whole), curves)


def _of_sets(state: EffectsState, sets: MeasuredSets) -> Iterator[Block]:
    if sets.curves is not None:
        yield from _of_curves(state, sets.curves)


def _of_curves(state: EffectsState, curves: CircuitCurves) -> Iterator[Block]:
    sizes = [*map(grouped, curves.sizes)]
    series = {
        _("these heads alone"): curves.faithfulness.tolist(),
        _("all but these"): curves.completeness.tolist(),
        _("random heads alone"): curves.random_faithfulness.mean(0).tolist(),
        _("all but random ones"): curves.random_completeness.mean(0).tolist(),
    }
    yield Summary(_sentence(curves), partial(_quantities, curves))
    panel = Panel(_("How few heads are enough?"), np.array([*series.values()]), [*series], sizes, is_signed=True)
    yield Figure(share_lines(sizes, series, _("number of heads")), "effects-circuit", HEIGHT, panels=[panel])
    order_texts, measured = len(state.measured_texts) - len(curves.whole), len(curves.whole)
    yield Note(
        _(
            "The order of the heads is by their mean estimate on the first half of the texts, {found}; measured "
            "are the other {measured}. MLPs are kept. Beside it are {sets} sets of random heads.",
            found=order_texts,
            measured=measured,
            sets=RANDOM_SETS,
        )
    )
    if bool(curves.is_above_whole.any()):
        size = curves.sizes[int(curves.is_above_whole.long().argmax())]
        yield Note(
            _(
                "With {size} heads alone the measure is larger than that of the whole model: this set is not what the "
                "model does.",
                size=size,
            )
        )
    rows = [(size, *(_percent(line[i]) for line in series.values())) for i, size in enumerate(sizes)]
    yield Table((_("heads"), *series), rows)
    anchors: list[object] = [_("The first heads of the order:"), " "]
    for part in curves.order[:NAMED]:
        anchors += [Anchor(f"{part.layer}.{part.index}", state.link_with(head=(part.layer, part.index))), " "]
    yield Paragraph(tuple(anchors))
    yield Caption(
        _(
            "**What you are seeing.** 100% is the measure of the whole model, 0% that in which all heads write their "
            "mean over other texts. *Faithful* are few heads that have nearly 100% alone, *complete* those without "
            "which nearly 0% is left. **What it does not say:** that these heads alone do it. What MLPs do is kept."
        )
    )


def _sentence(curves: CircuitCurves) -> str:
    """Returns the first size that has most of the measure alone, and what is left without these heads; or that random
    heads have as much."""
    for place, size in enumerate(curves.sizes):
        alone, left = float(curves.faithfulness[place]), float(curves.completeness[place])
        at_random = float(curves.random_faithfulness.mean(0)[place])
        if alone >= ENOUGH and at_random >= alone:
            return _(
                "Nothing was found: with the first {size} of {count} heads alone, {alone} of the measure is there, but "
                "with as many random heads {random}.",
                size=grouped(size),
                count=grouped(len(curves.order)),
                alone=_percent(alone),
                random=_percent(at_random),
            )
        if alone >= ENOUGH:
            return _(
                "With {size} of {count} heads alone, {alone} of the measure is there; without them, {left} is left.",
                size=grouped(size),
                count=grouped(len(curves.order)),
                alone=_percent(alone),
                left=_percent(left),
            )
    return _("No set of these sizes has {least} of the measure alone.", least=percent(ENOUGH))


def _quantities(curves: CircuitCurves) -> Quantities:
    curve = {"faithfulness": curves.faithfulness.tolist(), "completeness": curves.completeness.tolist()}
    return {
        f"{name} of {size}": share
        for name, shares in curve.items()
        for size, share in zip(curves.sizes, shares, strict=True)
    }


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 0)}%" if np.isfinite(share) else "–"
