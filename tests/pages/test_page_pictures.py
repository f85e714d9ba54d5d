"""The numbers of a page in the state of a link, without the page: the same as the page itself computes."""

from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.lessons.checks import Quantities
from attnviz.lessons.lesson_files import FOLDER, State, read_lessons
from attnviz.lessons.lesson_tables import parse_address
from attnviz.ui import quantities
from attnviz.ui.page_pictures import PageContent
from tests.support.app import open_page

SHIPPED = [
    (lesson.name, step.page, step.state)
    for lesson in read_lessons(FOLDER)[0]
    for step in lesson.steps
    if step.state is not None and step.page in ("explore", "lookup", "steps", "scores", "masks")
]
OTHERS = [
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
    "steps?attention=Cross&sentence=a+b+c&d-k=2&heads=2&head-shown=Head+1&masked=Causal&query=2+·+c&biases=ALiBi",
]


def content_of(page: str, state: State) -> PageContent | None:
    """What a page would show, in a run of the app."""

    def run(page: str, state: tuple) -> None:  # its source alone is run
        import streamlit as st

        from attnviz.ui.page_pictures import page_content

        st.session_state["content"] = page_content(page, state)

    app = AppTest.from_function(run, default_timeout=60, args=(page, state)).run()
    assert not app.exception
    return app.session_state["content"]


@pytest.mark.parametrize(
    ("page", "state"),
    [pytest.param(page, state, id=f"{i}-{name}") for i, (name, page, state) in enumerate(SHIPPED)]
    + [pytest.param(*parse_address(text), id=str(i)) for i, text in enumerate(OTHERS)],
)
def test_a_page_has_the_same_numbers(page: str, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Callable[[], Quantities]] = []
    monkeypatch.setattr(quantities, "publish", lambda compute, _query="": published.append(compute))
    link: dict[str, list[str]] = {}
    for name, value in state:
        link.setdefault(name, []).append(value)
    app = open_page(page, **link)
    assert not app.exception
    content = content_of(page, state)
    if content is None:
        assert page == "steps"
        assert ("part", "Why scale") in state
        return
    shown = published[-1]() if published else {}
    assert content.quantities == pytest.approx(dict(shown), abs=1e-6)
    for picture in content.pictures:
        assert picture.weights.shape == (len(picture.query_tokens), len(picture.key_tokens))
        assert picture.row is None or np.isfinite(picture.weights[picture.row]).any()


@pytest.mark.parametrize(
    "address",
    [
        "transformer",
        "path",
        "explore?source=Upload",
        "explore?text=" + "word+" * 800,
        "masks?mask-a=nonsense(",
        "explore?source=Toy&text=",
    ],
    ids=["transformer", "path", "upload", "long", "mask", "empty"],
)
def test_what_the_page_alone_knows_has_no_pictures(address: str) -> None:
    assert content_of(*parse_address(address)) is None
