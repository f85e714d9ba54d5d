"""What figures take: attention, tensors and arrays."""

import numpy as np
import pytest
import torch

from attnviz import Inputs, Mechanism, figures
from attnviz.figures.themes import MASKED_CODE
from attnviz.masks import Causal

TOKENS = ("the", "cat", "sleeps")
INPUTS = Inputs(*torch.randn(3, 2, 3, 4, generator=torch.Generator().manual_seed(0)), TOKENS, TOKENS)
ATTENTION = Mechanism(mask=Causal())(INPUTS)
FUTURE = ~np.tri(3, dtype=bool)


def test_attention_of_one_head_has_tokens_and_no_number_where_masked() -> None:
    chart = figures.heatmap(Mechanism(mask=Causal())(INPUTS, heads=1))
    np.testing.assert_array_equal(np.isnan(chart.figure.data[0].z), FUTURE)
    assert chart.spec.query_tokens == chart.spec.key_tokens == TOKENS


def test_picked_rows_have_their_tokens() -> None:
    for rows, tokens in ((slice(1, None), ("cat", "sleeps")), ([2, 0], ("sleeps", "the")), (-1, ("sleeps",))):
        chart = figures.heatmap(Mechanism()(INPUTS, heads=0, rows=rows))
        assert (chart.spec.query_tokens, chart.spec.key_tokens) == (tokens, TOKENS)


def test_all_heads_are_a_mosaic_with_the_color_of_masked_cells() -> None:
    chart = figures.mosaic(ATTENTION)
    assert chart.spec.names == ("head 0", "head 1")
    top, left = chart.spec.corner(1)
    assert chart.figure.data[0].z[top, left + chart.spec.width - 1] == MASKED_CODE


@pytest.mark.parametrize("convert", [lambda one: one, lambda one: one.numpy(), lambda one: one[None].bfloat16()])
def test_a_map_may_be_a_tensor_of_any_type_or_an_array(convert) -> None:
    chart = figures.heatmap(convert(ATTENTION.maps[0]))
    np.testing.assert_allclose(chart.figure.data[0].z, ATTENTION.maps[0], atol=0.01)
    assert chart.spec.query_tokens == chart.spec.key_tokens == ("0", "1", "2")


def test_keys_have_the_tokens_of_the_queries_only_if_they_are_as_many() -> None:
    assert figures.heatmap(torch.eye(2), "ab").spec.key_tokens == ("a", "b")
    assert figures.heatmap(torch.ones(2, 3), "ab").spec.key_tokens == ("0", "1", "2")


def test_other_figures_take_tensors_too() -> None:
    assert figures.head_grid(torch.ones(1, 2)).spec.names == ("layer 0, head 0", "layer 0, head 1")
    two = torch.ones(2)
    assert figures.products(two, two).spec == figures.products(two.numpy(), two.numpy()).spec
    assert figures.scatter(two, two, ["a", "b"], torch.tensor([0, 1])).figure.data[0].x.tolist() == [1, 1]
    assert figures.curves([0, 1], torch.ones(1, 2), last=1).spec.rows == 1


def test_several_heads_where_one_is_drawn_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"one head; it was given 2\. Choose one with .*heads=0.*figures\.mosaic"):
        figures.heatmap(ATTENTION)


def test_shapes_and_tokens_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"key_tokens names 2 tokens, but the map has 3"):
        figures.heatmap(torch.ones(2, 3), "ab", "ab")
    with pytest.raises(ValueError, match=r"this has the shape \(2, 2, 3, 3\)"):
        figures.mosaic(torch.ones(2, 2, 3, 3))
