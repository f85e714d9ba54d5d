"""The Heads page: its tabs, and what a link to it may say."""

import pytest

from attnviz.models import MINILM
from attnviz.pages.heads.state import HIDDEN_FACT, MANY_TEXTS, REPEATED, THIS_TEXT
from attnviz.ui.server import jobs
from tests.support.app import contents, errors, healthy, ok, open_page
from tests.support.tiny_models import TEXT
from tests.support.waiting import until


@pytest.mark.parametrize("tab", [THIS_TEXT, REPEATED, MANY_TEXTS, HIDDEN_FACT])
@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_every_tab_of_tiny_models(saved, name: str, tab: str) -> None:
    own = f"{TEXT}\na lazy dog"
    app = open_page("heads", **{"why-model": saved / name, "text": TEXT, "own-texts": own}, inspect=tab)
    until(lambda: not app.run().get("progress"), pause=0.1)
    assert [each.label for each in app.tabs] == [THIS_TEXT, REPEATED, MANY_TEXTS, HIDDEN_FACT]
    assert errors(app) or len(app.get("bidi_component")) >= 2, "a chart, or why there is none"


@pytest.mark.parametrize(
    "link", [{"words": 5_000}, {"words": "many", "depth": -4}, {"effects-head": "layer 99, head 1"}]
)
def test_a_link_with_nonsense_opens(link: dict[str, object]) -> None:
    ok(healthy(open_page("heads", **{"why-model": MINILM}, inspect=HIDDEN_FACT, **link), charts=2))


def test_what_cannot_be_shown_keeps_the_tabs(saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.models.model.LoadedModel.limit", 48)
    app = open_page("heads", **{"why-model": MINILM}, inspect=HIDDEN_FACT)
    assert "reads at most 48 tokens" in errors(app)
    assert len(app.tabs) == 4
    app = open_page("heads", **{"why-model": saved / "vit"})
    assert "sees images" in errors(app)


def test_of_a_long_text_all_heads_are_measured_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    started, request = [], jobs.request
    monkeypatch.setattr("attnviz.ui.blocks.LONG_WORK", 0)
    monkeypatch.setattr(jobs, "request", lambda *job: started.append(request(*job)) or started[-1])
    app = ok(open_page("heads", **{"why-model": MINILM}, kind="Entropy", leave_out="The first token"))
    started[0].thread.join()
    assert "has the largest number for “Entropy, bits”" in contents(ok(app.run()))


def test_a_second_number_keeps_the_first() -> None:
    app = ok(open_page("heads", **{"why-model": MINILM}, kind="Entropy"))
    assert "has the largest number for “Entropy, bits”" in contents(app)
    app.selectbox(key="against").select("Distance").run()
    assert ok(app).selectbox(key="kind").value == "Entropy"
