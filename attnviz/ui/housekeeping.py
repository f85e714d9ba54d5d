"""What the server keeps: what is loaded before the first visitor, what is freed while nobody's page runs, and the
classes that are deleted when their hours are over."""

import asyncio
import ctypes
import gc
import logging
from importlib import import_module
from pkgutil import walk_packages

from streamlit import runtime

import attnviz.ui
from attnviz.models.minilm import is_installed, minilm
from attnviz.models.model_cache import shared_cache
from attnviz.text import EXAMPLE
from attnviz.ui import cache, jobs, scheduling
from attnviz.ui.classroom.server_classes import delete_expired_classes

EVERY = 5.0  # seconds
EVERY_CLASS = 600.0  # seconds between two looks for classes whose hours are over
ARENAS, M_ARENA_MAX = 2, -8  # the parameter of mallopt, in malloc.h

_LOGGER = logging.getLogger(__name__)


def import_pages() -> None:
    """Imports all that pages import, so that no visitor waits for it, and exempts it from garbage collection."""
    for module in walk_packages(attnviz.ui.__path__, "attnviz.ui."):
        if module.name != "attnviz.ui.router":
            import_module(module.name)
    gc.collect()
    gc.freeze()


def load_example() -> None:
    """Loads the default model and its example."""
    if is_installed():
        minilm().layers(EXAMPLE)


async def free_memory() -> None:
    """Frees the memory of sessions that have ended, again and again, whenever no page runs; after the last of them has
    ended, also what was computed for all."""
    last = 0  # sessions at the last look
    while True:
        await asyncio.sleep(EVERY)
        server = runtime.get_instance()
        sessions = server._session_mgr
        # Streamlit keeps a session for disconnectedSessionTTL, in case its browser comes back, and until the next ends.
        sessions._session_storage._cache.expire()  # type: ignore[attr-defined]
        if scheduling.is_idle():
            count = len(sessions.list_sessions())
            if last and not count:
                await asyncio.to_thread(free_results)
            server.media_file_mgr.remove_orphaned_files()
            await asyncio.to_thread(gc.collect)
            if count < last:
                await asyncio.to_thread(return_memory)
            last = count


async def delete_classes() -> None:
    """Deletes the classes whose hours are over: now, and again and again."""
    while True:
        try:
            await asyncio.to_thread(delete_expired_classes)
        except (ValueError, ImportError) as problem:  # the store may come back
            _LOGGER.warning("Classes whose hours are over cannot be deleted: %s", problem)
        await asyncio.sleep(EVERY_CLASS)


def free_results() -> None:
    """Frees what was computed for all sessions, but the example with which pages open."""
    cache.drop_results()
    jobs.drop_finished_jobs()
    shared_cache().forget_examples()
    if is_installed():
        minilm().forget_examples()
    load_example()


def limit_arenas() -> None:
    """Lets all threads share a few arenas of the C library, where that can be set (glibc): an arena keeps what its
    threads have freed, and every run of a page has a thread of its own."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(M_ARENA_MAX, ARENAS)


def return_memory() -> None:
    """Returns memory that is free to the system, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
