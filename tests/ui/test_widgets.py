"""Widgets that follow from dataclasses."""

import pytest

from attnviz.biases import BIASES
from attnviz.masks import MASKS
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES
from attnviz.sources import SOURCES
from attnviz.ui import widgets


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
    assert widgets.title(type(name, (), {})) == title


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

    assert widgets.help_text(Headed) == "One line.\n\nAnother paragraph."
    assert widgets.help_text(Bare) == "One line."


@pytest.mark.parametrize("kind", [*SCORES, *BIASES, *MASKS, *NORMALIZERS, *SOURCES], ids=widgets.title)
def test_no_help_on_screen_shows_an_example(kind: type) -> None:
    assert widgets.help_text(kind)
    assert ">>>" not in widgets.help_text(kind)
