"""Text that a place for Markdown shows as text."""

import pytest

from attnviz.ui.markdown import plain


@pytest.mark.parametrize("mark", list(r"\`*_{}[]()#+-.!|$:<>~&=^"))
def test_every_mark_stands_for_itself(mark: str) -> None:
    assert plain(f"a{mark}b") == f"a\\{mark}b"


def test_words_and_letters_stay() -> None:
    assert plain("Zwei Wörter, שלום 1") == "Zwei Wörter, שלום 1"
