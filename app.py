"""The server: the app, what answers before it, and what is loaded before the first visitor."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

# Before torch is imported. Each visitor's thread would start a worker for every core; a large result would be
# handed to the system page by page.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import streamlit as st
import transformers
from starlette.middleware import Middleware

from attnviz import __version__, ui
from attnviz.base import settings
from attnviz.base.app_files import PACKAGE
from attnviz.models import capture_process
from attnviz.ui.cache import drop_results
from attnviz.ui.classroom.routes import ClassRoutes
from attnviz.ui.classroom.server_classes import delete_expired_classes, end_streams
from attnviz.ui.classroom.watcher import before_server_stops
from attnviz.ui.server import hosting, housekeeping, logs, metrics, scripts, streamlit_internals, styles
from attnviz.ui.server.addresses import UnknownAddresses, address
from attnviz.ui.server.health import HealthChecks, Readiness
from attnviz.ui.server.security_headers import SecurityHeaders
from attnviz.ui.server.static_files import PageElements, StaticFileCache, disable_nagle

try:
    hosting.check_settings()
except (ValueError, ImportError) as error:
    sys.exit(f"attnviz does not start. {error}")
hosting.believe_listed_proxies()
streamlit_internals.set_option("server.maxUploadSize", settings.upload_bytes() // settings.MB)
if not hosting.is_local():
    os.environ.setdefault("ATTNVIZ_MODELS", "")  # nobody else names folders and models, unless the owner says so

if hosting.has_tls() and settings.embedding_sites():  # without it a frame on another site uploads nothing
    streamlit_internals.set_option("server.xsrfCookieSameSite", "none")
logs.start_logs(settings.log_style())
streamlit_internals.speed_up()
READINESS = Readiness()
MANY = 5  # browsers, for which texts are read by a process of its own, too: it takes memory, and some seconds to start


@asynccontextmanager
async def lifespan(app: st.App) -> AsyncIterator[None]:
    """Loads the pages, the default model and its example before the first visitor; frees memory afterwards."""
    disable_nagle()
    housekeeping.configure_malloc()
    transformers.logging.disable_progress_bar()
    housekeeping.load_example()
    housekeeping.import_pages(ui)
    capture_process.set_crowded(lambda: streamlit_internals.connected_sessions() >= MANY)
    endless = housekeeping.free_memory(drop_results), housekeeping.delete_classes(delete_expired_classes)
    tasks = [*map(asyncio.create_task, endless)]
    with metrics.serving(), before_server_stops(end_streams):
        READINESS.is_ready = True
        logs.write_event("start", version=__version__)
        yield
        READINESS.is_ready = False
    logs.write_event("stop")
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task  # raises what it failed with


app = st.App(
    PACKAGE / "ui" / "router.py",
    routes=scripts.routes(),
    middleware=[
        Middleware(SecurityHeaders),
        Middleware(HealthChecks, readiness=READINESS),
        Middleware(hosting.AllowedHosts),
        Middleware(ClassRoutes),
        Middleware(
            PageElements, head=scripts.early_elements(), body=styles.style_element(), words=scripts.words_element
        ),
        Middleware(StaticFileCache),
        Middleware(UnknownAddresses, hidden=() if hosting.is_local() else (address("/_stcore/metrics"),)),
    ],
    lifespan=lifespan,
)

if __name__ == "__main__":
    app.run()
