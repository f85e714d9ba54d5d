"""Ray against the local engine, on a cluster of two nodes on this machine that lose processes and a node."""

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnviz import Trace, command
from attnviz.analysis.atlas import atlas
from attnviz.analysis.downsampling import Downsampled, downsample
from attnviz.analysis.engines import Engine, Local
from attnviz.analysis.ray_engine import AHEAD, ClusterError, Ray, _has_gpu_tensors, connect, ray_or_local
from attnviz.base.install_command import install_line
from attnviz.inputs import Inputs
from attnviz.masks import Causal, SlidingWindow
from attnviz.mechanism import Mechanism
from attnviz.models import MINILM
from attnviz.sources import Toy
from tests.bench.clusters import on_cluster
from tests.bench.measures import SHORT
from tests.support import ray_tasks
from tests.support.ray_cluster import ray_cluster
from tests.support.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(nodes=2) as cluster:
        yield cluster


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(map(torch.equal, left, right))


def test_results_have_the_bits_and_the_order_of_the_local_engine(cluster: object) -> None:
    matrix = torch.randn(500, 64, generator=torch.Generator().manual_seed(0))
    tasks = [slice(first, first + 50) for first in range(0, 500, 50)]
    expected = list(Local(threads=1).map(ray_tasks.product, matrix, tasks))
    assert isinstance(Ray(), Engine)
    assert same(list(Ray().map(ray_tasks.product, matrix, tasks)), expected)
    assert list(Ray().map(ray_tasks.product, matrix, [])) == []


def test_a_cluster_can_be_measured(
    cluster: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SHORT, "1")
    on_cluster()
    printed = capsys.readouterr().out
    assert "A causal head of width 64" in printed
    assert printed.splitlines()[-1].split()[1:]  # the last of the rates


def test_an_atlas_has_the_bits_of_the_local_engine(cluster: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.analysis.atlas.PART", 2)
    strings = ["the cat sat on the mat", "it rains", "the dog saw a cat"]
    found, expected = (atlas(MINILM, strings, engine=engine) for engine in (Ray(), Local(1)))
    for name in ("means", "values", "likeness", "neighbors"):
        assert torch.equal(getattr(found, name).nan_to_num(-1), getattr(expected, name).nan_to_num(-1))


def long_head(tokens: int) -> tuple[Inputs, Mechanism]:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, tokens, 64, generator=generator) for _ in range(3))
    names = tuple(map(str, range(tokens)))
    return Inputs(query, key, value, names, names), Mechanism(mask=Causal() & SlidingWindow(3_000))


def identical(left: Downsampled, right: Downsampled) -> bool:
    numbers = [
        [getattr(one, name) for name in ("mass", "maximum", "query", "key", "allowed", "lse")] for one in (left, right)
    ]
    return all(torch.equal(a.nan_to_num(-1), b.nan_to_num(-1)) for a, b in zip(*numbers, strict=True))


def test_a_map_has_the_bits_of_the_local_engine(cluster: object) -> None:
    head = long_head(9_000)
    expected = downsample(*head, cells=(50, 60))
    assert identical(downsample(*head, cells=(50, 60), engine=Local(threads=3)), expected)
    assert identical(downsample(*head, cells=(50, 60), engine=Ray()), expected)


