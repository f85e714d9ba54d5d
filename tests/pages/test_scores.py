"""The Scores page without a browser."""

from functools import partial

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.page.parts import title
from attnviz.scores import SCORES
from tests.support.app import contents, ok, open_page
from tests.support.array_files import npz

page = partial(open_page, "scores")


def charts(app: AppTest) -> int:
    assert not app.exception
    return len(app.get("bidi_component"))


@pytest.mark.parametrize("source", ["Model", "Toy"])
def test_two_similarities_and_their_difference(source: str) -> None:
    assert charts(ok(page(source=source))) == 3


def test_every_similarity_can_stand_beside_the_others() -> None:
    app = page()
    names = [title(score) for score in SCORES]
    app.multiselect(key="similarities").set_value(names).run()
    assert charts(app) == len(names) + 1
    app.multiselect(key="similarities").set_value(names[:1]).run()
    assert charts(app) == 1
    app.multiselect(key="similarities").set_value([]).run()
    assert "at least one similarity" in contents(app)


def test_a_text_of_ones_own_has_a_query_pinned() -> None:
    app = page(look="Normalizers", text="one two three four five")
    assert app.selectbox(key="pinned").value == "3 · three"  # behind [CLS], one and two
    assert charts(app) == 1
    app.text_input(key="text").set_value("six seven").run()
    assert app.selectbox(key="pinned").value == "2 · seven"


def test_a_setting_of_a_normalizer_is_kept() -> None:
    app = page(look="Normalizers")
    before = contents(app)
    app.number_input(key="softmax.temperature").set_value(5.0).run()
    assert contents(ok(app)) != before
    app.selectbox(key="pinned").select("3 · didn").run()
    assert ok(app).number_input(key="softmax.temperature").value == 5.0


def test_a_mask_that_is_refused_keeps_the_last_picture_and_what_was_typed() -> None:
    app = page(mask="Dilated")
    assert charts(ok(app)) == 3
    app.text_input(key="text").set_value("one two three").run()
    assert charts(ok(app)) == 3


def test_a_similarity_that_does_not_fit_is_said() -> None:
    app = page(source="Upload")
    app.file_uploader[0].upload("widths.npz", npz(query=np.ones((3, 4)), key=np.ones((5, 6))))
    app.run()
    assert not app.exception
    assert app.error
