"""What a Ray cluster of two nodes on this machine takes more than two threads, for the same blocks of one head."""

import statistics
import time
from collections.abc import Callable

import torch

from attnviz.analysis.downsampling import downsample
from attnviz.analysis.engines import Engine, Local
from attnviz.analysis.ray_engine import Ray
from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from tests.support import ray_tasks
from tests.support.ray_cluster import ray_cluster

RUNS = 5
WIDTH = 64
TASKS = 400  # that compute nothing


def clusters(table: Callable[..., None], row: Callable[..., None]) -> None:
    """Also the rates from which docs/tools/cluster_plan.py plans larger clusters."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of each task, on both sides
    try:
        with ray_cluster(nodes=2, object_store_memory=300 << 20):
            table("A causal head of width 64, two cores", ("tokens", "threads ms", "Ray ms", "ratio"))
            for tokens in (8_192, 32_768):
                head = random_head(tokens)
                times = [(timed(head, Local(threads=2)), timed(head, Ray())) for _ in range(RUNS + 1)][1:]
                local, ray = map(statistics.median, zip(*times, strict=True))
                row(tokens, 1000 * local, 1000 * ray, ray / local)
            start = time.perf_counter()
            list(Ray().map(ray_tasks.threads, None, range(TASKS)))
            task = (time.perf_counter() - start) / TASKS
            table("Rates", ("pairs a second and core", "ms a task"))
            row(f"{tokens**2 / 2 / (2 * local):.1e}", 1000 * task)
    finally:
        torch.set_num_threads(threads)


def random_head(tokens: int) -> Inputs:
    names = tuple(map(str, range(tokens)))
    return Inputs(*(torch.randn(1, tokens, WIDTH) for _ in range(3)), names, names)


def timed(inputs: Inputs, engine: Engine) -> float:
    start = time.perf_counter()
    downsample(inputs, Mechanism(mask=Causal()), engine=engine)
    return time.perf_counter() - start
