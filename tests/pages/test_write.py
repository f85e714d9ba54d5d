"""The Write page takes any link, and shows what is wrong in a sentence."""

import pytest

from tests.support.app import errors, ok, open_page


@pytest.mark.parametrize(
    "link", [{"choices": "x"}, {"branches": "x~y"}, {"choices": "3.1-2.1"}, {"length": "0"}], ids=str
)
def test_what_a_link_does_not_have_is_left_out(link: dict[str, str]) -> None:
    app = ok(open_page("write", **link))
    assert not errors(app)
    assert app.get("bidi_component")


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"writer": "/nowhere"}, "/nowhere"),
        ({"writer": "sentence-transformers/all-MiniLM-L6-v2"}, "does not write"),
        ({"prompt": " "}, "There is no text yet"),
        ({"choices": "0.4999999"}, "there is no token 4999999"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_said(link: dict[str, str], sentence: str) -> None:
    app = open_page("write", **link)
    assert not app.exception
    assert sentence in errors(app)
