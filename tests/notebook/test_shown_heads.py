"""The blocks that show the heads of source layers."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
import torch

import attnviz
from attnviz.analysis.difference import difference
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.notebook.layer_maps import apply, layer_maps
from attnviz.notebook.shown_heads import ShownLayers, ShownState, shown_blocks, states_of
from attnviz.page.blocks import Figure, every_block
from attnviz.page.nodes import page_nodes
from attnviz.page.selected_maps import CELLS
from attnviz.page.viewport import MOST_CELLS

RANDOM = torch.Generator().manual_seed(0)
WEIGHTS = torch.randn(3, 4, 6, 6, generator=RANDOM).softmax(-1)


def states(layers: Sequence[Layer], **options: Any) -> type[ShownState]:
    return states_of(ShownLayers(attnviz.notebook.unique_key(), layers, **options))


def figures(state: ShownState) -> dict[str, Figure]:
    return {block.name: block for block in every_block(shown_blocks(state)) if isinstance(block, Figure)}


def weights_of(figure: Figure) -> np.ndarray:
    return figure.picture.figure.data[0].z


def opened(state: ShownState, figure: Figure, tile: int) -> tuple[int, object]:
    """The layer and the head that a click on a tile opens."""
    assert figure.opens is not None
    link = figure.opens(*figure.picture.spec.corner(tile))
    other = type(state).read(link or ())
    return other.layer, other.head


def test_the_tiles_of_a_mosaic_are_the_heads_that_they_name() -> None:
    state = states(layer_maps(WEIGHTS))()
    heads = figures(state)["heads"]
    names = heads.picture.spec.names
    assert len(names) == 12
    for tile, name in enumerate(names):
        layer, head = opened(state, heads, tile)
        assert name == f"layer {layer}, head {head}"
        top, left = heads.picture.spec.corner(tile)
        step = 40 // 6  # of the cells of a small map, which are drawn larger
        small = weights_of(heads)[top : top + 6 * step : step, left : left + 6 * step : step].astype(float)
        np.testing.assert_allclose((small - 2) / 253 * float(WEIGHTS.max()), WEIGHTS[layer, head], atol=0.003)  # codes


def test_the_states_of_a_mosaic_share_its_chart_and_frame_their_heads() -> None:
    cls = states(layer_maps(WEIGHTS))
    shown = {}
    for link in ("", "layer=layer+1&head=Head+2"):
        page = page_nodes(shown_blocks(cls.read(parse_qsl(link))), "k", "menus", link)
        [_menus, columns] = page.nodes
        heads, _map = (column["nodes"][0] for column in columns["columns"])
        shown[link] = heads
        assert heads["opens"].index(link) == (0 if not link else 6)
    first, other = shown.values()
    assert first["chart"] == other["chart"]
    assert first["shapes"] != other["shapes"]


def test_layers_of_other_lengths_have_a_mosaic_of_their_own() -> None:
    state = states([*layer_maps(WEIGHTS), *layer_maps(WEIGHTS[:, :, :2])])(layer=3)
    assert [*ShownState.layer.options(state)][2:4] == ["layer 2 · 2", "layer 0 · 3"]  # of equal names
    heads = figures(state)["heads"]
    assert {opened(state, heads, tile) for tile in range(12)} == {
        (layer, head) for layer in (3, 4, 5) for head in range(4)
    }


def test_two_sources_are_compared_cell_by_cell() -> None:
    inputs = Inputs(*torch.randn(3, 2, 5, 8, generator=RANDOM), tuple("abcde"), tuple("abcde"))
    full, causal = (layer_maps(apply(mechanism, inputs)) for mechanism in (Mechanism(), Mechanism(mask=Causal())))
    state = states(full, compared=ShownLayers("other", causal), names=("full", "causal"))(head=1)
    shown = figures(state)
    heads, before, after, change = shown.values()
    maps = [weights_of(one) for one in (before, after, change)]
    np.testing.assert_array_equal(maps[0], full[0].maps()[1])
    np.testing.assert_array_equal(maps[2], difference(maps[0], maps[1]).numpy())
    assert [one.title for one in (before, after, change)] == ["full", "causal", "causal − full"]
    scales = [one.picture.figure.layout.coloraxis.cmax for one in (before, after)]
    assert scales == [pytest.approx(float(torch.cat([full[0].maps(), causal[0].maps()]).nan_to_num().max()))] * 2
    assert "changes from full to causal" in heads.picture.about.description
    page = page_nodes(shown_blocks(state), "k")
    charts = {chart["key"]: chart["spec"] for chart in page.charts.values()}
    assert charts["k difference"].difference.charts == ("k before", "k after")
    assert len({charts[name].link for name in ("k before", "k after", "k difference")}) == 1


def test_only_sources_of_one_size_are_compared() -> None:
    with pytest.raises(ValueError, match="A has 3 layers of 4 × 6 × 6, B has 2 layers of 4 × 6 × 6"):
        attnviz.show(WEIGHTS, WEIGHTS[:2])


def test_a_long_map_is_downsampled_and_its_parts_are_exact() -> None:
    length = 1100
    assert length**2 > MOST_CELLS
    weights = torch.rand(1, length, length, generator=RANDOM)
    cls = states(layer_maps(weights))
    [whole] = figures(cls()).values()
    spec, z = whole.picture.spec.downsampled, weights_of(whole)
    rows, columns = z.shape
    assert rows == columns == CELLS
    row, column = 17, 200
    best = weights[0, spec.query_positions[row, column], spec.key_positions[row, column]]
    assert spec.maximum[row, column] == pytest.approx(float(best))
    np.testing.assert_allclose(z, np.sqrt(spec.mass / spec.mass.max()), rtol=1e-5)
    part = cls(part_of_queries=(100, 149), part_of_keys=(300, 379))
    [shown] = figures(part).values()
    downsampled = shown.picture.spec.downsampled
    np.testing.assert_allclose(downsampled.maximum, weights[0, 100:150, 300:380], rtol=1e-6)
    assert downsampled.viewport
    assert shown.zooms is not None
    zoomed = cls.read(shown.zooms((2, 3, 0, 79)))
    assert (zoomed.part_of_queries, zoomed.part_of_keys) == ((102, 103), (300, 379))
    with pytest.raises(ValueError, match="cannot be compared"):
        attnviz.show(weights, weights)


def test_the_colors_go_to_the_largest_weight_of_all_heads() -> None:
    shown = figures(states(layer_maps(WEIGHTS))())["heatmap"]
    assert shown.picture.figure.layout.coloraxis.cmax == pytest.approx(float(WEIGHTS.max()))
