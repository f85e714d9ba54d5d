"""The Masks page in a real browser."""

import re

import numpy as np
from playwright.sync_api import expect

from attnviz.masks import Causal, SlidingWindow
from attnviz.masks.parser import parse
from attnviz.mechanism import Mechanism
from attnviz.sources import Model
from tests.support.browser import Browser, Masks, place_of, shared

COLUMNS = 16  # of the example


def weights(mask) -> np.ndarray:
    attention = Mechanism(mask=mask)(Model().layers()[3].inputs, heads=[1])
    return np.where(attention.allowed[0], attention.weights[0], np.nan)


def as_array(rows: list) -> np.ndarray:
    return np.array(rows, dtype=float)


def test_three_maps_show_a_b_and_what_changes(masks: Masks) -> None:
    masks.open("?mask-a=causal&mask-b=sliding_window(4)").painted(rows=16)
    a, b, change = (as_array(masks.weights(chart)) for chart in (masks.a, masks.b, masks.change))
    np.testing.assert_allclose(a, weights(Causal()), atol=2e-6)
    np.testing.assert_allclose(b, weights(SlidingWindow(4)), atol=2e-6)
    np.testing.assert_allclose(change, np.where(np.isnan(a) & np.isnan(b), np.nan, np.nan_to_num(b) - np.nan_to_num(a)))
    colors = "e => [e._fullLayout.coloraxis.cmin, e._fullLayout.coloraxis.cmax]"
    ranges = [chart.locator(".attnviz-graph").evaluate(colors) for chart in (masks.a, masks.b)]
    assert ranges[0] == ranges[1]
    low, high = masks.change.locator(".attnviz-graph").evaluate(colors.replace("coloraxis", "coloraxis3"))
    assert low == -high
    masks.write("B", "k <= q")
    masks.expect_weights(np.where(np.tri(COLUMNS, dtype=bool), 0, np.nan), "change")
    assert set(as_array(masks.weights(masks.change))[np.tril_indices(COLUMNS)]) == {0.0}


def test_a_cell_is_marked_a_click_pins_and_a_zoom_zooms_in_all_maps(masks: Masks) -> None:
    masks.open()
    sentences = [chart.locator(".attnviz-sentence") for chart in (masks.a, masks.b, masks.change)]
    for chart in (masks.b, masks.change, masks.a):
        masks.page.mouse.move(*masks.cell(6, 8, chart))
        expect(sentences[0]).to_have_text(re.compile("cross gives 0.* of its attention to street"))
        expect(sentences[1]).to_have_text("cross may not look at street.")
        expect(sentences[2]).to_have_text(re.compile("cross no longer sees street, to which it gave 0"))
        masks.page.mouse.move(5, 5)
        expect(sentences[1]).to_have_text(re.compile("^it gives"))
    masks.page.mouse.click(*masks.cell(6, 3, masks.change))
    masks.expect_in_link("pinned", "6+%C2%B7+cross")
    expect(masks.page.get_by_text("no longer sees 9 keys").first).to_be_visible()
    masks.painted()
    home = masks.zoom(masks.a)
    masks.drag((2, 2), (9, 9), masks.b)
    masks.until(
        """home => [...document.querySelectorAll('.st-key-map-a, .st-key-map-b, .st-key-change')].every(
            e => e.querySelector('.attnviz-graph')._fullLayout.xaxis.range[1] < home - 1)""",
        arg=home[1],
    )
    assert masks.zoom(masks.a) == masks.zoom(masks.b) == masks.zoom(masks.change) != home
    masks.write("B", "band(3)")
    expect(masks.page.get_by_text("on either side").first).to_be_visible()
    masks.painted()
    assert masks.zoom(masks.a) == masks.zoom(masks.b) == masks.zoom(masks.change) != home
    masks.change.get_by_role("button", name="Reset zoom").click()
    for chart in (masks.a, masks.b, masks.change):
        expect(chart.get_by_role("button", name="Reset zoom")).to_be_hidden()
        assert masks.zoom(chart) == home


def test_cells_are_painted_by_dragging_and_undone(masks: Masks) -> None:
    masks.open()
    more = masks.page.get_by_role("button", name="tune").nth(1)
    more.click()
    masks.page.get_by_text("Paint cells in the map").last.click()
    masks.page.keyboard.press("Escape")
    expect(masks.b.locator(".attnviz-paints")).to_be_visible()
    masks.painted()
    masks.drag((2, 5), (2, 9), masks.b)
    expect(masks.words("B")).to_have_value(re.compile(r"^grid\(16, 16, 0x"))
    painted = parse(masks.words("B").input_value()).array()
    expected = np.tri(COLUMNS, dtype=bool)
    expected[2, 5:10] = True
    np.testing.assert_array_equal(painted, expected)
    masks.until("() => !Number.isNaN(document.querySelector('.st-key-map-b .attnviz-graph').data[0].z[2][9])")
    masks.painted()
    np.testing.assert_array_equal(~np.isnan(as_array(masks.weights(masks.b))), expected)
    once = masks.words("B").input_value()
    masks.expect_in_link("mask-b", once.replace("(", "%28").replace(")", "%29").replace(", ", "%2C+"))
    masks.drag((3, 0), (3, 1), masks.b)  # away again what was allowed
    expected[3, :2] = False
    expect(masks.words("B")).not_to_have_value(once)
    masks.until("() => Number.isNaN(document.querySelector('.st-key-map-b .attnviz-graph').data[0].z[3][0])")
    twice = masks.words("B").input_value()
    np.testing.assert_array_equal(parse(twice).array(), expected)
    more.click()
    undo = masks.page.locator(".st-key-undo-B button")
    undo.click()
    expect(masks.words("B")).to_have_value(once)
    masks.settled()
    undo.click()
    expect(masks.words("B")).to_have_value("causal")


SENTENCE = "the old keeper of the lighthouse wrote that the storm had taken both boats and nobody was on them again"


def test_the_maps_are_above_the_fold_and_every_token_has_its_label(masks: Masks) -> None:
    masks.open(f"?mask-b=sliding_window(4)&text={SENTENCE}&special-tokens=Shown").painted(rows=22)
    for chart in (masks.a, masks.b, masks.change):
        box = place_of(chart.locator(".attnviz-stage"))
        assert box["y"] + box["height"] / 2 <= 740
        labels = chart.locator(".attnviz-graph").evaluate(
            "e => [...e.querySelectorAll('.xtick, .ytick')].map(t => t.textContent)"
        )
        assert len(labels) == 44
    assert "again" in labels


def test_a_phone_shows_all_three_maps_without_sideways_scrolling(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, "dark", touch=True, kind=Masks) as masks:
        masks.open("?mask-b=sliding_window(4)")
        first = place_of(masks.a.locator(".attnviz-graph"))
        assert first["y"] < 844 * 1.2
        for chart in (masks.a, masks.b, masks.change):
            box = place_of(chart)
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        assert masks.page.evaluate("document.documentElement.scrollWidth") <= 390
