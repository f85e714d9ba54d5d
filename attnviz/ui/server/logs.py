"""Logs without what people typed: one line for each event, on standard error.

Of the records of other packages the place, the level and the kind of the error are kept: their texts may quote a
sentence, an address with its parameters or a session. So may the message of an exception.
"""

import json
import logging
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attnviz.base import settings
from attnviz.ui.server.streamlit_internals import set_up_loggers

_LOGGER = logging.getLogger("attnviz")
_LOGGER.addHandler(logging.NullHandler())  # events are not written before start_logs says where


def write_event(
    event: str, /, *, level: int = logging.INFO, problem: BaseException | None = None, **fields: object
) -> None:
    """Writes an event with its fields, none of which may hold what people typed; of an exception its kind and place."""
    _LOGGER.log(level, event, exc_info=problem, extra={"fields": fields})


def start_logs(style: settings.LogStyle) -> None:
    """Sends the records of all packages to standard error, without what people typed.

    With LogStyle.UNCHANGED nothing is changed, and the events of attnviz are not written.
    """
    if style is settings.LogStyle.UNCHANGED:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style is settings.LogStyle.JSON else PlainFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _LOGGER.setLevel(logging.INFO)
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            _leave_to_root(logger)
    set_up_loggers(_leave_to_root)
    handler.addFilter(lambda record: record.name == _LOGGER.name or record.levelno >= logging.WARNING)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # an error in logging would be written with what was to be logged
    threading.excepthook = lambda error: _LOGGER.error(
        "thread", exc_info=(error.exc_type, error.exc_value or error.exc_type(), error.exc_traceback)
    )


def _leave_to_root(logger: logging.Logger) -> None:
    logger.handlers.clear()
    logger.propagate = True


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object in one line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields(record))


class PlainFormatter(logging.Formatter):
    """Formats a record as one line of words: time, level, event, then name=value."""

    def format(self, record: logging.LogRecord) -> str:
        time, level, event, *others = _fields(record).items()
        words = [time[1], level[1], event[1]]
        return " ".join(map(str, words)) + "".join(f" {name}={value}" for name, value in others)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    fields: dict[str, Any] = {"time": time, "level": record.levelname.lower()}
    if record.name == _LOGGER.name:
        fields |= {"event": record.msg} | getattr(record, "fields", {})
    else:
        place = f"{Path(record.pathname).name}:{record.lineno}"
        fields |= {"event": "record", "logger": record.name, "place": place}
    if isinstance(record.exc_info, tuple) and record.exc_info[0]:
        frames = traceback.extract_tb(record.exc_info[2])
        fields["error"] = record.exc_info[0].__name__
        fields["frames"] = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return fields
