"""The chart shows every figure, not only those it can read out."""

from pathlib import Path

from playwright.sync_api import expect
from plotly.offline import get_plotlyjs

from tests.support.browser import Browser, opened, serving


def test_figures_of_any_kind_are_drawn(browser: Browser, tmp_path: Path) -> None:
    script = Path(__file__).with_name("any_figure.py")
    with serving(tmp_path / "log", script) as address, opened(browser, address) as shown:
        # The route that app.py adds; this page runs without it.
        plotly = get_plotlyjs()
        shown.page.route(
            lambda url: "/vendor/plotly" in url,
            lambda route: route.fulfill(body=plotly, content_type="text/javascript"),
        )
        shown.page.goto(address)
        for key, mark, count in (("bars", ".bars .point", 3), ("lines", ".scatterlayer .trace", 2)):
            chart = shown.chart(key)
            expect(chart).to_have_attribute("data-ready", "true")
            expect(chart.locator(mark)).to_have_count(count)
            chart.hover()
            chart.locator(".attnviz-stage").press("ArrowRight")
            expect(chart.locator(".attnviz-sentence")).to_have_text("")
