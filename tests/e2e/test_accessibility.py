"""What axe-core finds on every page and tab and in some states: on a laptop by all rules in the light theme and by that
of contrast in the dark one, on a phone by all rules in one theme. On a phone nothing is wider than the window."""

from collections.abc import Iterator

import pytest

from attnviz.base.app_files import PAGES
from attnviz.ui.server.addresses import FIRST_PAGE
from tests.support.browser import QUICK_LINKS, ROOT, AppPage, Browser, opened

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
# Rule and selector. Streamlit gives no way to change them; Chromium and Firefox let the keyboard scroll what
# overflows and has nothing else to focus, also without a tabindex.
EXPECTED = [
    ("scrollable-region-focusable", "[data-testid=stCode] pre"),  # long lines of a script
    ("scrollable-region-focusable", "[data-testid=stMarkdownContainer] > table"),  # a wide table in Markdown
]
# Pages that show something else in these states.
STATES = ("scores?lesson=10-other-scores", "lessons?write=06-one-head", "lessons?handout=06-one-head")
TITLES = dict(zip(STATES, ("Scores", "Write a lesson", "What one head looks at"), strict=True))
TITLES[FIRST_PAGE] = "Which words does each word look at?"
LINKS = {FIRST_PAGE: ""} | QUICK_LINKS
THEMES = {1280: ["light", "dark"], 390: ["light"]}  # by the width of the window
IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"
# The links to other languages are the last element of every page.
DRAWN = """theme => getComputedStyle(document.querySelector('.stApp')).colorScheme === theme
    && document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'
    && document.querySelector('.attnviz-languages')
    && [...document.querySelectorAll('[role=tabpanel]')].every(one => one.hidden || one.innerText.trim() !== '')
    && [...document.querySelectorAll('code[class^=language-]')].every(code => code.querySelector('.token'))
    && !document.querySelector('[data-ready=false], [data-testid=stProgress]')
    && document.getAnimations().every(one => one.playState !== 'running' || !(one instanceof CSSTransition))"""
VIOLATIONS = """async ([expected, theme]) => {
    const rules = theme === "dark" ? { runOnly: ["color-contrast"] } : {};  // the only one that a theme can break
    const { violations } = await axe.run(document, { resultTypes: ["violations"], ...rules });
    return violations.flatMap(({ id, nodes }) => nodes.flatMap(({ target, html, failureSummary }) => {
        const element = document.querySelector(target.join(" "));
        const isExpected = expected.some(([rule, selector]) => rule === id && element?.matches(selector));
        return isExpected ? [] : [`${id}: ${html.slice(0, 200)} ${failureSummary}`];
    }));
}"""


@pytest.fixture(scope="module", params=[(1280, 800), (390, 844)], ids=["laptop", "phone"])
def app(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[AppPage]:
    """The app in a window of a size, in which the tests open one page after the other."""
    with opened(browser, address, *request.param, kind=AppPage) as app:
        app.page.add_init_script(path=AXE)
        yield app


@pytest.mark.parametrize("name", [*sorted(page.stem for page in PAGES.glob("*.py")), *STATES])
def test_axe_finds_no_barrier(app: AppPage, name: str) -> None:
    barriers, page = {}, app.page
    app.open_page(LINKS.get(name, name), TITLES.get(name, name.replace("_", " ").capitalize()))
    width = page.evaluate("innerWidth")
    themes = THEMES[width]
    if page.evaluate(IS_DARK):  # the theme of the test before; to change it draws the page again
        themes = themes[::-1]
    app.until(DRAWN, themes[0])  # a tab that is chosen while the page runs may stay empty
    tabs = page.get_by_test_id("stTabs").first.get_by_role("tablist").first.get_by_role("tab")
    for tab in tabs.all() or [None]:
        if tab:
            tab.click()
        for theme in themes:
            page.emulate_media(color_scheme=theme)
            app.until(DRAWN, theme)
            found = page.evaluate(VIOLATIONS, [EXPECTED, theme])
            barriers |= {f"{tab and tab.inner_text()}, {theme}": found} if found else {}
        themes = themes[::-1]  # the next tab begins in the theme of this one
        assert width > 390 or page.evaluate("document.documentElement.scrollWidth") <= width
    assert barriers == {}
