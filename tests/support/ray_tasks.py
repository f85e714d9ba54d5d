"""Tasks that processes of a Ray cluster do: what they were, and how they end."""

import os
import signal
import threading
from pathlib import Path

import torch


def product(matrix: torch.Tensor, rows: slice) -> torch.Tensor:
    return matrix[rows] @ matrix.T


def threads(shared: object, task: int) -> int:
    return torch.get_num_threads()


def is_mapped(shared: torch.Tensor, task: int) -> bool:
    """Whether the numbers are in the memory that all processes of the machine share."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(edge, 16) for edge in line.split()[0].split("-"))
        if start <= shared.data_ptr() < end:
            return "plasma" in line
    raise AssertionError("The numbers are nowhere.")


def wait_once(folder: Path, task: int) -> int:
    """Task 2 waits to be lost when it is done for the first time, and leaves the id of its node."""
    import ray

    if task == 2 and not (folder / "node").exists():
        (folder / "new").write_text(ray.get_runtime_context().get_node_id())
        (folder / "new").rename(folder / "node")
        wait_forever()
    return task * task


def wait_for_end(folder: Path, task: int) -> int:
    """The first task ends at once, the others when there is a file that says so."""
    (folder / str(task)).touch()
    for _ in range(1200):  # a minute
        if not task or (folder / "end").exists():
            return task
        threading.Event().wait(0.05)
    raise TimeoutError


def wait_forever() -> None:
    for _ in range(1200):  # a minute; an interrupt is seen between two of them
        threading.Event().wait(0.05)
    raise TimeoutError


def die_once(folder: Path, task: int) -> int:
    """Ends its process, as a kernel without memory does, when it is done for the first time."""
    if task == 1 and not (folder / "dead").exists():
        (folder / "dead").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task


def too_large(shared: object, task: int) -> torch.Tensor:
    return torch.empty(1 << 50)


def refuse(shared: object, task: int) -> None:
    raise ValueError("Row 7 has no number.")
