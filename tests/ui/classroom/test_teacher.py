"""The teacher's run of a page: what is published, and what goes wrong without losing the page."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnviz.classroom.question import Question
from attnviz.classroom.store import StoreError, UnknownClass
from attnviz.pages.effects.head_effects import HeadEffects
from attnviz.ui.classroom import class_questions, teacher
from attnviz.ui.server import hosting, page_runs
from tests.support.app import contents, healthy, open_page
from tests.support.waiting import until


class Live:
    """A class that only remembers what is published, or refuses it."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.views: list[tuple[str, str]] = []  # links and titles
        self.problem = problem

    def publish(self, link: str, title: str, picture: bytes) -> None:
        if self.problem:
            raise self.problem
        self.views.append((link, title))


@pytest.fixture
def teach(monkeypatch: pytest.MonkeyPatch) -> Callable[[Live], Live]:
    """Makes a class that of the runs that follow."""

    def begin(live: Live) -> Live:
        monkeypatch.setattr(teacher, "taught_class", lambda: live)
        monkeypatch.setattr(teacher, "_show_panel", lambda live: None)
        return live

    return begin


def test_a_run_publishes_the_page_with_its_state(teach: Callable[[Live], Live]) -> None:
    live = teach(Live())
    healthy(open_page("explore", pinned="6 · cross", present="1"))
    assert live.views[-1] == ("explore?pinned=6+%C2%B7+cross", "Explore")


def test_followers_of_the_first_page_explore(teach: Callable[[Live], Live]) -> None:
    live = teach(Live())
    healthy(open_page("start"))
    assert live.views[-1][0] == "explore"


@pytest.mark.parametrize("problem", [UnknownClass("K7M2Q"), StoreError("The store of classes is full.")], ids=str)
def test_a_page_is_shown_when_the_class_cannot_be_written(problem: Exception, teach: Callable[[Live], Live]) -> None:
    teach(Live(problem))
    assert "What does each token look at" in contents(healthy(open_page("explore")))


def test_a_page_that_ends_early_is_published_and_an_ended_run_is_not(
    monkeypatch: pytest.MonkeyPatch, teach: Callable[[Live], Live]
) -> None:
    for ending, published in ((page_runs.StopException, 0), (page_runs.PageEnd, 1)):
        live = teach(Live())

        def end(*_: Any, ending: type[BaseException] = ending) -> None:
            raise ending

        with monkeypatch.context() as patches:
            patches.setattr("attnviz.ui.head_page.draw_blocks", end)
            open_page("explore")
        assert len(live.views) == published


@pytest.mark.parametrize(
    ("host", "is_local", "warning"),
    [
        ("192.168.1.7:8501", False, ""),
        ("class.example.org", False, ""),
        ("localhost:8501", False, "means the phone itself"),
        ("[::1]:8501", False, "means the phone itself"),
        ("localhost:8501", True, "attnviz --class"),
    ],
)
def test_the_code_warns_of_an_address_that_no_phone_can_open(
    host: str, is_local: bool, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "is_local", lambda: is_local)
    found = teacher.join_warning(f"http://{host}/class/K7M2Q")
    assert warning in found
    assert bool(warning) == bool(found)


def test_a_class_is_asked_which_word_matters_most(
    monkeypatch: pytest.MonkeyPatch, teach: Callable[[Live], Live]
) -> None:
    asked: dict[str, Question] = {}
    teach(Live())
    monkeypatch.setattr(teacher, "_show_panel", lambda live: asked.update(class_questions.page_questions()))
    unknown = HeadEffects(
        np.zeros(1), np.full((30, 9), np.nan), np.full(30, np.nan)
    )  # of heads, of which nobody is asked
    monkeypatch.setattr("attnviz.pages.effects.without_heads.head_effects", lambda _state, **_progress: unknown)
    app, ask = open_page("effects", measure="logit"), "Without which word does the logit of “Mary” change most?"
    until(lambda: healthy(app.run()) and ask in asked, pause=0.1)
    question = asked[ask]
    assert question.columns[question.truth.index(max(question.truth))] == "Mary"
    assert {"John", "John (2)"} <= {*question.columns}
    assert question.hides
