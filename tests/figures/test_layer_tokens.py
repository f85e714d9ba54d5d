"""Layers and tokens with a word in each cell."""

import numpy as np

from attnviz.figures.layer_tokens import layer_at, layer_tokens

VALUES = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
WORDS = [["<s>", " Mary", "a longer word"], ["b", " ", "c"]]
SENTENCES = [["0,0", "0,1", "0,2"], ["1,0", "1,1", "1,2"]]


def test_the_last_layer_is_at_the_top() -> None:
    chart = layer_tokens(VALUES, ["input", "0"], ["x", "y", "z"], WORDS, SENTENCES, chosen=(0, 2))
    heatmap = chart.figure.data[0]
    np.testing.assert_allclose(heatmap.z, VALUES[::-1], rtol=1e-6)
    assert [list(row) for row in heatmap.text] == [["b", "␣", "c"], ["&lt;s&gt;", "Mary", "a longe…"]]
    assert list(chart.figure.layout.yaxis.ticktext) == ["0", "input"]
    assert chart.spec.names[chart.spec.head_at(1, 2)] == "0,2"
    assert [layer_at(chart, row) for row in range(2)] == [1, 0]
    [frame] = chart.figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (1.5, 2.5, 0.5, 1.5)
