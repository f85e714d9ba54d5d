"""What is written to the log, and what is not; in processes of their own, because logging is one for a process."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECRET = "xyzzy-9301"
START = """
import asyncio, logging, sys, threading, warnings
import streamlit.logger
from attnviz.base.settings import LogStyle
from attnviz.ui.server import logs
from attnviz.ui.server.page_runs import observation
logs.start_logs(LogStyle(sys.argv[1]))
SECRET = "xyzzy-9301"
"""


RUNS = """
with observation("masks"):
    pass
try:
    with observation("models"):
        raise ZeroDivisionError(SECRET)
except ZeroDivisionError:
    pass
"""
LEAKS = """
def fail():
    raise ValueError(SECRET)
NAMES = ("streamlit.error_util", "uvicorn.error", "transformers.generation", "huggingface_hub", "asyncio", "later")
for name in NAMES:
    for logger in (logging.getLogger(name), streamlit.logger.get_logger(name + ".new")):
        logger.info(SECRET)
        logger.warning(f"said {SECRET}")
        logger.error("said %s", SECRET)
        logger.error("said %s %s", SECRET)  # too few arguments: logging would write them to say so
        try:
            fail()
        except ValueError:
            logger.exception(SECRET)
warnings.warn(SECRET)
thread = threading.Thread(target=fail)
thread.start()
thread.join()
"""


@cache
def written(style: str, program: str = RUNS + LEAKS) -> list[str]:
    """The lines that are written of two runs of pages, and after them of what packages say of what people typed."""
    command = [sys.executable, "-c", START + program, style]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    return (ended.stdout + ended.stderr).splitlines()


def test_a_run_of_a_page_is_one_object_in_one_line() -> None:
    done, failed = map(json.loads, written("json")[:2])
    assert done.pop("time").endswith("+00:00")
    assert done == {"level": "info", "event": "page run", "page": "masks", "seconds": 0.0, "outcome": "done"}
    assert (failed["level"], failed["outcome"], failed["error"]) == ("error", "failed", "ZeroDivisionError")


def test_a_run_of_a_page_is_one_line_of_words() -> None:
    done, failed = written("plain")[:2]
    assert done.endswith(" info page run page=masks seconds=0.0 outcome=done")
    assert failed.endswith(" error page run page=models seconds=0.0 outcome=failed error=ZeroDivisionError")


def test_runs_are_not_written_where_the_log_is_unchanged() -> None:
    assert written("unchanged", RUNS) == []


@pytest.mark.parametrize("style", ["json", "plain"])
def test_no_package_writes_what_people_typed(style: str) -> None:
    lines = written(style)
    assert SECRET not in " ".join(lines)
    assert len(lines) == 2 + 6 * 2 * 4 + 2
    assert sum("ValueError" in line and " fail" in line for line in lines) == 6 * 2 + 1  # errors, and where they were
    if style == "json":
        assert all("time" in json.loads(line) for line in lines)
