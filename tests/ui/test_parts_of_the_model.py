"""The controls of a part of a mechanism open at the one that a layer was made for."""

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.masks import Causal, Padding


def controls(mask: str) -> AppTest:
    script = f"""
import streamlit as st
from attnviz.masks import Causal, Padding
from attnviz.pages.explore.state import ExploreState
from attnviz.ui.field_widgets import draw
st.text(repr(draw(ExploreState.mask, opening={mask})))
"""
    return AppTest.from_string(script, default_timeout=60).run()


@pytest.mark.parametrize("mask", ["Causal() & Padding(3)", "Padding((True, False))"])
def test_a_mask_that_no_menu_has_stays_as_the_model_made_it(mask: str) -> None:
    app = controls(mask)
    assert not app.exception
    assert app.text[0].value == repr(eval(mask))
    menu = next(one for one in app.selectbox if one.label == "Mask")
    assert menu.value == "As in the model"
    menu.select("Causal").run()
    assert app.text[0].value == repr(Causal())


def test_a_mask_that_the_menu_has_begins_with_its_own_values() -> None:
    app = controls("Padding(3)")
    assert app.text[0].value == repr(Padding(3))
