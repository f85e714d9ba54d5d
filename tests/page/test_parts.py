"""Names and help texts that follow from classes."""

import pytest

from attnviz.biases import BIASES
from attnviz.masks import MASKS
from attnviz.normalizers import NORMALIZERS
from attnviz.page.parts import help_text, title
from attnviz.scores import SCORES
from attnviz.sources import SOURCES


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SlidingWindow", "Sliding window"),
        ("PrefixLM", "Prefix LM"),
        ("Neighborhood2D", "Neighborhood 2D"),
        ("Full", "Full"),
    ],
)
def test_titles_read_as_words(name: str, expected: str) -> None:
    assert title(type(name, (), {})) == expected


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

    assert help_text(Headed) == "One line.\n\nAnother paragraph."
    assert help_text(Bare) == "One line."


@pytest.mark.parametrize("kind", [*SCORES, *BIASES, *MASKS, *NORMALIZERS, *SOURCES], ids=title)
def test_no_help_on_screen_shows_an_example(kind: type) -> None:
    assert help_text(kind)
    assert ">>>" not in help_text(kind)
