"""What a Ray cluster of two nodes on this machine takes more than two threads, for the same blocks of one head."""

import statistics
import time

import torch

from attnviz.analysis.downsampling import downsample
from attnviz.analysis.engines import Engine, Local
from attnviz.analysis.ray_engine import Ray
from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from tests.bench.measures import is_short, note, repeated, row, sizes, table, threads
from tests.support import ray_tasks
from tests.support.ray_cluster import ray_cluster

RUNS = 5
WIDTH = 64
TASKS = 400  # that compute nothing


def clusters() -> None:
    """Measures a cluster of two nodes. A short run leaves that to the tests of Ray, which have such a cluster."""
    if is_short():
        note("A short run starts no Ray cluster.")
        return
    with ray_cluster(nodes=2, object_store_memory=300 << 20):
        on_cluster()


def on_cluster() -> None:
    """The tables of the cluster that this process is connected to; with the rates from which docs/tools/cluster_plan.py
    plans larger ones."""
    with threads(1):  # of each task, on both sides
        table("A causal head of width 64, two cores", ("tokens", "threads ms", "Ray ms", "ratio"))
        for tokens in sizes((8_192, 32_768), [512]):
            head = random_head(tokens)
            times = repeated(lambda head=head: (timed(head, Local(threads=2)), timed(head, Ray())), RUNS)
            local, ray = map(statistics.median, zip(*times, strict=True))
            row(tokens, 1000 * local, 1000 * ray, ray / local)
        start = time.perf_counter()
        list(Ray().map(ray_tasks.threads, None, range(TASKS)))
        task = (time.perf_counter() - start) / TASKS
        table("Rates", ("pairs a second and core", "ms a task"))
        row(f"{tokens**2 / 2 / (2 * local):.1e}", 1000 * task)


def random_head(tokens: int) -> Inputs:
    names = tuple(map(str, range(tokens)))
    return Inputs(*(torch.randn(1, tokens, WIDTH) for _ in range(3)), names, names)


def timed(inputs: Inputs, engine: Engine) -> float:
    start = time.perf_counter()
    downsample(inputs, Mechanism(mask=Causal()), engine=engine)
    return time.perf_counter() - start
