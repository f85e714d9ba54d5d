"""Long maps as jobs: first the picture of some queries, then row after row of all."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from attnviz.analysis.downsampling import Downsampled
from attnviz.formatting import grouped
from attnviz.language import _
from attnviz.server import jobs
from attnviz.ui.job_progress import result_so_far
from attnviz.ui.markdown import plain
from attnviz.views.long_maps import refine, unreached_engine


def map_so_far(compute: Callable[..., Downsampled], *key: object) -> Downsampled:
    """Returns what there is of the map that `compute` computes with its arguments `sample` and `progress`, as a job
    with these keys; draws the progress."""
    downsampled = result_so_far(partial(refine, compute), *key, describe=_queries_so_far)
    if unreached_engine() and jobs.finished(*key) is None:
        st.caption(plain(unreached_engine()))
    return downsampled


def _queries_so_far(downsampled: Downsampled) -> str:
    done, queries = grouped(downsampled.queries_done), grouped(len(downsampled.queries))
    return _("This picture has {done} of {queries} queries so far.", done=done, queries=queries)
