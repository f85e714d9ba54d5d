"""The chart shows every figure, not only those it can read out."""

from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.vendor import provide_scripts
from tests.support.browser import Browser, opened, serving

UNDOCUMENTED = """e => {
    const { _size: size, xaxis: x, yaxis: y } = e._fullLayout;
    const plot = e.querySelector(".nsewdrag").getBoundingClientRect(), box = e.getBoundingClientRect();
    const near = (a, b) => Math.abs(a - b) < 1.5;
    return {
        size: near(size.l, plot.left - box.left) && near(size.t, plot.top - box.top) && near(size.w, plot.width)
            && near(size.h, plot.height),
        offset: near(x._offset, plot.left - box.left) && near(y._offset, plot.top - box.top),
        pixels: near(x.l2p(x.range[1]), plot.width) && near(y.l2p(y.range[0]), plot.height),
        units: near(x.p2l(plot.width), x.range[1]) && near(y.p2l(0), y.range[1]),
        ticks: x.tickvals,
        annotations: Boolean(e.querySelector('.annotation[data-index="0"]')),
        shapes: Boolean(e.querySelector('.shapelayer [data-index="0"]')),
    };
}"""


def test_figures_of_any_kind_are_drawn(browser: Browser, tmp_path: Path) -> None:
    script = Path(__file__).with_name("any_figure.py")
    with serving(tmp_path / "log", script) as address, opened(browser, address) as shown:
        provide_scripts(shown.page)
        shown.page.goto(address)
        for key, mark, count in (("bars", ".bars .point", 3), ("lines", ".scatterlayer .trace", 2)):
            chart = shown.chart(key)
            expect(chart).to_have_attribute("data-ready", "true")
            expect(chart.locator(mark)).to_have_count(count)
            chart.hover()
            chart.locator(".attnviz-stage").press("ArrowRight")
            expect(chart.locator(".attnviz-sentence")).to_have_text("")
        # What plotly_adapter.js relies on, and plotly does not document.
        graph = shown.chart("lines").locator(".attnviz-graph")
        assert graph.evaluate(UNDOCUMENTED) == {
            "size": True, "offset": True, "pixels": True, "units": True, "ticks": [0, 1, 2, 3],
            "annotations": True, "shapes": True,
        }  # fmt: skip
