"""What the heads of a model do on repeated random tokens, by the names that the field has for it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from attnviz.analysis.head_detectors import DETECTORS, Detector, HeadDetection, detect_heads
from attnviz.analysis.strongest_heads import SEEDS
from attnviz.effects.ablation import Head
from attnviz.figures import Chart, head_grid
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.formatting import grouped, number
from attnviz.language import _, option_name, plural, value_error
from attnviz.layer import head_name
from attnviz.models.text_attribution import TextAttribution
from attnviz.result_cache import ResultCache
from attnviz.state.effects import EffectsState
from attnviz.views.head_circuits import circuits_of_model

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

LISTED = 10  # heads
LEAST = 0.3  # of a head's attention, in the list

_detections: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


class DetectedRow(NamedTuple):
    """A head in the list: its share, and the least and the largest of the seeds."""

    head: Head
    name: str
    share: str
    ends: str


@dataclass(frozen=True, eq=False)
class DetectionView:
    """The shares of all heads by one detector."""

    run: TextAttribution  # a pass of the model, which has names of layers
    detection: HeadDetection
    detector: Detector

    def name(self, head: Head) -> str:
        """Returns the name of a head."""
        return head_name(self.run.layers[head[0]], head[1])

    @property
    def sentence(self) -> str:
        """What is measured, and on how much it rests."""
        queries = self.detection.positions[self.detector]
        if not queries:
            return self.detection.missing
        rests = plural(
            "Over {count} query of {texts} texts of repeated random tokens.",
            "Over {count} queries of {texts} texts of repeated random tokens.",
            queries, count=grouped(queries), texts=len(SEEDS),
        )  # fmt: skip
        return f"{_(self.detector.about)} {rests}"

    @property
    def shares(self) -> Float[np.ndarray, "layers heads"]:
        """The share of each head."""
        return self.detection.mean(self.detector)

    @property
    def rows(self) -> list[DetectedRow]:
        """The heads with the largest shares, the largest first."""
        return [
            DetectedRow((one.layer, one.head), self.name((one.layer, one.head)), number(one.share),
                        f"{number(one.least)} – {number(one.largest)}")
            for one in self.detection.strongest([self.detector], LEAST)[:LISTED]
        ]  # fmt: skip

    def chart(self, chosen: Head | None) -> Chart[MosaicSpec]:
        """Returns the shares of all heads as colors, in which the chosen head has a frame."""
        sentences = [
            "" if np.isnan(share) else f"{self.name(place)}: {number(share)}"
            for place, share in np.ndenumerate(self.shares)
        ]
        return head_grid(
            self.shares, sentences, largest=1.0, chosen=[] if chosen is None else [chosen],
            layer_names=[*map(option_name, self.run.layer_numbers)],
        ).with_about(label=_(self.detector.name), hint=_("Click a head to see all that it does."))  # fmt: skip

    def of_head(self, head: Head) -> list[tuple[str, str]]:
        """Returns all that a head does, by the names of the detectors, the largest share first."""
        shares = {detector: self.detection.mean(detector)[head] for detector in DETECTORS}
        known = {detector: share for detector, share in shares.items() if np.isfinite(share)}
        return [(_(one.name), number(share)) for one, share in sorted(known.items(), key=lambda item: -item[1])]


def detection_view(state: EffectsState) -> DetectionView:
    """Returns the shares of the chosen detector. Raises ValueError if the model cannot read random tokens."""
    detection = detection_of_model(state.source.model(), state.run, state.source.forward_work)
    return DetectionView(state.run, detection, state.detector)


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
