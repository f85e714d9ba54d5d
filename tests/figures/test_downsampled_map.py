"""A map in fewer cells, as a figure."""

import torch

from attnviz import Inputs, Mechanism
from attnviz.analysis.downsampling import reduced
from attnviz.figures import downsampled_map
from attnviz.figures.downsampled_map import NOTHING_HERE
from attnviz.masks import Causal


def test_every_cell_knows_its_tokens_and_axes_have_positions(random_inputs) -> None:
    inputs = random_inputs(queries=40, keys=40)
    tokens = tuple(f"<{i % 3}>" for i in range(40))
    inputs = Inputs(inputs.query, inputs.key, inputs.value, tokens, tokens)
    small = reduced(inputs, Mechanism(mask=Causal()), 0, 8, 10)
    figure = downsampled_map(small, tokens, tokens, largest=0.5)
    meta, weights = figure.layout.meta, Mechanism(mask=Causal())(inputs).weights[0]
    assert figure.data[0].z.shape == (8, 10)
    assert meta["queryLabels"] == [str(i * 5) for i in range(8)]
    assert meta["keyLabels"] == [str(i * 4) for i in range(10)]
    assert meta["masked"] == meta["nothing"] == NOTHING_HERE
    at = meta["at"]
    for i in range(8):
        for j in range(10):
            query, key = int(at["query"][i, j]), int(at["key"][i, j])
            if small.weights[i, j].isnan():
                assert query == key == -1
                continue
            assert at["queries"][query] == f"<{query % 3}> ({query})"
            assert at["keys"][key] == f"<{key % 3}> ({key})"
            torch.testing.assert_close(weights[query, key], small.weights[i, j])
    assert not meta["part"]
    # In a part in which each row or column is one token, it has the token's name.
    part = reduced(inputs, Mechanism(), 0, 8, 10, rows=slice(30, 38), keys=slice(0, 11))
    meta = downsampled_map(part, tokens, tokens, part=True).layout.meta
    assert meta["queryLabels"] == [f"&lt;{i % 3}&gt;" for i in range(30, 38)]
    assert meta["keyLabels"] == [str(i) for i in range(10)]
    assert meta["part"]
