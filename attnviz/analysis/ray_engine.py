"""The engine of many machines: tasks on a Ray cluster."""

import logging
import os
import socket
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import torch

from attnviz.analysis.engines import Engine, Local, Result, Shared, Task
from attnviz.base.extras import check_installed
from attnviz.base.formatting import quoted
from attnviz.base.language import _

PROBE_SECONDS = 3.0  # until a machine that does not answer is called unreachable
CONNECTION_SECONDS = 15.0  # until a machine that answers, but not as Ray does, is
AHEAD = 2  # tasks in flight for each task that can run at once
_TORCH_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
_NO_MEMORY = (
    "A task had not enough memory on its machine of the Ray cluster. Start Ray there with fewer CPUs (--num-cpus), so "
    "that fewer tasks share its memory."
)
_connection: threading.Thread | None = None
_lock = threading.Lock()


class ClusterError(RuntimeError):
    """A task that a cluster could not do, as a sentence for a person."""


@dataclass(frozen=True)
class Ray:
    """The machines of a Ray cluster, which have the same versions of attnviz, Ray and Python as this one.

    `address` is that of Ray: host:port on a machine of the cluster, ray://host:port elsewhere, or auto. `shared` is
    sent once; a task has one CPU and one thread, and `gpus` GPUs, by default one if `shared` has tensors on a GPU. A
    task whose machine or process is lost is done again by Ray. Closing the iterator of `map` begins no further task.
    `map` raises ImportError without Ray, ConnectionError if the cluster is not reached, and ClusterError if it cannot
    do a task.
    """

    address: str = "auto"
    gpus: int | None = None

    def map(
        self, function: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        connect(self.address)
        import ray

        gpus = int(_has_gpu_tensors(shared)) if self.gpus is None else self.gpus
        there = int(ray.cluster_resources().get("GPU", 0))
        if gpus and self.gpus is None and not there:
            raise ClusterError(_("The tensors are on a GPU, and the Ray cluster has none. Move them to the CPU first."))
        if gpus > there:
            raise ClusterError(
                _(
                    "A task has {gpus} GPUs, and the Ray cluster has {available}. Ask for fewer.",
                    gpus=gpus,
                    available=there,
                )
            )
        resource, share = ("GPU", gpus) if gpus else ("CPU", 1)
        compute = ray.remote(_compute).options(name=function.__name__, num_cpus=1, num_gpus=gpus)
        sent = ray.put(shared)
        # No task is cancelled: ray.cancel ends this process when a reply comes of a task that waited to be sent ("Check
        # failed" in CompletePendingTask, Ray 2.60). The few in flight end by themselves.
        remaining, running = iter(tasks), deque[Any]()
        while True:
            most = AHEAD * max(1, int(ray.cluster_resources().get(resource, 0)) // share)  # machines come and go
            running.extend(
                compute.remote(function, sent, task) for task in islice(remaining, max(0, most - len(running)))
            )
            if not running:
                return
            yield _result(running[0])
            running.popleft()


def connect(address: str = "auto") -> None:
    """Connects this process to a Ray cluster, unless it is connected already.

    Raises ImportError, with the command that installs it, without Ray; ConnectionError, within seconds, if the address
    is not reached.
    """
    check_installed("ray", "A Ray cluster")
    _check_reachable((os.environ.get("RAY_ADDRESS") or "auto") if address == "auto" else address)
    import ray
    from ray._private import ray_constants

    # Workers map what is shared. The variable of this name is read on import, which another package may have done.
    ray_constants.RAY_ENABLE_ZERO_COPY_TORCH_TENSORS = True
    warnings.filterwarnings("ignore", message="Zero-copy tensor serialization", category=UserWarning)
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
    global _connection
    with _lock:
        if ray.is_initialized():
            return
        problems: list[Exception] = []

        def connection() -> None:
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as problem:  # noqa: BLE001 - of many kinds
                problems.append(problem)

        # Ray waits for minutes for an address at which something else answers, and cannot be told to stop.
        if _connection is None or not _connection.is_alive():
            _connection = threading.Thread(target=connection, daemon=True)
            _connection.start()
            _connection.join(CONNECTION_SECONDS)
        if _connection.is_alive() or problems:
            detail = str(problems[0]).splitlines()[0] if problems else "Nothing there answers as Ray does."
            raise ConnectionError(
                _("There is no Ray cluster at {address}. {detail}", address=quoted(address), detail=detail)
            )


def cluster_gpus(address: str = "auto") -> int:
    """Returns the number of GPUs of a Ray cluster. Raises what `connect` does."""
    connect(address)
    import ray

    return int(ray.cluster_resources().get("GPU", 0))


def ray_or_local(address: str = "auto") -> tuple[Engine, str]:
    """Returns the engine of a Ray cluster and no text, or that of this machine and a sentence that says why.

    Example:
        >>> engine, reason = ray_or_local("127.0.0.1:1")
        >>> engine
        Local(threads=None)
    """
    try:
        connect(address)
    except (ImportError, ConnectionError) as problem:
        return Local(), f"{problem} This machine computes it alone."
    return Ray(address), ""


def _check_reachable(address: str) -> None:
    if address in ("auto", "local"):
        return
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        if not parts.hostname or not parts.port:
            raise ValueError
        socket.create_connection((parts.hostname, parts.port), timeout=PROBE_SECONDS).close()
    except ValueError:
        raise ConnectionError(
            _(
                "The address of a Ray cluster is auto, host:port or ray://host:port; it is {address}.",
                address=quoted(address),
            )
        ) from None
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise ConnectionError(
            _("The Ray cluster at {address} cannot be reached: {reason}.", address=quoted(address), reason=reason)
        ) from None


def _compute(function: Callable[[Any, Any], Any], shared: Any, task: Any) -> Any:
    torch.set_num_threads(1)
    return function(shared, task)


def _result(task: Any) -> Any:
    """Returns what a task has computed; what went wrong is raised as it was in the task, or as a sentence."""
    import ray
    from ray import exceptions

    try:
        return ray.get(task)
    except exceptions.RayTaskError as problem:
        cause = problem.cause
        if isinstance(cause, MemoryError) or any(words in str(cause) for words in _TORCH_NO_MEMORY):
            raise ClusterError(_NO_MEMORY) from None
        if isinstance(cause, ImportError):
            raise ClusterError(
                _(
                    "A machine of the Ray cluster lacks a package: {cause}. Install the same version of attnviz there.",
                    cause=cause,
                )
            ) from None
        raise cause from None
    except exceptions.OutOfMemoryError:
        raise ClusterError(_NO_MEMORY) from None
    except (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.LocalRayletDiedError):
        raise ClusterError(
            _(
                "The processes of a task ended four times without a result. Most often their machine "
                "has too little memory; the logs of Ray on it say more."
            )
        ) from None
    except exceptions.RayError as problem:
        raise ClusterError(
            _("The Ray cluster could not run a task: {reason}", reason=str(problem).splitlines()[0])
        ) from None


def _has_gpu_tensors(shared: object) -> bool:
    from ray.cloudpickle import CloudPickler

    class TensorFinder(CloudPickler):
        """Walks through what is pickled, without writing the tensors' numbers."""

        is_on_gpu = False

        def reducer_override(self, thing: object) -> Any:
            if isinstance(thing, torch.Tensor):
                self.is_on_gpu |= thing.device.type != "cpu"
                return int, ()
            return super().reducer_override(thing)

    finder = TensorFinder(BytesIO())
    finder.dump(shared)
    return finder.is_on_gpu
