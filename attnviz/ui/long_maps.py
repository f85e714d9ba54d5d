"""Long maps as jobs: first the picture of some queries, then row after row of all."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st
import torch

from attnviz.analysis.downsampling import Downsampled, OnProgress, downsample
from attnviz.analysis.head_maps import HeadChoice
from attnviz.analysis.ray_engine import ray_or_local
from attnviz.formatting import grouped
from attnviz.inputs import Inputs
from attnviz.language import _
from attnviz.mechanism import Mechanism
from attnviz.settings import ray_address
from attnviz.ui import cache, jobs
from attnviz.ui.jobs import OnResult
from attnviz.ui.markdown import plain

LONG_WORK = 200_000_000  # steps: more take longer than a person waits without a picture
FIRST_SAMPLE = 1  # queries of each row of cells in the first picture


_unreached = ""  # why the engine that ATTNVIZ_RAY names was not taken


def downsample_head(
    inputs: Inputs,
    mechanism: Mechanism,
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


def cached_map(compute: Callable[..., Downsampled], *key: object, work: int) -> Downsampled:
    """Returns the map that `compute` computes with its arguments `sample` and `progress`, cached under these keys.

    One of more than LONG_WORK steps is computed as a job, of which this returns what there is, and draws the progress.
    """
    if work <= LONG_WORK:
        return cache.once(compute, *key, work=work)
    job = jobs.request(partial(refine, compute), *key)
    downsampled = job.first()
    done, queries = downsampled.queries_done, len(downsampled.queries)
    jobs.show_progress(
        job,
        _("This picture has {done} of {queries} queries so far.").format(done=grouped(done), queries=grouped(queries)),
    )
    if _unreached and not job.is_over:
        st.caption(plain(_unreached))
    return downsampled


def finished_map(*key: object) -> Downsampled | None:
    """Returns the map with these keys if a job has computed the whole of it."""
    return jobs.finished(*key)


def refine(compute: Callable[..., Downsampled], on_result: OnResult) -> Downsampled:
    """Returns the whole map. `on_result` gets that of a sample first, which is replaced row by row of its cells."""
    coarse = compute(sample=FIRST_SAMPLE)
    on_result(0, coarse)
    return compute(progress=lambda share, partly: on_result(share, _with_rows(coarse, partly)))


def _with_rows(coarse: Downsampled, partly: Downsampled) -> Downsampled:
    """Returns the coarse map with the rows of cells in which the other one has queries."""
    begun = partly.mass.isfinite().any(1, keepdim=True)
    numbers = {
        name: torch.where(begun, getattr(partly, name), getattr(coarse, name))
        for name in ("mass", "maximum", "query", "key", "allowed")
    }
    return replace(partly, **numbers, queries_done=max(partly.queries_done, coarse.queries_done))
