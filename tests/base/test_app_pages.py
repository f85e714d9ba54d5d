"""The declaration of the pages: what is listed elsewhere, by its nature, has the same pages."""

import re
from pathlib import Path

from attnviz.base import app_files
from attnviz.base.app_pages import GROUPS, PAGES, STATE_PAGES
from attnviz.lessons.lesson_files import FOLDER as LESSONS
from attnviz.pages import catalogue as views

ROOT = Path(__file__).parents[2]


def test_every_page_has_its_file_and_every_file_is_a_page() -> None:
    assert {*PAGES} == {file.stem for file in app_files.PAGES.glob("*.py")}


def test_every_page_with_a_state_has_a_view() -> None:
    assert {*STATE_PAGES} == {*views.BLOCKS}


def test_every_page_has_its_documentation() -> None:
    entries = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES.values():
        assert f"{page.title}: app/{page.name}.md" in entries
        assert (ROOT / f"docs/app/{page.name}.md").is_file()


def test_authors_of_lessons_are_told_all_pages_that_a_step_can_open() -> None:
    line = re.search(r'^page = "(.*)', (LESSONS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert line
    assert {*re.findall(r"[a-z_]+", line[1])} - {"or"} == {*STATE_PAGES}


def test_the_menu_has_four_groups_with_titles_of_their_own() -> None:
    titles = [group.title for group in GROUPS]
    assert len({*titles, *(page.title for page in PAGES.values())}) == 4 + len(PAGES)
