"""Lessons, predictions and presentation in a real browser."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import expect

from attnviz.analysis.head_maps import head_map
from attnviz.base.app_files import PAGES as PAGE_FILES
from attnviz.base.app_pages import GROUPS, PAGES, START
from attnviz.lessons.lesson_files import FOLDER, read_lessons
from attnviz.lessons.prediction_distance import total_variation
from attnviz.mechanism import Mechanism
from attnviz.sources import Model
from attnviz.ui.server.addresses import FIRST_PAGE
from tests.support.browser import AppPage, Browser, Explore, Masks, opened

IT, ANIMAL, STREET = 10, 2, 8
FONT_SIZE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"


class Lessons(AppPage):
    """The Lessons page."""

    path, charts = "lessons", ()

    def __init__(self, page, address: str) -> None:
        self.page, self.address = page, address
        self.lessons = page.locator(".attnviz-lesson")


def test_a_lessons_link_opens_its_state(browser: Browser, address: str) -> None:
    with opened(browser, address, kind=Lessons) as lessons:
        lessons.open()
        lesson = lessons.lessons.nth(8)
        for_teachers = lessons.page.locator("details", has_text="For teachers").last
        answer = lessons.page.get_by_text("0.54. 58 of the 136 cells")
        for folded in (
            for_teachers,
            for_teachers.locator("details", has_text="Windows and sinks").first,
            answer.locator(".."),
        ):
            expect(answer).to_be_hidden()
            folded.locator("summary").first.click()
        expect(answer).to_be_visible()
        link = lesson.get_by_role("link").first.evaluate("e => e.href")
        assert link.startswith(f"{address}/masks?")
        lesson.get_by_role("link").first.click()
        masks = Masks(lessons.page, address).painted(rows=16)
        expect(masks.words("A")).to_have_value("sliding_window(4)")
        expect(masks.words("B")).to_have_value("sliding_window(4) | sinks(1)")
        # What was done before on the page does not come back with a lesson.
        masks.open_tab("mask-a=band(2)&look=For+engineers")
        masks.choose_page("Lessons")
        expect(lessons.lessons.first).to_be_visible()
        lessons.lessons.nth(8).get_by_role("link").first.click()
        masks.painted(rows=16)
        expect(masks.words("A")).to_have_value("sliding_window(4)")
        masks.expect_in_link("look", None)


def test_the_groups_of_pages_and_present_are_in_the_menu(masks: Masks) -> None:
    masks.open()  # a page with a sidebar, which leaves less of the window to the menu
    page = masks.page
    for width in (1280, 1024, 900):
        page.set_viewport_size({"width": width, "height": 800})
        masks.painted()
        bar, present = page.get_by_test_id("stTopNav"), page.get_by_role("button", name="Present")
        entries = bar.locator(":is(a, button):not([aria-hidden=true] *)")
        present.click(trial=True)  # nothing lies over it
        edges = entries.evaluate_all(
            "all => all.flatMap(e => [e.getBoundingClientRect()]).flatMap(e => [e.x, e.right])"
        )
        assert edges == sorted(edges)
        assert edges[-1] <= present.evaluate("e => e.getBoundingClientRect().x")
        assert [name.split("\n")[-1] for name in entries.locator("p").all_inner_texts()] == [
            START.title,
            *(group.title for group in GROUPS),
        ]
    for group in GROUPS:
        bar.get_by_role("button", name=group.title).click()
        expect(page.get_by_role("menuitem")).to_have_text([re.compile(f"{page.title}$") for page in group.pages])
        page.get_by_role("menuitem").last.click(trial=True)
        page.keyboard.press("Escape")
    expect(bar.locator("button[aria-current]")).to_have_text(re.compile("Compare"))


def test_the_menu_works_with_the_keyboard_and_says_where_one_is(masks: Masks) -> None:
    page = masks.open().page
    current = page.locator("[data-testid=stTopNav] [aria-current]")
    expect(current).to_have_text([re.compile("Compare")])
    learn = page.get_by_role("button", name="Learn")
    learn.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Lessons")).to_be_focused()
    lookup = page.get_by_role("menuitem", name="Lookup")
    page.keyboard.press("ArrowDown")
    expect(lookup).to_be_focused()
    expect(lookup).to_have_accessible_description(PAGES["lookup"].question)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Lookup")).to_be_visible()
    expect(current).to_have_text([re.compile("Learn")])  # until a page has run, the group of that before is marked, too
    expect(learn).to_be_focused()
    page.keyboard.press("Enter")
    expect(lookup).to_have_attribute("aria-current", "page")
    page.keyboard.press("Escape")
    masks.choose_page("Start")
    expect(current).to_have_text([re.compile("Start")])


def test_on_a_phone_every_page_is_in_the_sidebar(browser: Browser, address: str) -> None:
    with opened(browser, address, 390, 844, touch=True, kind=Masks) as masks:
        masks.open()
        masks.page.get_by_role("button", name="Present").click(trial=True)
        masks.page.get_by_test_id("stExpandSidebarButton").click()
        groups = masks.page.get_by_test_id("stNavSectionHeader")
        expect(groups).to_have_text([re.compile(f"^{group.title}") for group in GROUPS])
        for group in GROUPS:
            named = masks.page.get_by_role("group", name=group.title)
            expect(named.get_by_role("link")).to_have_text([re.compile(f"{page.title}$") for page in group.pages])
        links = masks.page.get_by_test_id("stSidebarNavLink")
        expect(links).to_have_text([re.compile(f"{page.title}$") for page in PAGES.values()])
        for link in links.all():
            link.click(trial=True)


IN_BAR = "texts => texts.every(text => document.querySelector('.st-key-presenting')?.innerText.includes(text))"


def controls(page: AppPage) -> list[str]:
    """The controls that can be seen, by their labels or texts. Tabs are none: they are what a page has to show."""
    kinds = "input, textarea, button:not([role=tab]), [role=slider], [role=combobox], a"
    return page.page.locator(kinds).evaluate_all(
        "all => all.filter(e => e.checkVisibility() && e.getBoundingClientRect().width > 1)"
        ".map(e => e.ariaLabel || e.innerText || e.outerHTML.slice(0, 80))"
    )


@pytest.mark.parametrize(("kind", "theme"), [(Explore, "light"), (Masks, "dark")])
def test_a_presentation_has_no_controls_and_the_same_state(
    browser: Browser, address: str, kind: type[AppPage], theme: str
) -> None:
    link = {Explore: "?head=Head+6&pinned=6+%C2%B7+cross", Masks: "?mask-b=band(2)"}[kind]
    with opened(browser, address, 1920, 1080, theme, kind=kind) as page:
        page.open(link)
        weights, many = page.weights(), controls(page)
        letters = page.page.evaluate(FONT_SIZE)
        page.page.get_by_role("button", name="Present").click()
        page.expect_in_link("present", "1")
        titles = [each.title for each in PAGES.values()]
        i = titles.index(kind.__name__)
        expected = [*titles[i - 1 : i + 2], "Leave", "Start"]  # the pages, the way back, and a class
        page.until(IN_BAR, expected[:-1])
        page.painted()
        expect(page.page.get_by_role("heading", name=kind.__name__)).to_be_visible()
        # What a class works with, and what it asks next.
        expected += ["Text", "Why"] if kind is Explore else ["Text", "Mask", "Full", "Mask", "Band"]
        assert re.findall("[A-Z][a-z]+", " ".join(controls(page))) == re.findall("[A-Z][a-z]+", " ".join(expected))
        assert len(many) > 10
        assert page.weights() == weights
        assert page.page.evaluate(FONT_SIZE) > 1.2 * letters
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 1920


def test_into_a_presentation_and_out_again_by_button_and_by_the_way_back(explore: Explore) -> None:
    explore.open("?head=Head+6")
    sidebar = explore.page.get_by_test_id("stSidebar")
    expect(sidebar).to_be_visible()
    explore.page.get_by_role("button", name="Present").click()
    explore.expect_in_link("present", "1")
    expect(sidebar).to_be_hidden()
    explore.painted()
    explore.page.mouse.click(*explore.cell(6, 3))
    explore.expect_in_link("pinned", "6+%C2%B7+cross")
    explore.expect_in_link("present", "1")
    explore.expect_in_link("head", "Head+6")
    explore.page.reload()
    explore.painted()
    expect(sidebar).to_be_hidden()
    explore.page.get_by_role("button", name="Leave").click()
    explore.expect_in_link("present", None)
    expect(sidebar).to_be_visible()
    explore.expect_in_link("head", "Head+6")


def test_in_a_presentation_keys_and_a_menu_change_pages_and_escape_leaves(explore: Explore) -> None:
    page = explore.open("?present=1").page
    page.keyboard.press("PageDown")  # a presenter's remote control
    expect(page.get_by_role("heading", name="Write")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Explore")).to_be_visible()
    explore.painted().stage.focus()
    page.keyboard.press("ArrowRight")  # reads a cell
    expect(explore.sentence).not_to_have_class(re.compile("hint"))
    bar = page.locator(".st-key-presenting")
    bar.get_by_role("button", name="Explore").click()
    page.get_by_role("link", name="Masks").click()  # of all pages
    Masks(page, explore.address).painted()
    explore.expect_in_link("present", "1")
    bar.get_by_role("button", name="Masks").click()
    expect(page.get_by_role("link", name="Explore")).to_be_visible()
    page.keyboard.press("Escape")  # closes the menu
    expect(page.get_by_role("link", name="Explore")).to_be_hidden()
    page.keyboard.press("Escape")
    explore.expect_in_link("present", None)


SMALL = """least => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), small = [];
    while (texts.nextNode()) {
        const text = texts.currentNode, element = text.parentElement, range = document.createRange();
        range.selectNodeContents(text);
        const { width, height, top, bottom } = range.getBoundingClientRect();
        if (!text.data.trim() || Math.min(width, height) < 2 || bottom <= 0 || top >= innerHeight) continue;
        if (!element.checkVisibility({ visibilityProperty: true }) || element.closest(".attnviz-hidden")) continue;
        const matrix = element instanceof SVGElement ? element.getScreenCTM() : null;
        const size = parseFloat(getComputedStyle(element).fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1);
        if (size < least) small.push([size, text.data]);
    }
    return small;
}"""


TABS = ("look", "part", "tab")  # link parameters
DRAWN = """() => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState === "notRunning"
    && document.querySelector(".st-key-presenting") !== null
    && document.querySelector(".stMainBlockContainer :is(h1, h2, h3)") !== null
    && [...document.querySelectorAll(":is(.attnviz-chart, .attnviz-matrices, .attnviz-path)")]
        .every((chart) => !chart.checkVisibility() || chart.dataset.ready === "true")"""


def presented_links() -> dict[str, str]:
    """The link of every page, and of every tab that a lesson opens, by name."""
    pages = sorted(page.stem for page in PAGE_FILES.glob("*.py"))
    tabs = {}
    for step in (step for lesson in read_lessons(FOLDER)[0] for step in lesson.steps):
        if opened_tabs := [value for parameter, value in step.state or () if parameter in TABS]:
            tabs[", ".join([step.page, *opened_tabs])] = f"{step.page}?{urlencode(step.state or ())}"
    return dict(zip(pages, pages, strict=True)) | tabs


PRESENTED = presented_links()
FIRST_SCREEN = {
    "explore": [".st-key-heads", ".st-key-heatmap", ".attnviz-strongest"],
    "lookup": [".st-key-plane"],
    "steps, Why scale": [".stTabs"],
    "scores": [".st-key-score-scaled-dot", ".st-key-score-cosine", ".st-key-score-change"],
    "side_by_side": [".st-key-left-map", ".st-key-right-map", ".st-key-sides-difference"],
    "scores, Normalizers": [".st-key-normalizer-rows"],
    "masks": [".st-key-map-a", ".st-key-map-b", ".st-key-change", "[role=tablist]"],
    "transformer": [".st-key-path"],
    "transformer, Three uses": [f".st-key-{use}-map" for use in ("encoder", "decoder", "cross")],
    "write": [".attnviz-write"],
}


@pytest.fixture(scope="module")
def presented(browser: Browser, address: str) -> Iterator[AppPage]:
    """The app on a projector, on which the tests present one page after the other."""
    with opened(browser, address, 1920, 1080, kind=AppPage) as presented:
        yield presented


@pytest.mark.parametrize("name", dict.fromkeys((*PRESENTED, *FIRST_SCREEN)))
def test_a_presentation_has_large_letters_and_fits_one_screen(presented: AppPage, name: str) -> None:
    page, pictures = presented.page, FIRST_SCREEN.get(name, [])
    # Start is entered from the page after it: its address with parameters is that of Explore
    link = PRESENTED["lessons" if name == FIRST_PAGE else name]
    title = PAGES[link.partition("?")[0]].title
    presented.open_page(f"{link}{'&' if '?' in link else '?'}present=1", title)
    if name == FIRST_PAGE:
        page.get_by_role("link", name="Start").click()
        expect(page.locator(".st-key-start")).to_be_visible()
    for picture in pictures[:1]:
        expect(page.locator(picture).first).to_be_visible()
    presented.until(DRAWN)
    assert page.evaluate(SMALL, 20) == []
    for picture in pictures:
        bottom = page.locator(picture).first.evaluate("e => e.getBoundingClientRect().bottom")
        assert bottom <= 1080, picture


def test_in_a_presentation_keys_move_a_slider_that_stays(browser: Browser, address: str) -> None:
    with opened(browser, address, kind=AppPage) as app:
        app.page.goto(f"{address}/transformer?tab=How+attention+forms&present=1")
        thumb = app.page.locator(".st-key-play-step input[type=range]")
        expect(thumb).to_be_attached()
        app.settled()
        app.page.keyboard.press("PageUp")
        app.expect_in_link("step", "1%2C700")
        app.settled()
        app.page.keyboard.press("PageDown")
        app.expect_in_link("step", None)
        app.settled()
        thumb.focus()  # the same step, not ten of them
        app.page.keyboard.press("PageUp")
        app.expect_in_link("step", "1%2C700")


LONG_TOKENS = "?text=Internationalization+antidisestablishmentarianism+WWWWWWWWWW+%E6%97%A5%E6%9C%AC%E8%AA%9E"
GRAPH = "document.querySelector('.st-key-heatmap .attnviz-graph')"
GAPS = """graph => {
  const boxes = (some) => [...graph.querySelectorAll(some)].map((e) => e.getBoundingClientRect());
  const [columns, rows] = boxes(".annotation text");
  return [
    Math.min(...boxes(".ytick text").map((label) => label.left - rows.right)),
    Math.min(...boxes(".xtick text").map((label) => columns.top - label.bottom)),
  ];
}"""


def test_names_of_axes_keep_clear_of_the_longest_tokens(explore: Explore) -> None:
    explore.open(LONG_TOKENS)
    for width, height, present in ((1280, 800, False), (1920, 1080, False), (1920, 1080, True)):
        explore.page.set_viewport_size({"width": width, "height": height})
        if present:
            explore.page.get_by_role("button", name="Present").click()
            explore.expect_in_link("present", "1")
        explore.until(f"() => {GRAPH}?._fullLayout?.width > {width / 3}")
        explore.painted()
        assert min(explore.heatmap.locator(".attnviz-graph").evaluate(GAPS)) >= 2


def test_a_presentation_goes_from_tab_to_tab(masks: Masks) -> None:
    masks.open("?present=1")
    masks.page.get_by_role("tab", name="Gallery", exact=True).click()
    masks.expect_in_link("look", "Gallery")
    expect(masks.page.get_by_role("link", name="Sliding window")).to_be_visible()
    masks.expect_in_link("present", "1")
    masks.page.get_by_role("tab", name="Two masks", exact=True).click()
    masks.expect_in_link("look", None)


def test_a_prediction_and_its_reveal_also_in_a_presentation(explore: Explore) -> None:
    row = head_map(Model().layers()[3].inputs, Mechanism(), 1)[IT].numpy()
    prediction = np.zeros(16)
    prediction[[ANIMAL, STREET]] = 0.5
    explore.open("?predict=true&present=1")
    assert explore.weights()[IT] == [None] * 16
    box = explore.page.locator(".st-key-prediction-head")
    for token in ("animal", "street"):
        box.get_by_role("button", name=token, exact=True).click()
    expect(box.get_by_role("slider")).to_have_count(2)
    bars = box.locator(".attnviz-chart")
    expect(bars).to_have_attribute("data-ready", "true")
    heights = "e => e.data.map(bar => Array.from(bar.y, y => Number.isNaN(y) ? null : y))"
    assert bars.locator(".attnviz-graph").evaluate(heights) == [prediction.tolist(), [None] * 16]
    box.get_by_role("button", name="Reveal").click()
    expect(box.get_by_text(re.compile("The most important key is animal, with 0.68: as you predicted"))).to_be_visible()
    expect(
        box.get_by_text(f"overlap by {1 - total_variation(prediction, row):.2f}: 0.50 on animal and 0.050 on street")
    ).to_be_visible()
    explore.painted()
    np.testing.assert_allclose(np.array(explore.weights()[IT], dtype=float), row, atol=2e-6)
    expect(bars).to_have_attribute("data-ready", "true")
    drawn = bars.locator(".attnviz-graph").evaluate(heights)
    np.testing.assert_allclose(drawn[1], row / row.sum(), atol=1e-6)
    box.get_by_role("button", name="Predict again").click()
    expect(box.get_by_role("button", name="Reveal")).to_be_disabled()
    explore.until("() => Number.isNaN(document.querySelector('.st-key-heatmap .attnviz-graph').data[0].z[10][2])")
