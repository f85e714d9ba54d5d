"""Maps of long texts: the rows of a head downsampled, where the settings say, and refined row after row."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from attnviz.analysis.downsampling import Downsampled, OnProgress, downsample
from attnviz.analysis.head_maps import HeadChoice
from attnviz.analysis.ray_engine import ray_or_local
from attnviz.base.settings import ray_address
from attnviz.inputs import MapAxes
from attnviz.layer import FixedWeights
from attnviz.mechanism import Mechanism

LONG_WORK = 200_000_000  # steps: more take longer than a person waits without a picture
FIRST_SAMPLE = 1  # queries of each row of cells in the first picture

_unreached = ""  # why the engine that ATTNVIZ_RAY names was not taken


def downsample_head(
    inputs: MapAxes,
    mechanism: Mechanism | FixedWeights,
    head: HeadChoice,
    *,
    progress: OnProgress | None = None,
    sample: int | None = None,
    **options: Any,
) -> Downsampled:
    """Returns the map of a head. A whole one that reports its progress is computed where ATTNVIZ_RAY says."""
    engine, address = None, ray_address()
    if progress and address:
        global _unreached
        engine, _unreached = ray_or_local(address)
    return downsample(inputs, mechanism, head, engine=engine, progress=progress, sample=sample, **options)


def unreached_engine() -> str:
    """Returns why the engine that the settings name was not taken; empty if it was."""
    return _unreached


def refine(compute: Callable[..., Downsampled], progress: Callable[[float, Downsampled], None]) -> Downsampled:
    """Returns the whole map. `progress` gets that of a sample first, which is replaced row by row of its cells."""
    coarse = compute(sample=FIRST_SAMPLE)
    progress(0, coarse)
    return compute(progress=lambda share, partly: progress(share, _with_rows(coarse, partly)))


def _with_rows(coarse: Downsampled, partly: Downsampled) -> Downsampled:
    """Returns the coarse map with the rows of cells in which the other one has queries."""
    begun = partly.mass.isfinite().any(1, keepdim=True)
    numbers = {
        name: torch.where(begun, getattr(partly, name), getattr(coarse, name))
        for name in ("mass", "maximum", "query", "key", "allowed")
    }
    return replace(partly, **numbers, queries_done=max(partly.queries_done, coarse.queries_done))
