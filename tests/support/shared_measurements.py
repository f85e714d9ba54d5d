"""What tests of pages measure of large models: once, on disk for all workers, or of no more heads than a lesson names.

The tests of `attnviz.effects` and `attnviz.analysis` measure it anew.
"""

import hashlib
import pickle
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from torch import Tensor, nn

from attnviz.analysis.head_detectors import HeadDetection
from attnviz.effects import ablations, mlp_ablations, parts
from attnviz.effects.parts import Site
from attnviz.effects.sweep import Text
from attnviz.lessons.lesson_files import Lesson
from attnviz.models.model import LoadedModel
from attnviz.models.texts import Texts
from attnviz.page import result_cache
from attnviz.pages.effects import head_effects, patching
from attnviz.pages.heads import blocks as heads_blocks
from tests.support.language_model import HEADS

LARGE = 50_000_000  # parameters
NAMED = re.compile(r"(?:effect of|recovered by) (\d+)\.(\d+)")  # a layer and a head
Measure = Callable[..., Any]


def is_large(model: nn.Module) -> bool:
    return sum(each.numel() for each in model.parameters()) >= LARGE


class SharedMeasurements:
    """Results of large models in a folder, by what they were asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def share(self, patch: pytest.MonkeyPatch) -> None:
        """Lets pages measure once: effects of heads, what heads write in other texts, and what kinds of heads are."""
        for name in ("ablations", "mlp_ablations"):
            patch.setattr(head_effects, name, self._effects(getattr(head_effects, name)))
        patch.setattr(parts, "read_values", self._values(parts.read_values))
        patch.setattr(heads_blocks, "detect_heads", self._detection(heads_blocks.detect_heads))

    def _once(self, model: nn.Module, compute: Callable[[], Any], *request: object) -> Any:
        if not is_large(model):
            return compute()
        name = repr((type(model), str(model.config), *map(read, request)))
        assert " object at 0x" not in name, f"A request is said by values, not by where they are: {name}"
        file = self.folder / hashlib.sha256(name.encode()).hexdigest()
        with FileLock(f"{file}.lock"):
            if not file.exists():
                new = file.with_suffix(".new")
                new.write_bytes(pickle.dumps(compute()))
                new.rename(file)
        return pickle.loads(file.read_bytes())

    def _effects(self, measure: Measure) -> Measure:
        def measured(model: nn.Module, batch: Any, metric: Any, *, on_progress: Any = None, **options: Any) -> Tensor:
            compute = lambda: measure(model, batch, metric, on_progress=on_progress, **options)  # noqa: E731
            result = self._once(model, compute, measure.__name__, batch, metric, options)
            if on_progress:
                on_progress(1.0, result)
            return result

        return measured

    def _values(self, values_of: Measure) -> Measure:
        def values(text: Text, sites: Collection[Site]) -> dict[Site, Tensor]:
            request = text.arguments.args, text.arguments.kwargs, [*sites]
            return self._once(text.model, lambda: values_of(text, sites), "values", *request)

        return values

    def _detection(self, detect: Measure) -> Measure:
        def detected(model: LoadedModel, *args: Any, **options: Any) -> HeadDetection:
            return self._once(model.model, lambda: detect(model, *args, **options), "detection", options)

        return detected


def read(value: Any) -> Any:
    """Returns a value with the numbers of its tensors, all of which its `repr` has."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {name: read(each) for name, each in value.items()}
    return [read(each) for each in value] if isinstance(value, list | tuple | Texts) else value


@contextmanager
def named_heads(lessons: Iterable[Lesson]) -> Iterator[None]:
    """Lets Effects measure no more of large models than the heads that lessons name in what they hold: the effect of
    one does not depend on whether others are measured. No other test gets these results."""
    holds = [one.quantity for lesson in lessons for step in lesson.steps for one in step.holds]
    named = {(int(layer), int(head)) for one in holds for layer, head in NAMED.findall(one)}
    heads = sorted(head for head in named if head[1] < HEADS)  # the others are positions

    def of_named(measure: Measure) -> Measure:
        def measured(model: nn.Module, *args: Any, **options: Any) -> Any:
            return measure(model, *args, **({"heads": heads} | options if is_large(model) else options))

        return measured

    def of_no_mlp(model: nn.Module, *args: Any, **options: Any) -> Tensor:
        if is_large(model):
            return torch.full((model.config.num_hidden_layers,), torch.nan)
        return mlp_ablations(model, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_effects, "ablations", of_named(ablations))
        patch.setattr(head_effects, "mlp_ablations", of_no_mlp)
        patch.setattr(patching, "patch", of_named(patching.patch))
        patch.setattr(result_cache, "_caches", [result_cache.ResultCache()])
        yield
