"""What CONTRIBUTING.md names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FOLDERS = ("attnviz", "tests", "docs", "pages", "assets", "requirements", "examples", "deploy")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ")]
FILES = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*")} | {*ROOT.iterdir()}


def test_every_file_and_folder_that_it_names_is_there() -> None:
    names = re.findall(r"`([\w./*-]+(?:/|\.(?:py|js|css|toml|md|yml|in|ts)))`", TEXT)
    places = {f"/{path.relative_to(ROOT).as_posix()}{'/' if path.is_dir() else ''}" for path in FILES}
    assert len(names) > 100
    made = {"site/"}  # by make docs
    assert [
        name
        for name in {*names} - made
        if not any(re.search(rf"/{re.escape(name).replace(chr(92) + '*', '[^/]*')}$", place) for place in places)
    ] == []


def test_the_table_is_short_enough_to_be_read() -> None:
    assert 10 < len(ROWS) <= 26  # with the heading


def test_every_constant_of_a_row_is_in_a_file_that_the_row_names() -> None:
    named = [(row, name) for row in ROWS for name in re.findall(r"`([A-Z_]{4,})`", row)]
    assert len(named) > 10
    for row, name in named:
        files = [
            path for path in FILES if path.suffix == ".py" and (path.name in row or f"{path.parent.name}/`" in row)
        ]
        assert any(re.search(rf"\b{name}\b", path.read_text("utf-8")) for path in files), row
