"""What Heads shows: a number of each head, on a text, on repeated random tokens, on many texts, or of a fact hidden in
a long text."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from attnviz.analysis.head_detectors import MEASURES, Detector, HeadDetection, detect_heads
from attnviz.analysis.head_metrics import HeadMetricTable, head_metrics
from attnviz.analysis.strongest_heads import SEEDS
from attnviz.analysis.work import MOST_MAP_WORK, heads_work
from attnviz.base.formatting import grouped
from attnviz.base.language import _, plural, value_error
from attnviz.effects.head_circuits import HeadCircuits
from attnviz.page.blocks import (
    Block,
    Caption,
    Computed,
    Heading,
    Summary,
    Tabs,
    available,
)
from attnviz.page.head_numbers import HeadNumbers
from attnviz.page.model_circuits import circuits_of_model
from attnviz.page.result_cache import ResultCache
from attnviz.pages.heads.hidden_fact import hidden_fact
from attnviz.pages.heads.many_texts import heads_over_texts
from attnviz.pages.heads.measured_heads import (
    head_numbers,
    kinds_of_heads,
    largest_share,
    map_of_text,
    measure_controls,
    measured_heads,
    over_queries,
)
from attnviz.pages.heads.state import HIDDEN_FACT, MANY_TEXTS, REPEATED, THIS_TEXT, HeadsState

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

_detections: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


def heads(state: HeadsState) -> Iterator[Block]:
    """Yields the open tab. Raises ValueError if the model reads no text."""
    parts: dict[str, Callable[[HeadsState], Iterable[Block]]] = {
        THIS_TEXT: _this_text,
        REPEATED: _repeated,
        MANY_TEXTS: heads_over_texts,
        HIDDEN_FACT: hidden_fact,
    }
    yield Tabs(HeadsState.inspect, state, available(parts[state.inspect](state)))


def _this_text(state: HeadsState) -> Iterator[Block]:
    layers, excluded = state.layers, state.leave_out
    if heads_work(layers) > MOST_MAP_WORK:
        tokens = grouped(layers[0].inputs.keys)
        raise value_error(
            "To measure all heads on {tokens} tokens takes too long here. Shorten the text.", tokens=tokens
        )
    compute = partial(head_metrics, layers, excluded_queries=excluded, excluded_keys=excluded)
    heads_count = sum(layer.inputs.heads for layer in layers)

    def describe(table: HeadMetricTable) -> str:
        return _("{done} of {heads} heads so far.", done=grouped(len(table.heads)), heads=grouped(heads_count))

    yield measure_controls(state)
    yield Computed(
        "metrics",
        compute,
        lambda: ("head metrics", state.source, excluded),
        describe,
        partial(_of_table, state),
        work=heads_work(layers),
    )
    yield Caption(
        _(
            "**What you are seeing.** Each number is a mean over the queries of this text; a share is one of all "
            "attention of the head. **What it does not say:** what a head does in another text. A text has few "
            "repetitions, or none: the tab “Repeated tokens” has nothing else."
        )
    )


def _of_table(state: HeadsState, table: HeadMetricTable) -> Iterator[Block]:
    if len(table.heads) < sum(layer.inputs.heads for layer in state.layers):
        yield Summary(_("Measured are the heads of the first {count} layers.", count=len({*table.layers})), None)
        return
    measured = {
        one: head_numbers(state, one, state.grid(table.layers, table.heads, table.values[one.metric.name]))
        for one in HeadsState.measure.options(state).values()
        if one.metric is not None
    }
    rests = {one: int(table.positions[one.metric.name].max()) for one in measured if one.metric is not None}
    yield from _of_text(state, measured, over_queries(rests[state.measure]))


def _repeated(state: HeadsState) -> Iterator[Block]:
    model, work = state.source.model(), state.source.forward_work
    detection = detection_of_model(model, lambda: circuits_of_model(model, state.run, "embedding", work), work)
    if [*detection.layers] != [*state.ids]:
        raise value_error("The layers of {name} are different on random tokens.", name=model.name)
    measured = {
        one: head_numbers(state, one, detection.mean(one), detection.shares[one])
        for one in HeadsState.measure.options(state).values()
    }
    queries = detection.positions[state.measure]
    rests = detection.missing if not queries else plural(
        "Over {count} query of {texts} texts of repeated random tokens.",
        "Over {count} queries of {texts} texts of repeated random tokens.",
        queries, count=grouped(queries), texts=len(SEEDS),
    )  # fmt: skip
    yield measure_controls(state)
    yield from _of_text(state, measured, f"{rests} {_('The map is of your text.')}")
    yield Caption(
        _(
            "**What you are seeing.** A text of random tokens, twice in the same order: nothing but order and "
            "repetition can be attended to. Each number is a mean over texts of several seeds; a share is one of all "
            "attention of the head. **What it does not say:** what a head does in another text. Copying is by what "
            "values write to the logits directly."
        )
    )


def _of_text(state: HeadsState, measured: dict[Detector, HeadNumbers], rests: str) -> Iterator[Block]:
    """Yields numbers of heads, with the map of the chosen one on the text."""
    largest = partial(largest_share, state.measure)
    yield from measured_heads(state, measured, rests, largest, partial(map_of_text, state))
    yield Heading(_("Heads that do mainly one thing"))
    yield kinds_of_heads(state, measured)


def detection_of_model(model: "LoadedModel", make_circuits: Callable[[], HeadCircuits], work: int = 0) -> HeadDetection:
    """Returns what is measured of the heads of a model on repeated random tokens, which is computed once; `work` is the
    number of steps of a forward pass. Raises ValueError if the model cannot read random tokens."""
    results = _detections.setdefault(model, ResultCache(1))
    compute = partial(detect_heads, model, make_circuits, detectors=MEASURES)
    return results.once(compute, "detection", work=len(SEEDS) * work)