def test_the_command_writes_the_same_file(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_RAY", cluster.address)
    Trace(tuple(Toy("the animal did not cross the street").layers())).save(tmp_path / "trace")
    for engine in ("local", "ray"):
        file = tmp_path / f"{engine}.npz"
        command.main(["map", str(tmp_path / "trace"), "--layer=0", "--head=1", "-o", str(file), f"--engine={engine}"])
    with np.load(tmp_path / "local.npz") as local, np.load(tmp_path / "ray.npz") as ray:
        assert {*local} == {*ray}
        assert all(np.array_equal(local[name], ray[name], equal_nan=True) for name in local)


def test_texts_are_captured_by_the_nodes(
    cluster: Any, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNVIZ_RAY", cluster.address)
    texts = {"one": "the animal did not cross", "two": "it was too tired", "three": "the street"}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    files = [f"--text={tmp_path / name}.txt" for name in texts]
    for engine in ("local", "ray"):
        output = str(tmp_path / engine)
        command.main(["capture", str(saved / "llama"), *files, "-o", output, f"--engine={engine}"])
    assert capsys.readouterr().out.count("2 layers of ") == 2 * len(texts)
    for name in texts:
        local, ray = (Trace.load(tmp_path / engine / name) for engine in ("local", "ray"))
        assert repr(local) == repr(ray)
        for one, other in zip(local, ray, strict=True):
            assert torch.equal(one.inputs.key, other.inputs.key)
            assert one.inputs.key_tokens == other.inputs.key_tokens


def test_gpus_that_the_cluster_has_not_are_said(cluster: object) -> None:
    with pytest.raises(ClusterError, match="A task has 2 GPUs, and the Ray cluster has 0"):
        list(Ray(gpus=2).map(ray_tasks.threads, None, range(3)))


def test_a_map_is_cancelled_by_its_progress(cluster: object) -> None:
    def cancel(done: float, partial: Downsampled) -> None:
        assert 0 < done < 1
        raise InterruptedError

    with pytest.raises(InterruptedError):
        downsample(*long_head(9_000), engine=Ray(), progress=cancel)


def test_a_task_has_one_thread_and_maps_what_is_shared(cluster: object) -> None:
    assert list(Ray().map(ray_tasks.threads, None, range(3))) == [1, 1, 1]
    assert list(Ray().map(ray_tasks.is_mapped, torch.zeros(1 << 20), range(3))) == [True] * 3


def test_few_tasks_are_in_flight(cluster: object) -> None:
    begun = 0

    class Tasks(list[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal begun
            for task in range(1000):
                begun += 1
                yield task

    results = Ray().map(ray_tasks.threads, None, Tasks())
    next(results)
    results.close()
    assert 0 < begun <= AHEAD * 2  # of two nodes, or one that is left


def test_closing_the_iterator_begins_no_further_task(cluster: object, tmp_path: Path) -> None:
    results = Ray().map(ray_tasks.wait_for_end, tmp_path, range(100))
    assert next(results) == 0
    results.close()
    (tmp_path / "end").touch()
    assert list(Ray().map(ray_tasks.threads, None, range(4))) == [1] * 4
    begun = [path for path in tmp_path.iterdir() if path.name != "end"]
    assert len(begun) <= 2 * AHEAD + 1  # of two machines with one CPU each


def test_what_a_task_raises_is_raised_as_it_was(cluster: object) -> None:
    with pytest.raises(ValueError, match=r"^Row 7 has no number\.$") as problem:
        list(Ray().map(ray_tasks.refuse, None, [1]))
    assert problem.type is ValueError


def test_a_process_that_dies_is_replaced(cluster: object, tmp_path: Path) -> None:
    assert list(Ray().map(ray_tasks.die_once, tmp_path, range(4))) == [0, 1, 4, 9]
    assert (tmp_path / "dead").exists()


def test_a_task_without_memory_says_so(cluster: object) -> None:
    with pytest.raises(ClusterError, match="had not enough memory on its machine"):
        list(Ray().map(ray_tasks.too_large, None, [1]))


def test_tensors_on_a_gpu_need_one(cluster: object) -> None:
    inputs = Inputs(*torch.eye(2).expand(3, 1, 2, 2), ("a", "b"), ("a", "b"))
    assert not _has_gpu_tensors((inputs, lambda q: q))
    assert _has_gpu_tensors(({"a": [torch.empty(1, device="meta")]}, inputs))
    with pytest.raises(ClusterError, match="are on a GPU, and the Ray cluster has none"):
        list(Ray().map(ray_tasks.threads, torch.empty(1, device="meta"), [1]))


def test_the_tasks_of_a_lost_node_are_done_again(cluster: Any, tmp_path: Path) -> None:
    results = Ray().map(ray_tasks.wait_once, tmp_path, range(8))
    first = [next(results), next(results)]
    until((tmp_path / "node").exists)
    [lost] = [node for node in cluster.worker_nodes if node.node_id == (tmp_path / "node").read_text()]
    cluster.remove_node(lost, allow_graceful=False)
    assert [*first, *results] == [task * task for task in range(8)]


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("OutOfMemoryError", ["node 7 …"], r"^A task had not enough memory on its machine .*--num-cpus"),
        ("WorkerCrashedError", [], r"^The processes of a task ended four times without a result\. .*too little memory"),
        ("ObjectStoreFullError", ["full"], r"^The Ray cluster could not run a task: full$"),
    ],
)
def test_what_ray_gives_up_is_said(
    name: str, arguments: list[str], sentence: str, cluster: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def fail(task: object) -> None:
        raise getattr(ray.exceptions, name)(*arguments)

    monkeypatch.setattr(ray, "get", fail)
    with pytest.raises(ClusterError, match=sentence):
        list(Ray().map(ray_tasks.threads, None, [1]))


def test_an_address_that_nobody_answers_at_gives_the_local_engine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    engine, reason = ray_or_local(f"ray://127.0.0.1:{port}")
    assert engine == Local()
    assert reason == (
        f"The Ray cluster at “ray://127.0.0.1:{port}” cannot be reached: Connection refused. "
        "This machine computes it alone."
    )


@pytest.mark.parametrize("address", ["", "example", "ray://", "host:port", "http:/x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConnectionError, match=r"is auto, host:port or ray://host:port; it is"):
        connect(address)


def test_something_else_that_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr("attnviz.analysis.ray_engine.CONNECTION_SECONDS", 0.1)
    waiting = threading.Event()
    monkeypatch.setattr(ray, "init", lambda *_, **__: waiting.wait(60))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for _ in range(2):
            with pytest.raises(ConnectionError, match=r"no Ray cluster at .* Nothing there answers as Ray does\."):
                connect(address)
    waiting.set()


def test_without_ray_the_command_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    engine, reason = ray_or_local()
    assert engine == Local()
    assert reason.startswith(f"A Ray cluster needs ray, which is not installed. Install with: {install_line('ray')}")
