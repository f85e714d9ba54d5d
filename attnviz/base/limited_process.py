"""Programs of this package in processes with limits of memory and time, for input that is not trusted: it may crash
what reads it, or make it take any amount of memory or time."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from attnviz.base.app_files import PACKAGE_PARENT
from attnviz.base.language import current_language, set_language

REFUSED = 3  # exit status of a program that has written why it refuses its input
# Arrow's other pool takes 1 GB at once, used or not; threads of NumPy and of the tokenizers library would not survive a
# fork, and gain nothing for one input.
ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class InputRefusal(Exception):
    """A program refuses its input; the message is for the person at the screen."""


def run_program(module: str, *arguments: object, data: bytes, seconds: float | int, memory: int) -> bytes:
    """Returns what a module that calls `serve_input` writes for this input, in at most `memory` bytes.

    Raises ValueError if it refuses the input, subprocess.SubprocessError if it fails or takes more than `seconds`, and
    OSError if no process can be started.
    """
    command = [sys.executable, "-m", module, current_language(), str(memory), *map(str, arguments)]
    environment = os.environ | ENVIRONMENT
    done = subprocess.run(  # noqa: S603
        command, input=data, capture_output=True, timeout=seconds, cwd=PACKAGE_PARENT, env=environment
    )
    if done.returncode == REFUSED:
        raise ValueError(done.stdout.decode())
    done.check_returncode()
    return done.stdout


def serve_input(compute: Callable[..., object]) -> None:
    """Calls `compute`, which writes to standard output unless it raises InputRefusal, with the input and the arguments
    that `run_program` has given to this process."""
    language, memory, *arguments = sys.argv[1:]
    set_language(language)
    limit_memory(int(memory))
    try:
        compute(sys.stdin.buffer.read(), *arguments)
    except InputRefusal as refusal:
        sys.stdout.buffer.write(str(refusal).encode())
        sys.exit(REFUSED)


def limit_memory(size: int) -> None:
    """Limits the memory that this process may still allocate to `size` bytes, on Linux; elsewhere only its time is
    limited."""
    if sys.platform == "linux":
        import resource

        # Memory that can be written to, not addresses: of those every thread reserves a lot that it never uses.
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + size,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
