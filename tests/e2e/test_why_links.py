"""Why? beside the sentences of maps and beside next words, in a real browser: it opens the question about them."""

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from attnviz.models import MINILM, SMOLLM2
from attnviz.pages.why.state import LOGIT_QUESTION, SCORE_QUESTION, WhyState
from tests.support.browser import AppPage, Browser, Explore, place_of, shared


class Write(AppPage):
    """The Write page."""

    path = "write"

    def alternative(self, number: int) -> Locator:
        return self.page.locator(".write-alternatives li").nth(number)


@pytest.fixture
def write(browser: Browser, address: str) -> Iterator[Write]:
    with shared(browser, address, kind=Write) as app:
        app.go("write")
        app.until("() => document.querySelector('.attnviz-write')?.dataset.ready === 'true'")
        yield app.painted()


def asked(app: AppPage) -> WhyState:
    """What Why is asked, once it has answered."""
    app.until("() => document.querySelector('.st-key-why-grid .attnviz-chart')?.dataset.ready === 'true'")
    app.settled()
    expect(app.alert).to_have_count(0)
    state = WhyState.read(parse_qsl(urlsplit(app.page.url).query))
    assert (state.problem, state.refused) == ("", ())
    return state


def look(state: WhyState) -> tuple[str, str, int, int, int, int]:
    """The model, the question, and the weight that it is about."""
    return state.model, state.question, state.layer, state.head, state.query, state.key


def test_a_clicked_cell_keeps_its_sentence_and_its_link(explore: Explore) -> None:
    explore.open()
    link = explore.heatmap.get_by_role("link", name="Why there?")
    expect(link).to_be_visible()
    place, height = place_of(explore.sentence), place_of(explore.heatmap)["height"]
    explore.page.mouse.move(*explore.cell(6, 8))
    expect(explore.sentence).to_contain_text("cross gives")
    expect(link).to_be_hidden()  # the pointer could not reach it
    explore.page.mouse.click(*explore.cell(6, 7))
    explore.expect_in_link("pinned", "6+%C2%B7+cross")
    explore.painted()
    explore.page.mouse.move(5, 5)
    expect(explore.sentence).to_contain_text("of its attention to the.")
    assert (place_of(explore.sentence)["x"], place_of(explore.heatmap)["height"]) == (place["x"], height)
    link.click()
    assert look(asked(explore)) == (MINILM, SCORE_QUESTION, 3, 1, 6, 7)


def test_a_link_is_reached_by_keys(explore: Explore) -> None:
    explore.open("?layer=encoder+2&head=Head+4")
    explore.stage.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        explore.page.keyboard.press(key)
    explore.expect_in_link("pinned", "11+%C2%B7+was")
    explore.painted()
    sentence = explore.sentence.inner_text()
    link = explore.heatmap.get_by_role("link", name="Why there?")
    for _ in range(4):  # of the buttons between
        explore.page.keyboard.press("Shift+Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    expect(explore.sentence).to_have_text(sentence)
    explore.page.keyboard.press("Enter")
    assert look(asked(explore)) == (MINILM, SCORE_QUESTION, 2, 4, 11, 1)


def test_a_written_word_has_links_to_its_logit(write: Write) -> None:
    row, other = write.alternative(0), write.alternative(1)
    expect(row).to_contain_text("Rome")
    expect(row.get_by_role("link", name="Why this word?")).to_be_visible()
    expect(other.locator(".attnviz-page-link")).to_have_css("opacity", "0")
    before = place_of(other)
    other.hover()
    expect(other.locator(".attnviz-page-link")).to_have_css("opacity", "1")
    assert place_of(other) == before
    name = other.locator("bdi").inner_text().strip()
    other.get_by_role("link", name="Why not?").click()
    state = asked(write)
    assert (state.question, state.position, state.token, state.other) == (LOGIT_QUESTION, 11, "Rome", name)
    assert state.text.startswith("The capital of France is Paris. The capital of Italy is Rome.")


def test_what_a_head_looked_at_while_it_wrote_has_links(write: Write) -> None:
    link = write.page.locator(".write-sentence .attnviz-page-link")
    write.page.locator(".write-token").nth(3).hover()
    expect(link).to_be_hidden()  # the pointer could not reach it
    write.page.mouse.move(1, 1)
    link.click()
    assert look(asked(write)) == (SMOLLM2, SCORE_QUESTION, 17, 5, 11, 5)
    write.page.go_back()
    write.until("() => document.querySelector('.attnviz-write')?.dataset.ready === 'true'")
    write.painted()
    write.heatmap.get_by_role("link", name="Why there?").click()
    assert look(asked(write)) == (SMOLLM2, SCORE_QUESTION, 17, 5, 11, 5)
