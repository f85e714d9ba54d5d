"""The menu of pages, presentations and predictions in a real browser."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from attnviz.base.app_files import PAGES as PAGE_FILES
from attnviz.base.app_pages import GROUPS, PAGES, START
from attnviz.lessons.lesson_files import FOLDER, read_lessons
from attnviz.ui.server.addresses import FIRST_PAGE
from tests.support.browser import QUICK_LINKS, AppPage, Browser, Explore, Masks, opened

IN_BAR = "texts => texts.every(text => document.querySelector('.st-key-presenting')?.innerText.includes(text))"
FONT_SIZE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"


def test_the_menu_has_groups_works_by_keys_and_says_where_one_is(masks: Masks) -> None:
    masks.open()  # a page with a sidebar, which leaves less of the window to the menu
    page = masks.page
    bar, present = page.get_by_test_id("stTopNav"), page.get_by_role("button", name="Present")
    for width in (900, 1024, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        masks.painted()
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
    current = bar.locator("[aria-current]")
    expect(current).to_have_text([re.compile("Compare")])
    learn, lookup = bar.get_by_role("button", name="Learn"), page.get_by_role("menuitem", name="Lookup")
    learn.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Lessons")).to_be_focused()
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


def test_on_a_phone_every_page_is_in_a_sidebar_that_closes_with_a_choice(browser: Browser, address: str) -> None:
    with opened(browser, address, 390, 844, touch=True, kind=Masks) as masks:
        page = masks.open().page
        page.get_by_role("button", name="Present").click(trial=True)
        page.get_by_test_id("stExpandSidebarButton").click()
        groups = page.get_by_test_id("stNavSectionHeader")
        expect(groups).to_have_text([re.compile(f"^{group.title}") for group in GROUPS])
        for group in GROUPS:
            named = page.get_by_role("group", name=group.title)
            expect(named.get_by_role("link")).to_have_text([re.compile(f"{page.title}$") for page in group.pages])
        links = page.get_by_test_id("stSidebarNavLink")
        expect(links).to_have_text([re.compile(f"{page.title}$") for page in PAGES.values()])
        for link in links.all():
            link.click(trial=True)
        links.filter(has_text="Lessons").click()
        for is_loaded in (False, True):
            if is_loaded:
                page.reload()
            expect(page.locator("h3").first).to_have_text("Lessons")
            expect(links.first).not_to_be_in_viewport()


def present(app: AppPage, *works_with: str) -> None:
    """Presents the page: letters are larger, and of its many controls those are left with which a class works."""
    letters, many = app.page.evaluate(FONT_SIZE), controls(app)
    assert len(many) > 10
    app.page.get_by_role("button", name="Present").click()
    app.expect_in_link("present", "1")
    titles = [each.title for each in PAGES.values()]
    i = titles.index(type(app).__name__)
    bar = [*titles[i - 1 : i + 2], "Leave", "Start"]  # the pages, the way back, and a class
    app.until(IN_BAR, bar[:-1])
    app.painted()
    expect(app.page.get_by_role("heading", name=type(app).__name__)).to_be_visible()
    expected = [*bar, *works_with]
    assert re.findall("[A-Z][a-z]+", " ".join(controls(app))) == re.findall("[A-Z][a-z]+", " ".join(expected))
    assert app.page.evaluate(FONT_SIZE) > 1.2 * letters
    assert app.page.evaluate("document.documentElement.scrollWidth") <= 1920


def controls(page: AppPage) -> list[str]:
    """The controls that can be seen, by their labels or texts. Tabs are none: they are what a page has to show."""
    kinds = "input, textarea, button:not([role=tab]), [role=slider], [role=combobox], a"
    return page.page.locator(kinds).evaluate_all(
        "all => all.filter(e => e.checkVisibility() && e.getBoundingClientRect().width > 1)"
        ".map(e => e.ariaLabel || e.innerText || e.outerHTML.slice(0, 80))"
    )


def test_explore_is_presented_with_its_state_and_comes_back(explore: Explore) -> None:
    page, sidebar = explore.page, explore.page.get_by_test_id("stSidebar")
    page.set_viewport_size({"width": 1920, "height": 1080})
    explore.open("?head=Head+6&pinned=6+%C2%B7+cross")
    weights = explore.weights()
    expect(sidebar).to_be_visible()
    present(explore, "Text", "Why")
    expect(sidebar).to_be_hidden()
    assert explore.weights() == weights
    page.mouse.click(*explore.cell(2, 3))
    explore.expect_in_link("pinned", "2+%C2%B7+animal")
    explore.expect_in_link("present", "1")
    explore.expect_in_link("head", "Head+6")
    page.reload()
    explore.painted()
    expect(sidebar).to_be_hidden()
    page.get_by_role("button", name="Leave").click()
    explore.expect_in_link("present", None)
    expect(sidebar).to_be_visible()
    explore.expect_in_link("head", "Head+6")


def test_masks_are_presented_in_the_dark_changed_and_seen_by_tabs(masks: Masks) -> None:
    page = masks.page
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.emulate_media(color_scheme="dark")
    masks.open("?mask-b=band(2)")
    weights = masks.weights()
    present(masks, "Text", "Mask", "Full", "Mask", "Band")  # and what a class is asked next
    assert masks.weights() == weights
    rows = masks.a.locator(".attnviz-graph").evaluate("e => [...e.querySelectorAll('.ytick')].map(t => t.textContent)")
    assert len(rows) == 16
    words = masks.words("B")
    words.focus()
    words.press("Control+A")
    page.keyboard.type("sliding_window(2)")
    page.keyboard.press("Enter")
    masks.expect_in_link("mask-b", "sliding_window%282%29")
    masks.painted(rows=16)
    page.locator(".st-key-mask-b-menu").get_by_role("button", name="Sliding window").click()
    page.get_by_role("menuitem", name="Causal", exact=True).click()
    expect(words).to_have_value("causal")
    masks.painted(rows=16)
    page.get_by_role("tab", name="Gallery", exact=True).click()
    masks.expect_in_link("look", "Gallery")
    expect(page.get_by_role("link", name="Sliding window")).to_be_visible()
    masks.expect_in_link("present", "1")
    page.get_by_role("tab", name="Two masks", exact=True).click()
    masks.expect_in_link("look", None)


def test_in_a_presentation_keys_change_pages_or_a_slider_and_leave(explore: Explore) -> None:
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
    explore.go("transformer?tab=How+attention+forms&present=1")
    thumb = page.locator(".st-key-play-step input[type=range]")
    expect(thumb).to_be_attached()
    explore.settled()
    page.keyboard.press("PageUp")  # where there is a slider, it moves
    explore.expect_in_link("step", "1%2C700")
    explore.settled()
    page.keyboard.press("PageDown")
    explore.expect_in_link("step", None)
    explore.settled()
    thumb.focus()  # the same step, not ten of them
    page.keyboard.press("PageUp")
    explore.expect_in_link("step", "1%2C700")


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
    "steps, Why scale": [".stTabs", ".st-key-d", ".st-key-why-spread"],
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
    link = "lessons" if name == FIRST_PAGE else QUICK_LINKS.get(name, PRESENTED[name])
    title = PAGES[link.partition("?")[0]].title
    presented.open_page(f"{link}{'&' if '?' in link else '?'}present=1", title)
    if name == FIRST_PAGE:
        page.get_by_role("link", name="Start").click()
        expect(page.locator(".st-key-start")).to_be_visible()
    for picture in pictures:
        expect(page.locator(picture).first).to_be_visible()
    presented.until(DRAWN)
    assert page.evaluate(SMALL, 20) == []
    for picture in pictures:
        bottom = page.locator(picture).first.evaluate("e => e.getBoundingClientRect().bottom")
        assert bottom <= 1080, picture


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


def test_a_prediction_is_revealed_in_a_presentation(explore: Explore) -> None:
    explore.open("?predict=true&present=1")
    assert explore.weights()[10] == [None] * 16
    box = explore.page.locator(".st-key-prediction-head")
    for token in ("animal", "street"):
        box.get_by_role("button", name=token, exact=True).click()
    expect(box.get_by_role("slider")).to_have_count(2)
    box.get_by_role("button", name="Reveal").click()
    expect(box.get_by_text(re.compile("The most important key is animal, with 0.68: as you predicted"))).to_be_visible()
    explore.painted()
    assert explore.weights()[10][2] == pytest.approx(0.68, abs=0.005)
    box.get_by_role("button", name="Predict again").click()
    expect(box.get_by_role("button", name="Reveal")).to_be_disabled()
    explore.until("() => Number.isNaN(document.querySelector('.st-key-heatmap .attnviz-graph').data[0].z[10][2])")
