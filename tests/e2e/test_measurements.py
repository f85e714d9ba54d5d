"""What `make bench`, `make load`, `make mutate` and `make pictures` start runs to its end, in its smallest form."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.measures import SHORT, check_in_front, in_front, new_context, new_page
from tests.support.browser import ARGUMENTS, CHROMIUM, Browser

ROOT = Path(__file__).parents[2]
# Runs modules of tests/bench one after the other, in one process: most of the time of a short one is its imports.
ALL = """import runpy, sys
modules, sys.argv[1:] = sys.argv[1:], []
for module in modules:
    try:
        runpy.run_module(f"tests.bench.{module}", run_name="__main__")
    except SystemExit as ended:
        assert not ended.code
"""


def printed(*command: str) -> str:
    """What a program of Python, with its arguments, prints; it has to end well."""
    variables = os.environ | {SHORT: "1", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=2400
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def sections(text: str) -> tuple[str, list[list[str]]]:
    """What the numbers were measured with, and the lines of each table: its title, its columns and its rows."""
    title, machine, *tables = text.strip().split("\n\n")
    assert title.startswith("## ")
    return machine, [lines for lines in map(str.splitlines, tables) if len(lines) > 2]


def test_every_table_has_numbers_and_their_machine() -> None:
    counts = {"load": 1, "fairness": 1, "load_class": 1, "__main__": 27}
    parts = re.split(r"^(?=## )", printed("-c", ALL, *counts), flags=re.MULTILINE)[1:]
    for count, text in zip(counts.values(), parts, strict=True):
        machine, found = sections(text)
        assert re.search(
            r"^\d{4}-\d\d-\d\d: \d+ × .*\((\w+, )+\w+\); .*torch \d.* threads, Chrom\S+ [\d.]+; .* load", machine
        )
        assert len(found) == count
        assert [lines for lines in found if not re.search(r"(\d|refused|never|none)$", lines[-1])] == []


def test_a_page_is_measured_only_in_front_and_at_the_size_of_the_others(browser: Browser) -> None:
    """A bare page behind Explore took 1.4 s for what takes it 0.2 s in front, and Explore seemed quicker than it."""
    launched = browser.playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    context = new_context(launched)
    behind, front = new_page(context), new_page(context)
    with pytest.raises(RuntimeError, match=r"only in the state .* about:blank is in .*'focused': False"):
        check_in_front(behind)
    with in_front(behind):
        pass
    with pytest.raises(RuntimeError, match="'focused': False"):
        check_in_front(front)
    with pytest.raises(RuntimeError, match="'focused': False"), in_front(front):
        behind.bring_to_front()
    front.bring_to_front()
    front.set_viewport_size({"width": 1200, "height": 800})
    with pytest.raises(RuntimeError, match="'width': 1200"):
        check_in_front(front)
    launched.close()


def test_mutants_are_killed() -> None:
    assert re.search(r"2 of +2 killed", printed("-m", "tests.mutate", "--sample", "2", "analysis/token_context.py"))


def test_a_picture_of_the_documentation_is_taken(address: str, tmp_path: Path) -> None:
    printed("-m", "docs.tools.pictures", "--app", address, "--into", str(tmp_path), "start")
    assert (tmp_path / "start.webp").stat().st_size > 10_000
