"""A map in fewer cells, as a figure."""

import torch

from attnviz import Inputs, Mechanism
from attnviz.analysis.downsampling import downsample
from attnviz.figures import downsampled_map
from attnviz.figures.downsampled_map import MASKED
from attnviz.masks import Causal


def test_every_cell_knows_its_tokens_and_axes_have_positions(random_inputs) -> None:
    inputs = random_inputs(queries=40, keys=40)
    tokens = tuple(f"<{i % 3}>" for i in range(40))
    inputs = Inputs(inputs.query, inputs.key, inputs.value, tokens, tokens)
    small = downsample(inputs, Mechanism(mask=Causal()), cells=(8, 10))
    chart = downsampled_map(small, tokens, tokens, largest=0.5)
    spec, weights = chart.spec, Mechanism(mask=Causal())(inputs).weights[0]
    assert chart.figure.data[0].z.shape == (8, 10)
    assert list(spec.query_labels) == [str(i * 5) for i in range(8)]
    assert list(spec.key_labels) == [str(i * 4) for i in range(10)]
    assert spec.sentences.masked == spec.sentences.empty_row == MASKED
    found = spec.downsampled
    for i in range(8):
        for j in range(10):
            query, key = int(found.query_positions[i, j]), int(found.key_positions[i, j])
            if small.maximum[i, j].isnan():
                assert query == key == -1
                continue
            assert found.query_names[query] == f"<{query % 3}> ({query})"
            assert found.key_names[key] == f"<{key % 3}> ({key})"
            torch.testing.assert_close(weights[query, key], small.maximum[i, j])
    assert not spec.downsampled.viewport
    # In a part in which each row or column is one token, it has the token's name.
    part = downsample(inputs, Mechanism(), cells=(8, 10), queries=slice(30, 38), keys=slice(0, 11))
    spec = downsampled_map(part, tokens, tokens, viewport=True).spec
    assert list(spec.query_labels) == [f"&lt;{i % 3}&gt;" for i in range(30, 38)]
    assert list(spec.key_labels) == [str(i) for i in range(10)]
    assert spec.downsampled.viewport
