"""Widgets that follow from dataclasses."""

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.biases import BIASES
from attnviz.masks import MASKS, Causal, Padding
from attnviz.mechanism import Mechanism
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES
from attnviz.sources import SOURCES
from attnviz.ui import controls


def controlled(mask: str) -> AppTest:
    script = f"""
import streamlit as st
from attnviz.masks import Causal, Padding
from attnviz.mechanism import Mechanism
from attnviz.ui import controls
st.text(repr(controls.mechanism(Mechanism(mask={mask}))))
"""
    return AppTest.from_string(script, default_timeout=60).run()


@pytest.mark.parametrize("mask", ["Causal() & Padding(3)", "Padding((True, False))"])
def test_a_mask_that_no_menu_has_stays_as_the_model_made_it(mask: str) -> None:
    app = controlled(mask)
    assert not app.exception
    assert app.text[0].value == repr(Mechanism(mask=eval(mask)))
    menu = next(one for one in app.selectbox if one.label == "Mask")
    assert menu.value == "As in the model"
    menu.select("Causal").run()
    assert app.text[0].value == repr(Mechanism(mask=Causal()))


def test_a_mask_that_the_menu_has_begins_with_its_own_values() -> None:
    app = controlled("Padding(3)")
    assert app.text[0].value == repr(Mechanism(mask=Padding(3)))


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("SlidingWindow", "Sliding window"),
        ("PrefixLM", "Prefix LM"),
        ("Neighborhood2D", "Neighborhood 2D"),
        ("Full", "Full"),
    ],
)
def test_titles_read_as_words(name: str, title: str) -> None:
    assert controls.title(type(name, (), {})) == title


def test_the_help_of_a_class_is_its_docstring_without_the_examples() -> None:
    class Headed:
        """One line.

        Another paragraph.

        Example:
            >>> 1 + 1
            2
        """

    class Bare:
        """One line.

        >>> 1 + 1
        2
        """

    assert controls.help_text(Headed) == "One line.\n\nAnother paragraph."
    assert controls.help_text(Bare) == "One line."


@pytest.mark.parametrize("kind", [*SCORES, *BIASES, *MASKS, *NORMALIZERS, *SOURCES], ids=controls.title)
def test_no_help_on_screen_shows_an_example(kind: type) -> None:
    assert controls.help_text(kind)
    assert ">>>" not in controls.help_text(kind)
