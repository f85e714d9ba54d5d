"""The page of measurements, which the benchmarks write."""

import re
from math import inf, nan

import pytest

from tests.bench import measures
from tests.bench.measures import PAGE, number, row, section, table, with_section

NAMES = ("make bench", "make bench-effects", "make load: visitors", "make load: fairness", "make load: class")


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page with one section, which a run without arguments writes."""
    path = tmp_path / "page.md"
    path.write_text("# Title\n<!-- one -->\nold\n<!-- end of one -->\nrest\n", "utf-8")
    monkeypatch.setattr(measures, "PAGE", path)
    monkeypatch.setattr(measures, "machine", lambda: "a machine")
    monkeypatch.delenv(measures.SHORT, raising=False)
    monkeypatch.setattr("sys.argv", ["program"])
    return path


def measure():
    with section("one", "Speed"):
        table("Sums", ("mask", "ms"))
        row("a | b", 12.345)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_has_its_place_and_a_heading(name):
    text = with_section(PAGE.read_text("utf-8"), name, "## New")
    assert f"<!-- {name} -->\n\n## New\n\n<!-- end of {name} -->" in text
    for other in {*NAMES} - {name}:
        assert re.search(rf"<!-- {other} -->\n\n## \w", text)


def test_a_run_writes_its_section_in_the_place_of_the_last(page):
    measure()
    measure()
    text = page.read_text("utf-8")
    assert re.search(r"^# Title\n<!-- one -->\n\n## Speed\n\n\d{4}-\d\d-\d\d: a machine\.\n", text)
    assert text.endswith("\n### Sums\n\n| mask | ms |\n|-|-|\n| a \\| b | 12.3 |\n\n<!-- end of one -->\nrest\n")


def test_a_short_run_and_one_with_arguments_write_nothing(page, monkeypatch):
    before = page.read_text("utf-8")
    monkeypatch.setattr("sys.argv", ["program", "30"])
    measure()
    monkeypatch.setattr("sys.argv", ["program"])
    monkeypatch.setenv(measures.SHORT, "1")
    measure()
    assert page.read_text("utf-8") == before


def test_a_run_that_fails_writes_nothing(page):
    before = page.read_text("utf-8")
    with pytest.raises(ZeroDivisionError), section("one", "Speed"):
        row(1 / 0)
    assert page.read_text("utf-8") == before


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(ValueError, match="has no section between '<!-- two -->"):
        with_section("<!-- one -->\n<!-- end of one -->\n", "two", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.354, "1.35"), (12.34, "12.3"), (1485.4, "1,485"), (131072, "131,072")],
)
def test_numbers_have_about_three_digits(value, text):
    assert number(value) == text


def test_what_never_came_back_and_what_was_not_measured_is_said():
    assert (number(inf), number(nan)) == ("never", "none")
