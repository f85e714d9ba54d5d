"""The progress of a long computation, which its page shows below the result so far; long maps begin with a sample."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from attnviz.analysis.downsampling import Downsampled
from attnviz.base.formatting import grouped
from attnviz.base.language import _
from attnviz.page.long_maps import refine, unreached_engine
from attnviz.ui.fragments import draw_repeatedly
from attnviz.ui.markdown import plain
from attnviz.ui.server import jobs, scheduling

T = TypeVar("T")
Work = tuple[Callable[..., Any], tuple[object, ...]]  # what computes a result, and its key
_LOGGER = logging.getLogger(__name__)
EVERY = 0.5  # seconds between two looks
KEPT = 2.0  # seconds between two looks at what is not shown yet
REDRAW = 3.0  # seconds between two pictures of one job
JUST_BEGUN = 5.0  # seconds


def result_so_far(compute: Callable[..., T], *key: object, describe: Callable[[T], str]) -> T:
    """Returns what there is of the result of `compute`, as a job with these keys, and draws the progress of the job.

    `compute` calls its argument `progress` with the share that is done and the result so far, which `describe` puts
    into words. Raises what `compute` raises before it has a result.
    """
    job = jobs.request(partial(_compute, compute), *key)
    with st.spinner(_("Computing …"), show_time=True):  # until there is something to show, however long that takes
        result = job.first()
    _show_progress(job, describe(result))
    return result


def begin_ahead(find: Callable[[], list[Work]], *key: object) -> None:
    """Begins what takes time of what will be opened next, which `find` returns, as the jobs of `result_so_far`, and
    draws nothing; not while this page run shows the progress of a job."""
    begun: list[jobs.Job[Any]] = []
    if not jobs.shows_progress():
        _keep_ahead(begun, find, key)
        if not all(job.is_over for job in begun):
            draw_repeatedly(_keep_ahead, KEPT, begun, find, key)


def _keep_ahead(begun: list[jobs.Job[Any]], find: Callable[[], list[Work]], key: tuple[object, ...]) -> None:
    """Begins the job that finds the others, and then these, and keeps them for the page that will show them."""
    try:
        if not begun:
            begun += [jobs.request(lambda _progress: find(), *key)]
        if len(begun) == 1 and begun[0].is_over:
            begun += [jobs.request(partial(_compute, compute), *own) for compute, own in begun[0].latest or ()]
    except ValueError as problem:  # which that page explains
        _LOGGER.info("What will be opened next was not begun: %s", problem)
    for job in begun:
        job.look(scheduling.session())


def _compute(compute: Callable[..., T], progress: jobs.OnResult) -> T:
    return compute(progress=progress)


def map_so_far(compute: Callable[..., Downsampled], *key: object) -> Downsampled:
    """Returns what there is of the map that `compute` computes with its arguments `sample` and `progress`, as a job
    with these keys; draws the progress."""
    downsampled = result_so_far(partial(refine, compute), *key, describe=_queries_so_far)
    if unreached_engine() and jobs.finished(*key) is None:
        st.caption(plain(unreached_engine()))
    return downsampled


def _queries_so_far(downsampled: Downsampled) -> str:
    done, queries = grouped(downsampled.queries_done), grouped(len(downsampled.queries))
    return _("This map has {done} of {queries} queries so far.", done=done, queries=queries)


def _show_progress(job: jobs.Job[Any], description: str) -> None:
    """Draws the progress of a job that runs, once in a page run, and reruns the page when there is more to see; or why
    the job has failed."""
    if jobs.mark_shown(job):
        return
    if not job.is_over:
        draw_repeatedly(_follow, EVERY, job, description, job.latest, time.monotonic())
    elif job.error:
        st.error(plain(str(job.error)), icon=":material/error:")


def _follow(job: jobs.Job[Any], description: str, drawn: object, when: float) -> None:
    session = scheduling.session()
    job.look(session)
    place = job.place_of(session)
    time_left = scheduling.line_sentence(place) if place else _duration(job.seconds, job.seconds_left)
    st.progress(job.progress, plain(f"{description} {time_left}".strip()))
    if job.is_over or (job.latest is not drawn and time.monotonic() > when + REDRAW):
        st.rerun()


def _duration(past: float, left: float | None) -> str:
    """Returns how many seconds are left, where an estimate is known after those that are past."""
    if left is None:
        return _("It has just begun.") if past < JUST_BEGUN else _("How long it will take is not known yet.")
    if left < 90:
        return _("About {value} s are left.", value=max(1, round(left)))
    return _("About {seconds} minutes are left.", seconds=round(left / 60))
