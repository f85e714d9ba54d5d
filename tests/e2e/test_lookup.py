"""The Lookup page in a real browser: the query is dragged, the table is edited in place."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from attnviz.page.glossary import GLOSSARY
from attnviz.pages.lookup.dictionary import Point, look_up, lookup_mechanism
from attnviz.pages.lookup.sentences import plain_number
from attnviz.pages.lookup.state import EXAMPLE
from attnviz.scores import ScaledDot
from tests.support.browser import AppPage, Browser, place_of, shared

SOFT = "?softness=T+%3D+1"
# Notes in each frame what the sentence says comes back and what the network draws, where both are seen and differ.
WATCH = """() => {
    window.seen = { frames: 0, differences: [] };
    const look = () => {
        const [said, drawn] = [".attnviz-result b", "[data-node=result]"].map((name) => document.querySelector(name));
        const isSeen = said && drawn && said.checkVisibility({ visibilityProperty: true });
        if (isSeen && said.textContent !== drawn.textContent)
            window.seen.differences.push([said.textContent, drawn.textContent]);
        window.seen.frames += 1;
        requestAnimationFrame(look);
    };
    look();
}"""


class Lookup(AppPage):
    """The Lookup page."""

    path, charts = "lookup", ("plane",)

    @property
    def plane(self) -> Locator:
        return self.chart("plane")

    @property
    def result(self) -> Locator:
        return self.page.locator(".attnviz-result")

    def at(self, x: float, y: float) -> Point:
        """Where a point of the plane is on the screen."""
        self.plane.scroll_into_view_if_needed()
        left, top = self.plane.locator(".attnviz-graph").evaluate(
            """(e, [x, y]) => {
                const { xaxis, yaxis } = e._fullLayout, box = e.getBoundingClientRect();
                return [box.left + xaxis._offset + xaxis.l2p(x), box.top + yaxis._offset + yaxis.l2p(y)];
            }""",
            [x, y],
        )
        return left, top

    def says(self, x: float, y: float) -> None:
        """Waits until the page says what this query gets, and the link which one it is."""
        expected = look_up(EXAMPLE, (x, y), lookup_mechanism("T = 1", ScaledDot())).result
        assert expected is not None
        expect(self.result).to_contain_text(plain_number(expected))
        self.expect_in_link("query-x", str(x))
        self.expect_in_link("query-y", str(y))
        expect(self.plane).to_have_attribute("data-ready", "true")

    def shows_in_network(self, x: float, y: float) -> None:
        """Waits until the network shows the numbers of this query."""
        lookup = look_up(EXAMPLE, (x, y), lookup_mechanism("T = 1", ScaledDot()))
        assert lookup.result is not None
        expect(self.page.locator("[data-node=result]")).to_have_text(plain_number(lookup.result))
        for i, similarity in enumerate(lookup.similarities):
            expect(self.page.locator(f"[data-node=similarity-{i}]")).to_have_text(plain_number(similarity))


@pytest.fixture
def lookup(browser: Browser, address: str) -> Iterator[Lookup]:
    with shared(browser, address, kind=Lookup) as page:
        yield page


def test_the_query_is_dragged_or_moved_by_keys_and_the_numbers_follow(lookup: Lookup) -> None:
    lookup.open(SOFT)
    mouse = lookup.page.mouse
    mouse.move(*lookup.at(1.5, 0.5))
    mouse.down()
    mouse.move(*lookup.at(0.52, 1.01), steps=5)
    expect(lookup.sentence).to_have_text("The query is at (0.5, 1).")  # before it is dropped
    expect(lookup.plane.locator(".attnviz-overlay circle")).to_have_count(1)
    lookup.shows_in_network(0.5, 1.0)  # which the browser has computed
    mouse.move(*lookup.at(-0.71, 0.88), steps=5)
    expect(lookup.sentence).to_have_text("The query is at (−0.7, 0.9).")
    lookup.expect_in_link("query-x", None)
    mouse.up()
    lookup.says(-0.7, 0.9)
    lookup.shows_in_network(-0.7, 0.9)
    expect(lookup.page.get_by_label("Query x")).to_have_value("-0.7")
    expect(lookup.plane.locator(".attnviz-overlay *")).to_have_count(0)
    drag = "e => [e.layout.annotations.at(-1).x, e.layout.annotations.at(-1).y]"
    assert lookup.plane.locator(".attnviz-graph").evaluate(drag) == [-0.7, 0.9]
    # Put back, it is as it was.
    handle = lookup.plane.locator(".shapelayer [data-index]").last
    mouse.move(*lookup.at(-0.7, 0.9))
    mouse.down()
    mouse.move(*lookup.at(0, 0), steps=3)
    expect(handle).to_have_css("visibility", "hidden")
    mouse.move(*lookup.at(-0.7, 0.9), steps=3)
    mouse.up()
    expect(handle).to_have_css("visibility", "visible")
    expect(lookup.plane.locator(".attnviz-overlay *")).to_have_count(0)
    lookup.expect_in_link("query-x", "-0.7")
    # Beyond the edge it stays at the edge.
    mouse.move(*lookup.at(-0.7, 0.9))
    mouse.down()
    mouse.move(2000, 5, steps=3)
    mouse.up()
    lookup.says(2.0, 2.0)

    lookup.open(SOFT)
    lookup.stage.focus()
    for key, times in (("ArrowLeft", 5), ("ArrowUp", 3), ("Shift+ArrowLeft", 1)):
        for _ in range(times):
            lookup.stage.press(key)
    expect(lookup.live).to_have_text("The query is at (0.5, 0.8).")  # no press is lost
    lookup.says(0.5, 0.8)
    # Back on a key, the dictionary has an answer again.
    lookup.page.get_by_role("link", name="ant", exact=True).click()
    lookup.says(-0.8, -1.1)


def test_the_sentence_never_says_the_numbers_of_another_query(lookup: Lookup) -> None:
    lookup.open(SOFT)
    expect(lookup.result).to_be_visible()
    lookup.page.evaluate(WATCH)
    mouse = lookup.page.mouse
    mouse.move(*lookup.at(1.5, 0.5))
    mouse.down()
    mouse.move(*lookup.at(0.5, 1.0), steps=5)
    expect(lookup.result).to_be_hidden()
    lookup.shows_in_network(0.5, 1.0)
    mouse.up()
    # Again before the page has answered.
    mouse.down()
    mouse.move(*lookup.at(-0.7, 0.9), steps=5)
    mouse.up()
    lookup.says(-0.7, 0.9)
    expect(lookup.result).to_be_visible()
    lookup.painted()  # a key that is pressed while the chart is replaced is nobody's
    for key in ("ArrowLeft", "ArrowUp"):
        lookup.stage.press(key)
    lookup.says(-0.8, 1.0)
    expect(lookup.result).to_be_visible()
    seen = lookup.page.evaluate("window.seen")
    assert seen["frames"] > 20
    assert seen["differences"] == []


def test_gradients_flow_back_unless_the_choice_is_hard(lookup: Lookup) -> None:
    lookup.open(SOFT + "&gradients=true")
    fold = lookup.page.get_by_text("Why soft?")
    query, flowing = lookup.page.locator("[data-node=query]"), lookup.page.locator(".network-flow")
    expect(query).to_have_text("query 0.47, −1.15")
    expect(flowing).not_to_have_count(0)
    lookup.open("?softness=hard&gradients=true")
    expect(query).to_have_text("query 0, 0")
    expect(lookup.page.locator(".attnviz-network figcaption")).to_contain_text("No gradient gets past the weights")
    fold.click()
    lookup.page.locator(".st-key-gradients").get_by_text("Gradients", exact=True).click()
    expect(query).to_have_text("query 1.5, 0.5")
    lookup.expect_in_link("gradients", None)


def test_words_are_explained_and_the_table_is_edited_in_place(lookup: Lookup) -> None:
    lookup.open()
    word = lookup.page.locator("abbr.attnviz-term").first
    said = "e => getComputedStyle(e, '::after').content"
    assert word.evaluate(said) == "none"
    expect(word).to_have_accessible_description(GLOSSARY["key|keys"])
    word.focus()
    assert word.evaluate(said) == f'"{GLOSSARY["key|keys"]}"'
    word.blur()
    assert word.evaluate(said) == "none"
    word.hover()
    lookup.until("() => getComputedStyle(document.querySelector('abbr.attnviz-term'), '::after').content !== 'none'")
    expect(lookup.result).to_contain_text("its value 5 comes back")
    lookup.page.get_by_text("Change words, keys and values").click()
    canvas = lookup.page.get_by_test_id("stDataFrame").locator("canvas").first
    canvas.scroll_into_view_if_needed()
    value = lookup.page.get_by_test_id("glide-cell-4-0")  # of the first row
    expect(value).to_have_text("5")
    box = place_of(canvas)
    lookup.page.mouse.click(box["x"] + box["width"] - 40, box["y"] + 52)
    expect(value).to_have_attribute("aria-selected", "true")
    lookup.page.keyboard.press("Enter")
    cell = lookup.page.locator(".gdg-input")
    cell.fill("7")
    cell.press("Enter")
    expect(lookup.result).to_contain_text("its value 7 comes back")
    expect(lookup.page).to_have_url(re.compile(r"table=1\.5%2C0\.5%2C7%2Ccat"))
    lookup.page.reload()
    lookup.painted()
    expect(lookup.result).to_contain_text("its value 7 comes back")


def test_on_a_phone_the_tip_is_dragged_and_the_rest_scrolls(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, "dark", touch=True, kind=Lookup) as lookup:
        lookup.open(SOFT)
        width = "e => [e.scrollWidth, e.clientWidth]"
        content, window = lookup.page.locator(".stMain").evaluate(width)
        assert content <= window
        lookup.page.touchscreen.tap(*lookup.at(-1.0, 0.2))
        lookup.says(-1.0, 0.2)
        scrolled = "() => document.querySelector('.stMain').scrollTop"
        start = lookup.at(-1.0, 0.2)
        before = lookup.page.evaluate(scrolled)
        lookup.swipe(start, lookup.at(0.3, 1.2))
        lookup.says(0.3, 1.2)
        assert lookup.page.evaluate(scrolled) == before
        lookup.swipe(lookup.at(1.0, 0.5), lookup.at(1.0, 1.5))
        lookup.until(f"before => ({scrolled})() !== before", arg=before)
        lookup.says(0.3, 1.2)
