"""What `make bench`, `make load`, `make mutate` and `make pictures` start runs to its end, in its smallest form."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.measures import SHORT

ROOT = Path(__file__).parents[2]


def printed(*command: str) -> str:
    """What a program prints; it has to end well."""
    variables = os.environ | {SHORT: "1", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=900
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def tables(text: str) -> list[list[str]]:
    """The lines of each table, with what it was measured with among its first."""
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return [block for block in blocks if any(re.search(r", Chrom\S+ [\d.]+, torch \d", line) for line in block[:2])]


def test_every_table_of_the_benchmark_has_numbers_and_their_machine() -> None:
    found = tables(printed("tests.bench"))
    assert len(found) == 23
    assert [lines for lines in found if not re.search(r"\d$", lines[-1])] == []


@pytest.mark.parametrize("module", ["load", "fairness", "load_class"])
def test_visitors_are_measured(module: str) -> None:
    [lines] = tables(printed(f"tests.bench.{module}"))
    assert re.search(r"\d", lines[3])


def test_mutants_are_killed() -> None:
    assert re.search(r"2 of +2 killed", printed("tests.mutate", "--sample", "2", "analysis/peaks.py"))


def test_a_picture_of_the_documentation_is_taken(address: str, tmp_path: Path) -> None:
    printed("docs.tools.pictures", "--app", address, "--into", str(tmp_path), "start")
    assert (tmp_path / "start.webp").stat().st_size > 10_000
