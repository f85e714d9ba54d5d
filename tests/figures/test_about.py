"""What charts are in words."""

import numpy as np
import pytest

from attnviz import figures
from attnviz.base.language import language
from attnviz.chart import header
from attnviz.figures import Chart
from attnviz.figures.accuracy import accuracy
from attnviz.figures.bars import bars, share_bars
from attnviz.figures.difference import difference_heatmap
from attnviz.figures.layer_mosaic import layer_mosaic
from attnviz.figures.query_curve import query_curve
from attnviz.figures.scaling import scaling
from attnviz.layer import LayerId

WEIGHTS = np.array([[0.75, 0.25], [0.5, 0.5]], dtype="f4")
TOKENS = ("it", "<b>")
CHARTS = {
    "heatmap": lambda: figures.heatmap(WEIGHTS, TOKENS),
    "mosaic": lambda: figures.mosaic(WEIGHTS),
    "layer_mosaic": lambda: layer_mosaic(WEIGHTS[None, None], [LayerId()], largest=1.0),
    "head_grid": lambda: figures.head_grid(WEIGHTS),
    "products": lambda: figures.products(*WEIGHTS),
    "scatter": lambda: figures.scatter(*WEIGHTS, TOKENS, np.array([0, 1]), titles=("entropy", "distance")),
    "curves": lambda: figures.curves([0, 10], WEIGHTS, last=10),
    "accuracy": lambda: accuracy([4, 5], {"attention": [1.0, 1.0], "fixed vector": [1.0, 0.8]}),
    "scaling": lambda: scaling([2, 4], WEIGHTS, marked=4),
    "bars": lambda: bars(*WEIGHTS, TOKENS),
    "bars with sentences": lambda: bars(*WEIGHTS, TOKENS, sentences=["it: more", "b: less"]),
    "share_bars": lambda: share_bars({"the room": WEIGHTS[0]}, TOKENS),
    "query_curve": lambda: query_curve(WEIGHTS[0], np.array([0, 7]), "it", TOKENS),
    "difference": lambda: difference_heatmap(WEIGHTS, WEIGHTS, TOKENS, TOKENS, charts=("a", "b")),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_figure_says_in_each_language_what_it_is(name: str) -> None:
    english = CHARTS[name]().about
    assert english.label
    assert english.description.endswith((".", "less"))
    with language("de"):
        assert CHARTS[name]().about != english


def test_numbers_and_tokens_are_said() -> None:
    said = {name: make().about.description for name, make in CHARTS.items()}
    assert said["heatmap"].startswith("2 queries by 2 keys.")
    assert said["head_grid"] == "2 layers by 2 heads, a cell each."
    assert said["scatter"] == "2 heads, each a point: entropy across, distance up."
    assert said["accuracy"] == "attention: 100% at 4 words, 100% at 5; fixed vector: 100% at 4 words, 80% at 5."
    assert said["bars with sentences"] == "it: more. b: less"
    assert said["scaling"] == "At d = 2, 4: plain 0.75, 0.25; divided by √d 0.50, 0.50."


def test_words_are_replaced_one_by_one_and_the_label_is_the_name_of_files() -> None:
    picture: Chart = figures.heatmap(WEIGHTS)
    changed = picture.with_about(label="Head 1", hint="Click.")
    assert (changed.about.description, changed.about.hint) == (picture.about.description, "Click.")
    assert picture.about.label == "Attention weights"
    assert changed.figure is picture.figure
    sent = header(changed, "key", height=9)
    assert (sent["label"], sent["name"], sent["hint"]) == ("Head 1", "Head 1", "Click.")
    assert header(changed.with_about(name="map"), "key", height=9)["name"] == "map"


def test_only_pictures_that_show_more_where_they_are_higher_grow() -> None:
    grows = {name for name, make in CHARTS.items() if header(make(), "key", height=9)["grows"]}
    assert grows == {"heatmap", "mosaic", "layer_mosaic", "head_grid", "scatter", "difference"}
    assert not header(CHARTS["heatmap"](), "key", height=9, grows=False)["grows"]
