"""Points, bars and cells of downsampled maps are read by the pointer and the keys and clicked; any figure is drawn."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.vendor import provide_scripts
from tests.support.browser import AppPage, Browser, opened, serving

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


class Points(AppPage):
    charts = ("scatter", "grid", "products", "long", "bars", "lines")

    def at(self, key: str, x: float, y: float) -> tuple[float, float]:
        """Where a place of the figure is on the screen."""
        graph = self.chart(key).locator(".attnviz-graph")
        graph.scroll_into_view_if_needed()
        script = """(e, [x, y]) => {
            const { xaxis, yaxis } = e._fullLayout, box = e.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.l2p(x), box.top + yaxis._offset + yaxis.l2p(y)];
        }"""
        return tuple(graph.evaluate(script, [x, y]))

    def sentence_of(self, key: str) -> Locator:
        return self.chart(key).locator(".attnviz-sentence")

    def point(self, key: str, x: float, y: float, far: float = 0) -> None:
        left, top = self.at(key, x, y)
        self.page.mouse.move(left + far, top)

    def click(self, key: str, x: float, y: float) -> None:
        self.page.mouse.click(*self.at(key, x, y))


@pytest.fixture(scope="module")
def points(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Points]:
    log = tmp_path_factory.mktemp("points") / "log"
    with serving(log, Path(__file__).with_name("points.py")) as address, opened(browser, address, kind=Points) as page:
        provide_scripts(page.page)
        yield page.open()


def test_figures_of_any_kind_are_drawn(points: Points) -> None:
    for key, mark, count in (("bars", ".bars .point", 3), ("lines", ".scatterlayer .trace", 2)):
        chart = points.chart(key)
        expect(chart.locator(mark)).to_have_count(count)
        chart.hover()
        chart.locator(".attnviz-stage").press("ArrowRight")
        expect(chart.locator(".attnviz-sentence")).to_have_text("")
    # What plotly_adapter.js relies on, and plotly does not document.
    assert points.chart("lines").locator(".attnviz-graph").evaluate(UNDOCUMENTED) == {
        "size": True,
        "offset": True,
        "pixels": True,
        "units": True,
        "ticks": [0, 1, 2, 3],
        "annotations": True,
        "shapes": True,
    }


def test_a_chart_in_a_hidden_tab_is_not_drawn(points: Points) -> None:
    chart = points.chart("long")
    show = """(e, display) => new Promise(done => {
        e.closest(".stElementContainer").style.display = display;
        const drawn = () => done(e.querySelector(".attnviz-stage").style.height);
        requestAnimationFrame(() => requestAnimationFrame(drawn));
    })"""
    height = chart.evaluate(show, "")
    assert chart.evaluate(show, "none") == height
    assert chart.evaluate(show, "") == height
    expect(chart).to_have_attribute("data-ready", "true")


def test_the_point_nearest_to_the_pointer_is_named_and_clicked(points: Points) -> None:
    sentence = points.sentence_of("scatter")
    points.point("scatter", 1, 0, far=12)
    expect(sentence).to_have_text("Head 1 <b>")
    points.point("scatter", 3, 1.5)
    expect(sentence).to_have_text("Point at it.")
    points.point("scatter", 4, 4)
    expect(points.chart("scatter").locator(".attnviz-overlay circle")).to_have_count(1)
    points.click("scatter", 4, 4)
    expect(points.page.get_by_text("scatter 4 0", exact=True)).to_be_visible()


def test_the_arrow_keys_go_from_point_to_point_and_enter_opens(points: Points) -> None:
    points.page.mouse.move(1, 1)
    stage, live = (points.chart("scatter").locator(f".attnviz-{name}") for name in ("stage", "live"))
    stage.focus()
    # By x the points are 0, 1, 2, 4, by y 1, 2, 0, 4; point 3 has no place.
    for key, head in (
        ("ArrowRight", 0),
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowRight", 4),
        ("ArrowRight", 4),
        ("ArrowDown", 0),
        ("ArrowDown", 2),
        ("ArrowUp", 0),
        ("ArrowLeft", 0),
    ):
        stage.press(key)
        expect(live).to_have_text(f"Head {head} <b>")
    stage.press("Enter")
    expect(points.page.get_by_text("scatter 0 0", exact=True)).to_be_visible()


def test_a_bar_is_read_wherever_the_pointer_is_above_or_below_it(points: Points) -> None:
    points.point("products", 1, 1.5)
    expect(points.sentence_of("products")).to_have_text("Dimension 1: (−2.00) × 1.00 = −2.00")
    points.click("products", 2, -1)
    expect(points.page.get_by_text("products 2 0", exact=True)).to_be_visible()


def test_a_head_of_the_grid_is_named_and_clicked(points: Points) -> None:
    points.point("grid", 0, 1)
    expect(points.sentence_of("grid")).to_have_text("Head 2")
    points.point("grid", 1, 1)
    expect(points.sentence_of("grid")).to_have_text("Point at it.")
    points.click("grid", 1, 0)
    expect(points.page.get_by_text("grid 0 1", exact=True)).to_be_visible()


def test_a_cell_of_a_downsampled_map_says_where_its_largest_weight_stands(points: Points) -> None:
    points.point("long", 1, 1)
    expect(points.sentence_of("long")).to_have_text(
        "d (3) gives 1.00 of its attention to c (2). The most of 4 pairs here; mass 0.50, mean weight 0.25."
    )
    points.point("long", 1, 0)
    expect(points.sentence_of("long")).to_have_text("Nothing here may be looked at.")


def test_a_zoom_of_a_downsampled_map_asks_for_its_viewport(points: Points) -> None:
    chart, viewport = points.chart("long"), points.page.get_by_text("In view: ")
    start, end = points.at("long", 0.6, 0.6), points.at("long", 1.4, 1.4)
    points.page.mouse.move(*start)
    points.page.mouse.down()
    points.page.mouse.move(*end, steps=4)
    points.page.mouse.up()
    expect(viewport).to_have_text("In view: (1, 1, 1, 1)")
    expect(chart).to_have_attribute("data-rows", "1")
    expect(chart).to_have_attribute("data-ready", "true")
    # All of the part is in view, and yet there is more to see.
    chart.hover()
    chart.get_by_role("button", name="Reset zoom").click()
    expect(viewport).to_have_text("In view: all")
    expect(chart).to_have_attribute("data-rows", "2")
    expect(chart.get_by_role("button", name="Reset zoom")).to_have_count(0)
    expect(chart).to_have_attribute("data-ready", "true")
    # And a double click, as in every map.
    points.page.mouse.move(*points.at("long", 0.6, 0.6))
    points.page.mouse.down()
    points.page.mouse.move(*points.at("long", 1.4, 1.4), steps=4)
    points.page.mouse.up()
    expect(viewport).to_have_text("In view: (1, 1, 1, 1)")
    expect(chart).to_have_attribute("data-rows", "1")
    expect(chart).to_have_attribute("data-ready", "true")
    points.page.mouse.dblclick(*points.at("long", 0, 0))
    expect(viewport).to_have_text("In view: all")


def test_the_wheel_with_ctrl_zooms_around_the_pointer(points: Points) -> None:
    chart, viewport = points.chart("long"), points.page.get_by_text("In view: ")
    points.page.mouse.move(*points.at("long", 1, 1))
    points.page.mouse.wheel(0, 0)  # without Ctrl the page scrolls
    points.page.keyboard.down("Control")
    for _ in range(4):
        points.page.mouse.wheel(0, -200)
    expect(viewport).to_have_text("In view: (1, 1, 1, 1)")
    expect(chart).to_have_attribute("data-rows", "1")
    expect(chart).to_have_attribute("data-ready", "true")
    # Of a part, the cells around it can be asked for.
    points.page.mouse.wheel(0, 300)
    points.page.keyboard.up("Control")
    expect(viewport).not_to_have_text("In view: (1, 1, 1, 1)")
    assert "-" in viewport.inner_text()
