"""Views of links: the same numbers as the pages show."""

from collections.abc import Callable

import numpy as np
import pytest

from attnviz.base.link import Link
from attnviz.lessons.checks import Quantities
from attnviz.lessons.lesson_tables import parse_address
from attnviz.pages.catalogue import read_state, step_view, view_of
from attnviz.ui import quantities
from tests.support.app import open_link

LINKS = [
    "explore",
    "explore?source=Toy&toy.heads=2&toy.width=8&text=a+b+c&mask=Sliding+window&mask.size=2&pinned=1+·+b&head=Head+1",
    "explore?mask=Causal&score=Cosine&score.scale=3&normalizer=Top-k+softmax&normalizer.k=2",
    "explore?head=Mean+of+heads&special-tokens=Hidden&layer=encoder+5&biases=ALiBi&biases=Soft+cap",
    "explore?pinned=none",
    "explore?text=One+cat.&layer=nowhere&head=Head+99&mask.size=x&score=%3Cb%3E",
    "explore?source=Toy&toy.heads=999&toy.width=1e9&toy.rotary=half+split&toy.seed=nan",
    "scores?similarities=Dot&similarities=Distance&mask=Causal&normalizer=Sparsemax",
    "scores?look=Normalizers&mask=Sinks&softmax.temperature=2",
    "masks?mask-a=band(2)&biases-a=ALiBi&normalizer=Sigmoid&score=Dot",
    "lookup?table=1,0,5,cat;0,1,2,hen&query-x=9&query-y=0.55555&softness=T+%3D+0.3&similarity=General&w11=-1",
    "lookup?similarity=Additive&seed=7&softness=hard",
    "transformer?transformer-model=sentence-transformers/all-MiniLM-L6-v2&text=The+cat+sleeps.&open=encoder+3",
    "transformer?text=the+king+does+not+sleep+.&tab=Three+uses&word=2&encoder-head=0.1&row=1+·+king",
    "transformer?tab=Three+uses&word=99&cross-head=nobody&row=7",
    "transformer?unfolded=Before+attention&text=the+old+cat+sleeps+.",
    "transformer?tab=How+attention+forms&step=200",
    "explore?text=the+cat+sat&layer=encoder+2&head=Rollout+up+to+this+layer&colors=0+to+1",
    "side_by_side?right-layer=encoder+5&right-head=Head+2&text=the+cat&right-text=the+dog",
    "heads?inspect=Hidden+fact&words=60&depth=0&effects-head=layer+3,+head+1",
    "heads?kind=Entropy&against=induction+head&leave-out=Special+tokens",
    "steps?attention=Cross&sentence=a+b+c&d-k=2&heads=2&head-shown=Head+1&masked=Causal&query=2+·+c&biases=ALiBi",
]


@pytest.mark.parametrize(
    ("page", "state"), [pytest.param(*parse_address(text), id=str(i)) for i, text in enumerate(LINKS)]
)
def test_a_page_has_the_same_numbers(page: str, state: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Callable[[], Quantities]] = []
    monkeypatch.setattr(quantities, "publish", lambda compute, _query="": published.append(compute))
    app = open_link(page, state)
    assert not app.exception
    view = view_of(page, read_state(page, state))
    shown = published[-1]() if published else {}
    assert view.quantities == pytest.approx(dict(shown), abs=1e-6)
    for panel in view.panels:
        assert panel.weights.shape == (len(panel.query_tokens), len(panel.key_tokens))
        assert panel.row is None or np.isfinite(panel.weights[panel.row]).any()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("explore?source=Upload", "Upload vectors"),
        ("explore?source=Toy&text=", "There is no text yet"),
        ("steps?sentence=a", "words"),
    ],
    ids=["upload", "empty", "steps"],
)
def test_a_state_without_a_picture_says_why(address: str, reason: str) -> None:
    page, link = parse_address(address)
    state = read_state(page, link)
    assert reason in state.problem
    with pytest.raises(ValueError, match=reason):
        view_of(page, state)


def test_what_does_not_fit_on_paper_is_left_out() -> None:
    assert step_view(*parse_address("explore?text=" + "word+" * 800)) is None
