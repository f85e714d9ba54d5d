"""Errors that nobody expected: a page says so, keeps the last good figure, and its run counts as failed."""

import pytest

from attnviz.pages.explore import blocks as explore
from attnviz.pages.steps import stages as step_stages
from attnviz.ui.server import metrics
from tests.support.app import contents, errors, open_page

SECRET = "what somebody typed"
SAID = "This cannot be shown: attnviz has an error here ({}), and the server has logged where."
PROBLEMS = [ZeroDivisionError(SECRET), MemoryError(SECRET), KeyError(SECRET)]


def failing(problem: Exception):
    def fail(*_arguments: object, **_options: object) -> None:
        raise problem

    return fail


def failed_runs(page: str) -> float:
    return metrics.REGISTRY.get_sample_value("attnviz_page_runs_total", {"page": page, "outcome": "failed"}) or 0.0


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_the_last_good_figure_stays(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    app = open_page("explore", source="Toy", text="a b c")
    charts, before = len(app.get("bidi_component")), failed_runs("explore")
    made, fail = explore.head_view, failing(problem)
    monkeypatch.setattr(
        explore, "head_view", lambda one, *links: made(one, *links) if one.inputs.queries == 3 else fail()
    )
    app.text_input(key="text").set_value("a b c d").run()
    assert SAID.format(type(problem).__name__) in errors(app)
    assert SECRET not in errors(app)
    assert len(app.get("bidi_component")) == charts
    assert failed_runs("explore") == before + 1


def test_a_page_that_fails_says_so_and_has_its_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    before = failed_runs("steps")
    monkeypatch.setattr(step_stages, "_stage", failing(ZeroDivisionError(SECRET)))
    app = open_page("steps")
    assert SAID.format("ZeroDivisionError") in errors(app)
    assert app.selectbox(key="attention").value
    assert failed_runs("steps") == before + 1


@pytest.mark.parametrize(
    ("problem", "said"),
    [(ValueError("Choose another word."), "Choose another word."), (KeyError(SECRET), SAID.format("KeyError"))],
    ids=["ValueError", "KeyError"],
)
def test_a_page_that_fails_leaves_its_lesson(monkeypatch: pytest.MonkeyPatch, problem: Exception, said: str) -> None:
    before = failed_runs("lookup")
    monkeypatch.setattr("attnviz.ui.block_page.show_block_page", failing(problem))
    app = open_page("lookup", lesson="02-soft")
    assert said in errors(app)
    assert "Attention asks how similar the query is to every key" in contents(app)
    assert failed_runs("lookup") == before + 1


def test_a_part_that_is_drawn_again_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, before = [], failed_runs("write")

    def fail(*_arguments: object, **_options: object) -> None:
        calls.append(1)
        raise KeyError(SECRET)

    monkeypatch.setattr("attnviz.ui.write.written_text._follow", fail)
    app = open_page("write", prompt="One part fails")
    assert calls == [1]
    assert SAID.format("KeyError") in errors(app)
    assert SECRET not in contents(app)
    assert len(app.get("bidi_component"))  # the map so far, which is drawn after it
    assert failed_runs("write") == before + 1
