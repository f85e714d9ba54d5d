"""The pages for each reader: their plans, numbers and versions are those of the code and of the programs on them."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.test_examples import programs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("minutes", [45, 90])
def test_a_plan_for_teachers_has_lessons_that_fit_its_minutes(minutes: int) -> None:
    page = (DOCS / "for-teachers.md").read_text("utf-8")
    [section] = re.findall(rf"^## {minutes} minutes.*?(?=^## )", page, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", section, re.MULTILINE)
    assert sum(int(count) for count, _ in rows) == minutes
    planned = {title for _, what in rows for title in re.findall(r"\*\*(.+?)\*\*", what)}
    files = (ROOT / "assets" / "lessons").glob("[0-9]*.toml")
    assert planned
    assert planned <= {tomllib.loads(path.read_text("utf-8"))["title"] for path in files}


def test_numbers_of_what_maps_tell_are_those_of_its_program() -> None:
    page = DOCS / "what-maps-tell.md"
    [program] = programs(page)
    prose = page.read_text("utf-8").split("## The numbers")[0].replace("−", "-")
    prose = re.sub(r"\]\(.*?\)", "]", prose)  # without addresses
    names = set(re.findall(r"(?<=[Hh]ead )\d+\.\d+", prose))  # of heads
    numbers = set(re.findall(r"-?\d+\.\d+", prose)) - names
    assert len(numbers) > 20
    assert [number for number in numbers if number not in program] == []


def test_the_version_of_transformer_lens_is_that_of_the_oracles() -> None:
    [version] = re.findall(r"transformer-lens==(\S+)", (ROOT / "Makefile").read_text("utf-8"))
    assert f"TransformerLens {version} within" in (DOCS / "for-interpretability.md").read_text("utf-8")
