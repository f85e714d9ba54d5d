"""Many heads as one figure, and back from a cell to its head."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.figures import mosaic
from attnviz.figures.layer_mosaic import MOST_ROWS, LayerTiles, layer_mosaic
from attnviz.figures.mosaic import FINE
from attnviz.figures.themes import FIRST_CODE, GAP_CODE, LAST_CODE, MASKED_CODE
from attnviz.layer import LayerId


@given(heads=st.integers(1, 20), columns=st.integers(1, 6), height=st.integers(1, 12), width=st.integers(1, 12))
def test_every_cell_of_a_tile_is_its_head(heads: int, columns: int, height: int, width: int) -> None:
    """Each head has a weight of its own, so that its cells can be found in the picture."""
    weights = np.stack([np.full((height, width), (head + 1) / heads, dtype="f4") for head in range(heads)])
    chart = mosaic(weights, columns=columns, names=[f"Head {head}" for head in range(heads)])
    canvas = chart.figure.data[0].z
    codes = FIRST_CODE + np.round(weights[:, 0, 0] * (LAST_CODE - FIRST_CODE))
    for head in range(heads):
        cells = np.argwhere(canvas == codes[head])
        assert len(cells) == height * width * (FINE // max(height, width)) ** 2
        some = cells[[*range(0, len(cells), 37), -1]]  # all would take long
        assert {chart.spec.head_at(row, column) for row, column in some.tolist()} == {head}


def test_weights_masked_cells_and_gaps_have_codes_of_their_own() -> None:
    weights = np.array([[[0.0, np.nan], [0.25, 0.5]]], dtype="f4")
    canvas = mosaic(weights, columns=1, names=["Head 0"], largest=0.5).figure.data[0].z
    assert canvas.dtype == np.uint8
    assert canvas[-FINE :: FINE // 2, :: FINE // 2].tolist() == [[FIRST_CODE, MASKED_CODE], [128, LAST_CODE]]
    assert set(canvas[:-FINE].flatten().tolist()) == {GAP_CODE}


def test_beyond_the_last_head_there_is_none() -> None:
    chart = mosaic(np.zeros((3, 4, 4), dtype="f4"), columns=2, names=["a", "b", "c"])
    rows, columns = chart.figure.data[0].z.shape
    assert chart.spec.head_at(rows - 1, columns - 1) is None


def test_the_chosen_head_is_framed() -> None:
    weights = np.zeros((4, 3, 3), dtype="f4")
    chart = mosaic(weights, columns=2, names=list("abcd"), chosen=[3])
    [frame] = chart.figure.layout.shapes
    middle = (frame.y0 + frame.y1) / 2, (frame.x0 + frame.x1) / 2
    assert chart.spec.head_at(round(middle[0]), round(middle[1])) == 3


@pytest.mark.parametrize("rows", [(), ("0", "1")])
def test_names_stand_above_heads_or_on_the_axes(rows: tuple[str, ...]) -> None:
    chart = mosaic(np.zeros((4, 3, 3), dtype="f4"), columns=2, names=list("abcd"), row_names=rows, column_names=rows)
    assert len(chart.figure.layout.annotations) == (0 if rows else 4)
    assert (chart.figure.layout.yaxis.ticktext or ()) == rows


@pytest.mark.parametrize(("layers", "is_wide"), [(2, False), (MOST_ROWS, False), (MOST_ROWS + 1, True), (30, True)])
def test_many_layers_run_from_left_to_right(layers: int, is_wide: bool) -> None:
    heads = 3
    maps = np.arange(1, layers * heads + 1, dtype="f4").reshape(layers, heads, 1, 1) / (layers * heads)
    picture = layer_mosaic(maps, [LayerId(index=i) for i in range(layers)], largest=1.0, chosen=[(layers - 1, 1)])
    spec, tiles, canvas = picture.spec, LayerTiles(layers, heads), picture.figure.data[0].z
    assert (spec.rows, spec.columns) == ((heads, layers) if is_wide else (layers, heads))
    down, across = picture.figure.layout.yaxis.title.text, picture.figure.layout.xaxis.title.text
    assert (down, across) == (("heads", "layers") if is_wide else ("layers", "heads"))
    for layer in range(layers):
        for head in range(heads):
            tile = tiles.tile(layer, head)
            assert tiles.place(tile) == (layer, head)
            assert spec.names[tile] == f"layer {layer}, head {head}"
            code = FIRST_CODE + round(float(maps[layer, head, 0, 0]) * (LAST_CODE - FIRST_CODE))
            assert canvas[spec.corner(tile)] == code
    [frame] = picture.figure.layout.shapes
    middle = round((frame.y0 + frame.y1) / 2), round((frame.x0 + frame.x1) / 2)
    assert spec.head_at(*middle) == tiles.tile(layers - 1, 1)
