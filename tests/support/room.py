"""The app in a room of more visitors than its caches hold: each keeps one result, and few jobs are kept.

`python -m tests.support.room PORT` serves it.
"""

import sys
from typing import Any

from attnviz.models import model
from attnviz.page import result_cache
from attnviz.ui.server import jobs

_set_up = result_cache.ResultCache.__init__


def _with_one_result(self: Any, _max_results: int = 1) -> None:
    _set_up(self, 1)


result_cache.ResultCache.__init__ = _with_one_result  # type: ignore[method-assign]
result_cache.result_cache().max_results = 1
jobs.MOST_FINISHED = 4
model.MAX_TRACE_BYTES = 1

if __name__ == "__main__":
    from app import app

    options = {"server.headless": True, "server.port": int(sys.argv[1]), "server.fileWatcherType": "none"}
    app.run(config=options)
