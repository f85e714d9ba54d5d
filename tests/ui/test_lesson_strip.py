"""The strip of a lesson while its page computes."""

from html import unescape
from unittest.mock import Mock

import pytest

from attnviz.lessons.lesson_files import FOLDER, read_lesson
from attnviz.ui import quantities
from tests.support.app import open_link


def test_the_question_is_there_before_the_page_has_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    lesson = read_lesson(FOLDER / "01-dictionary.toml")
    monkeypatch.setattr(quantities, "collect", Mock(side_effect=OSError("the page has not come that far")))
    app = open_link(lesson.steps[0].page, [*(lesson.steps[0].state or ()), *lesson.parameters(1)])
    assert len(app.exception) == 1
    drawn = unescape(" ".join(one.body for one in app.get("html")))
    assert lesson.steps[0].ask in drawn
    assert "attnviz-ways" in drawn
