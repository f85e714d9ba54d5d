"""What a Ray cluster of two nodes on this machine takes more than two threads, for the same blocks of one head, and for
the same parts of an atlas."""

import statistics
import time
from functools import partial

import torch

from attnviz import atlas
from attnviz.analysis.downsampling import downsample
from attnviz.analysis.engines import Engine, Local
from attnviz.analysis.ray_engine import Ray
from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.models import MINILM, SMOLLM2
from tests.bench.measures import in_turn, is_short, note, repeated, row, sizes, table, text_of, threads
from tests.support import ray_tasks
from tests.support.ray_cluster import ray_cluster

RUNS = 5
ATLASES = 2  # a warm-up, in which each process loads the model, is not counted
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
        of_atlas()
        start = time.perf_counter()
        list(Ray().map(ray_tasks.threads, None, range(TASKS)))
        task = (time.perf_counter() - start) / TASKS
        table("Rates", ("pairs a second and core", "ms a task"))
        row(f"{tokens**2 / 2 / (2 * local):.1e}", 1000 * task)


def of_atlas() -> None:
    """The table of an atlas, of which each task reads 64 texts."""
    table("An atlas of texts of 64 tokens, two cores", ("model", "texts", "threads ms", "Ray ms", "ratio"))
    for name, count in sizes(((SMOLLM2, 256),), ((MINILM, 2),)):
        texts = [text_of(64, seed) for seed in range(count)]
        sides = (partial(atlas, name, texts, engine=engine) for engine in (Local(threads=2), Ray()))
        row(name.rpartition("/")[-1], count, *in_turn(*sides, ATLASES))


def random_head(tokens: int) -> Inputs:
    names = tuple(map(str, range(tokens)))
    return Inputs(*(torch.randn(1, tokens, WIDTH) for _ in range(3)), names, names)


def timed(inputs: Inputs, engine: Engine) -> float:
    start = time.perf_counter()
    downsample(inputs, Mechanism(mask=Causal()), engine=engine)
    return time.perf_counter() - start
