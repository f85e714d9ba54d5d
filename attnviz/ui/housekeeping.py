"""Memory of the server: what is loaded before the first visitor, and what is freed while nobody's page runs."""

import asyncio
import gc
from importlib import import_module
from pkgutil import walk_packages

from streamlit import runtime

import attnviz.ui
from attnviz.ui import scheduling

EVERY = 5.0  # seconds


def import_pages() -> None:
    """Imports all that pages import, so that no visitor waits for it, and exempts it from garbage collection."""
    for module in walk_packages(attnviz.ui.__path__, "attnviz.ui."):
        if module.name != "attnviz.ui.router":
            import_module(module.name)
    gc.collect()
    gc.freeze()


async def free_memory() -> None:
    """Frees the memory of sessions that have ended, again and again, whenever no page runs."""
    while True:
        await asyncio.sleep(EVERY)
        # Streamlit keeps a session for two minutes, in case its browser comes back, and until the next one ends.
        runtime.get_instance()._session_mgr._session_storage._cache.expire()  # type: ignore[attr-defined]
        if scheduling.is_idle():
            await asyncio.to_thread(gc.collect)
