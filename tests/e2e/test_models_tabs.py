"""The Models page in a real browser: heads and tokens are aggregated."""

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import expect

from attnviz.analysis.aggregation import aggregate_heads, aggregate_queries
from attnviz.analysis.head_maps import Aggregate, head_map
from attnviz.models.minilm import minilm
from attnviz.text import EXAMPLE
from tests.support.browser import AppPage, Browser, shared

CHARTS = {
    "Together": ("together-map", "together-heads"),
}


class Models(AppPage):
    """A tab of the Models page."""

    path, charts = "models", ("together-map", "together-heads")

    def tab(self, name: str, query: str = "") -> None:
        self.charts = CHARTS[name]
        self.open(f"?inspect={name.replace(' ', '+')}{query}")

    def numbers(self, key: str, trace: int, axis: str) -> list[float]:
        script = "(e, [trace, axis]) => Array.from(e.data[trace][axis])"
        return self.chart(key).locator(".attnviz-graph").evaluate(script, [trace, axis])


@pytest.fixture
def models(browser: Browser, address: str) -> Iterator[Models]:
    with shared(browser, address, kind=Models) as page:
        yield page


def weights(text: str, layer: int, head: int) -> np.ndarray:
    one = minilm().layers(text)[layer]
    return head_map(one.inputs, one.mechanism, head).numpy()


def test_heads_and_tokens_are_chosen_by_clicks(models: Models) -> None:
    models.tab("Together")
    layers = minilm().layers(EXAMPLE)
    every = [(layer, head) for layer in range(6) for head in range(12)]
    chart = models.chart("together-map")
    whole = aggregate_heads(layers, every, Aggregate.MEAN)
    np.testing.assert_allclose(models.weights(chart), whole, atol=1e-6)
    models.page.mouse.click(*models.place(models.chart("together-heads"), 3, 1, 6, 12))
    models.expect_in_link("heads-together", "encoder+3%2C+head+1")
    expect(models.page.get_by_text("Mean of encoder 3, head 1", exact=True)).to_be_visible()
    models.painted()
    np.testing.assert_allclose(models.weights(chart), weights(EXAMPLE, 3, 1), atol=1e-6)
    models.page.mouse.click(*models.cell(10, 2, chart))
    models.expect_in_link("tokens-together", "10+%C2%B7+it")
    models.charts = ("together-map", "together-sum")
    models.painted()
    total = aggregate_queries(aggregate_heads(layers, [(3, 1)], Aggregate.MEAN), [10])
    np.testing.assert_allclose(models.numbers("together-sum", 0, "y"), total, atol=1e-6)
    models.page.mouse.click(*models.cell(10, 2, chart))
    models.expect_in_link("tokens-together", None)
