"""Kinds of heads: what heads do on random repeated tokens, by the names that the field has for it."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from attnviz.analysis.head_detectors import DETECTORS, HeadDetection, detect_heads
from attnviz.analysis.strongest_heads import SEEDS
from attnviz.effects.ablation import Head
from attnviz.formatting import grouped, number
from attnviz.language import _, plural, value_error
from attnviz.models.text_attribution import TextAttribution
from attnviz.page.blocks import Block, Caption, Columns, Control, Note, Row, Summary, Table
from attnviz.page.head_numbers import HeadNumbers
from attnviz.result_cache import ResultCache
from attnviz.state.effects import EffectsState
from attnviz.views.head_circuits import circuits_of_model

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

LISTED = 10  # heads
LEAST = 0.3  # of a head's attention, in the list

_detections: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


def kinds_of_heads(state: EffectsState) -> Iterator[Block]:
    """Yields the shares of all heads by a detector, the largest of them, and all that the chosen head does. Raises
    ValueError if the model cannot read random tokens."""
    detection = detection_of_model(state.source.model(), state.run, state.source.forward_work)
    shares = shares_of_heads(state, detection)
    yield Row([Control(EffectsState.detector), Control(EffectsState.head)], "effects-kinds-fields")
    yield Summary(detection_sentence(state, detection), partial(shares.quantities, "share of"))
    yield shares.grid("effects-kinds", EffectsState.head, state, _("Click a head to see all that it does."))
    strongest = shares.strongest(LISTED, LEAST)
    table = shares.table(_("share"), EffectsState.head, state, strongest)
    none = Note(_("No head has a share of {least} or more.", least=number(LEAST)))
    if state.head is None:
        of_head: Block = Note(_("Click a head to see all that it does."))
    else:
        of_head = Table((shares.name(state.head), _("share")), all_shares(detection, state.head))
    yield Columns([(0.5, [table if strongest else none]), (0.5, [of_head])])
    yield Caption(
        _(
            "**What you are seeing.** A text of random tokens, twice in the same order: nothing but order and "
            "repetition can be attended to. Each number is a share of all attention of the head, as mean of texts of "
            "several seeds. **What it does not say:** what a head does in another text. Copying is by what values "
            "write to the logits directly."
        )
    )


def shares_of_heads(state: EffectsState, detection: HeadDetection) -> HeadNumbers:
    """Returns the shares of the chosen detector."""
    seeds = detection.shares[state.detector]
    return HeadNumbers(_(state.detector.name), state.run, seeds.mean(0), (seeds.min(0), seeds.max(0)), largest=1.0)


def detection_sentence(state: EffectsState, detection: HeadDetection) -> str:
    """Returns what is measured, and on how much it rests."""
    queries = detection.positions[state.detector]
    if not queries:
        return detection.missing
    rests = plural(
        "Over {count} query of {texts} texts of repeated random tokens.",
        "Over {count} queries of {texts} texts of repeated random tokens.",
        queries, count=grouped(queries), texts=len(SEEDS),
    )  # fmt: skip
    return f"{_(state.detector.about)} {rests}"


def all_shares(detection: HeadDetection, head: Head) -> list[tuple[str, str]]:
    """Returns all that a head does, by the names of the detectors, the largest share first."""
    shares = {detector: detection.mean(detector)[head] for detector in DETECTORS}
    known = {detector: share for detector, share in shares.items() if np.isfinite(share)}
    return [(_(one.name), number(share)) for one, share in sorted(known.items(), key=lambda item: -item[1])]


def detection_of_model(model: "LoadedModel", run: TextAttribution, work: int = 0) -> HeadDetection:
    """Returns what detectors give of the heads of a model, which is computed once; `work` is the number of steps of a
    forward pass. Raises ValueError if the model cannot read random tokens."""

    def compute() -> HeadDetection:
        detection = detect_heads(model, lambda: circuits_of_model(model, run, "embedding", work))
        if len(detection.layers) != len(run.layers):
            raise value_error("The layers of {name} are different on random tokens.", name=model.name)
        return detection

    results = _detections.setdefault(model, ResultCache(1))
    return results.once(compute, "detection", work=len(SEEDS) * work)
