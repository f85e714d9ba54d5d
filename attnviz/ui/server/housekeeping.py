"""Memory of the server: what is loaded before the first visitor, what is freed while nobody's page runs, and the
classes that are deleted when their hours are over."""

import asyncio
import ctypes
import gc
import logging
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

from attnviz.base.memory import return_memory
from attnviz.base.text import EXAMPLE
from attnviz.models.capture_process import end_process
from attnviz.models.minilm import minilm
from attnviz.models.model_cache import forget_examples
from attnviz.ui.server import jobs, scheduling, streamlit_internals

EVERY = 5.0  # seconds
GROWTH = 128 << 20  # bytes of the process after which its memory is returned while pages run, too
EVERY_CLASS = 600.0  # seconds between two looks for classes whose hours are over
# Parameters of mallopt (malloc.h) and their values. An arena keeps what its threads have freed, and every run of a page
# has a thread of its own: all share a few. Arrays below 32 MiB reuse memory that was freed: to have it from the system
# anew at each operation takes half the time of counting a mask.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
MALLOC_SETTINGS = {M_ARENA_MAX: 2, M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**26}

_LOGGER = logging.getLogger(__name__)


def import_pages(parts: ModuleType) -> None:
    """Imports the package of the parts of pages, so that no visitor waits for it, and exempts all that is imported from
    garbage collection."""
    for module in walk_packages(parts.__path__, f"{parts.__name__}."):
        if not module.name.endswith(".router"):  # which draws when it is imported
            import_module(module.name)
    gc.collect()
    gc.freeze()


def load_example() -> None:
    """Loads the default model and its example."""
    if minilm.is_installed():
        minilm().layers(EXAMPLE)


async def free_memory(drop_results: Callable[[], None]) -> None:
    """Frees the memory of sessions that have ended, again and again, whenever no page runs; after the last of them has
    ended, also what was computed for all. What has grown by GROWTH is freed while pages run, too: a room in which
    somebody always computes is never idle, and passes of models are in cycles that Python alone finds late."""
    last, used = 0, resident_bytes()  # sessions at the last look, bytes at the smallest since memory was returned
    while True:
        await asyncio.sleep(EVERY)
        count, used = streamlit_internals.expire_sessions(), min(used, resident_bytes())
        has_grown = resident_bytes() > used + GROWTH
        if is_idle := scheduling.is_idle():
            if last and not count:
                await asyncio.to_thread(free_results, drop_results)
            streamlit_internals.delete_unused_files()
        if is_idle or has_grown:
            await asyncio.to_thread(gc.collect)
            if count < last or has_grown:
                await asyncio.to_thread(return_memory)
                used = resident_bytes()
        if is_idle:
            last = count


async def delete_classes(delete_expired: Callable[[], None]) -> None:
    """Deletes the classes whose hours are over, as `delete_expired` does: now, and again and again."""
    while True:
        try:
            await asyncio.to_thread(delete_expired)
        except (ValueError, ImportError) as problem:  # the store may come back
            _LOGGER.warning("Classes whose hours are over cannot be deleted: %s", problem)
        await asyncio.sleep(EVERY_CLASS)


def free_results(drop_results: Callable[[], None]) -> None:
    """Frees what was computed for all sessions, but the example that pages open with; `drop_results` drops what pages
    have in memory."""
    drop_results()
    jobs.drop_finished_jobs()
    forget_examples()
    end_process()
    load_example()


def configure_malloc() -> None:
    """Sets how the C library keeps freed memory, where that can be set (glibc)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        for parameter, setting in MALLOC_SETTINGS.items():
            mallopt(parameter, setting)


def resident_bytes() -> int:
    """Returns the memory of this process; 0 where the system does not say it as Linux does."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
