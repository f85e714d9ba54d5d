"""What a page says of a link that asks for what it does not have."""

import pytest

from tests.support.app import healthy, open_page


def test_values_that_a_page_does_not_have_are_named_once() -> None:
    app = healthy(open_page("explore", layer="encoder 77", head="Head 5", mask="Causal"))
    (toast,) = app.toast
    assert "layer" in toast.value
    assert "encoder 77" in toast.value
    assert "head" not in toast.value
    assert not app.run().toast


def test_text_of_a_link_is_text() -> None:
    (toast,) = healthy(open_page("explore", layer="**bold** <b>")).toast
    assert "**bold**" not in toast.value


@pytest.mark.parametrize(
    ("page", "link"),
    [
        (
            "explore",
            {"pinned": "10 · it", "layer": "encoder 3", "head": "Head 1", "Soft_cap": "", "utm-source": "course"},
        ),
        ("lookup", {"softness": "exact match", "query-x": "1.50"}),
        ("steps", {"part": "Why scale", "d": "512"}),
        ("steps", {"heads": "1", "d-k": "4"}),
        ("masks", {"mask-a": "full", "mask-b": "mask that is not one"}),  # the page names the mistake itself
        ("transformer", {"word": "7", "tab": "Three uses"}),
    ],
)
def test_values_that_a_page_has_or_begins_with_are_not(page: str, link: dict[str, str | list[str]]) -> None:
    assert not healthy(open_page(page, **link)).toast
