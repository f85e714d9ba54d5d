"""Keys, a query and all other queries in the plane."""

import base64
import io
import itertools
import re

import numpy as np
import pytest
import torch
from PIL import Image

from attnviz.figures.plane import COLORS, QUERY, TIE, UPSAMPLING, boundaries, plane, plane_background, tints, winners
from attnviz.figures.themes import PAPER
from attnviz.pages.lookup.dictionary import Dictionary, Entry, look_up_grid, lookup_mechanism
from attnviz.scores import Additive, Cosine, Dot, General
from tests.figures.test_themes import CONES, OKLAB, contrast, linear

TABLE = Dictionary((Entry("<b>", 1.5, 0.5, 4.0), Entry("hen", 0.4, 1.5, -2.0), Entry("ant", -0.8, -1.1, 6.0)))
QUERY_AT = (1.2, -0.9)
SCORES = [Dot(), General(torch.tensor([[0.2, -1.0], [1.0, 0.2]], dtype=torch.float64)), Additive(seed=2), Cosine()]
# What is left of a color for eyes that lack one kind of cones, in linear RGB (Machado, Oliveira and Fernandes 2009).
EYES = {
    "all cones": np.eye(3),
    "no long": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no middle": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no short": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def stages(softness: str, score=Dot()) -> tuple[np.ndarray, ...]:  # noqa: B008
    every = look_up_grid(TABLE, lookup_mechanism(softness, score))
    return tuple(stage.numpy() for stage in (every.axis, every.scores, every.weights, every.result, TABLE.values))


def drawn(softness: str = "T = 1", colored_by: str = "key", **more):
    behind = plane_background(*stages(softness), colored_by=colored_by)
    weights = np.array([0.5, 0.2, 0.3])
    return plane(behind, TABLE.keys.numpy(), TABLE.words, TABLE.values.numpy(), weights, QUERY_AT, **more)


def numbers(path: str) -> np.ndarray:
    return np.array([float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", path)]).reshape(-1, 2)


def test_every_arrow_ends_where_its_key_is_and_the_thicker_has_more_weight() -> None:
    chart = drawn()
    arrows = [shape for shape in chart.figure.layout.shapes if shape.type == "path"][1:]
    for arrow, key, color in zip(arrows, TABLE.keys.tolist(), COLORS, strict=False):
        start, _, tip, *_ = numbers(arrow.path)
        assert start.tolist() == [0, 0]
        assert tip == pytest.approx(key)
        assert arrow.line.color == color
    assert arrows[0].line.width > arrows[2].line.width > arrows[1].line.width
    assert numbers(arrows[3].path)[2] == pytest.approx(QUERY_AT)
    assert arrows[3].line.color == QUERY


def test_names_are_text_with_the_value() -> None:
    names = [note.text for note in drawn().figure.layout.annotations]
    assert names == ["<b>&lt;b&gt;</b> 4", "<b>hen</b> −2", "<b>ant</b> 6", "<b>query</b>"]


def test_what_is_drawn_of_the_query_is_named_for_the_browser() -> None:
    chart = drawn(slope=(3.0, 4.0))
    drag = chart.spec.drag
    assert drag.start == QUERY_AT
    assert drag.limits == (-2, 2)
    arrow, handle, slope = (chart.figure.layout.shapes[i] for i in drag.shapes)
    assert (handle.xanchor, handle.yanchor) == QUERY_AT
    start, _, tip, *_ = numbers(slope.path)
    assert start == pytest.approx(QUERY_AT)
    assert (tip - start) / np.hypot(*(tip - start)) == pytest.approx([0.6, 0.8], abs=1e-3)
    assert chart.figure.layout.annotations[drag.annotations[0]].text == "<b>query</b>"
    assert len(drawn().spec.drag.shapes) == 2  # no arrow without a slope
    assert numbers(arrow.path)[0].tolist() == [0, 0]


def test_a_projected_query_is_where_its_matrix_maps_it() -> None:
    matrix = np.array([[0.5, -1.0], [1.0, 0.5]])
    chart = drawn(projection=matrix)
    x, y = QUERY_AT[0] * 0.5 + QUERY_AT[1] * 1.0, QUERY_AT[0] * -1.0 + QUERY_AT[1] * 0.5
    moving = [chart.figure.layout.annotations[i] for i in chart.spec.drag.annotations]
    assert [one.text for one in moving] == ["<b>query</b>", "<b>× W</b>", "<b>qW</b>"]
    assert (moving[2].x, moving[2].y) == pytest.approx((x, y))
    dotted = chart.figure.layout.shapes[chart.spec.drag.shapes[-1]]
    assert dotted.path == f"M{QUERY_AT[0]:g},{QUERY_AT[1]:g}L{x:.4g},{y:.4g}"
    assert chart.spec.drag.matrix is matrix


def test_the_ground_is_left_as_it_is() -> None:
    behind = plane_background(*stages("T = 1"))
    before = len(behind.layout.shapes)
    plane(behind, TABLE.keys.numpy(), TABLE.words, TABLE.values.numpy(), np.ones(3) / 3, QUERY_AT)
    assert len(behind.layout.shapes) == before


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_on_the_lines_two_keys_are_equally_similar_and_no_other_is_more(score) -> None:
    axis, scores, weights, *_ = stages("T = 0.3", score)
    x, y = boundaries(winners(weights), scores, axis)
    assert len(x) > 100
    # Beside the origin, where all meet, and off the cells where three do.
    ends = torch.tensor(np.stack([x, y], axis=-1))[torch.tensor(np.hypot(x, y)) > 0.1]
    found = score(ends, TABLE.keys).sort(dim=-1, descending=True).values
    step = axis[1] - axis[0]
    steepest = np.abs(np.diff(scores, axis=0)).max() / step
    assert (found[:, 0] - found[:, 1]).quantile(0.95) < 0.01 * steepest
    assert (found[:, 0] - found[:, 1]).max() < 2 * step * steepest


def test_a_line_of_two_keys_is_where_it_is_on_paper() -> None:
    axis = np.linspace(-1, 1, 9)
    grid = np.meshgrid(axis, axis)
    scores = np.stack([grid[0], grid[1] + 0.1], axis=-1)  # equal where x = y + 0.1
    x, y = boundaries(scores.argmax(-1), scores, axis)
    np.testing.assert_allclose(x, y + 0.1)
    assert x.max() == pytest.approx(1)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_each_point_has_the_color_of_its_winner(score) -> None:
    axis, scores, weights, *_ = stages("hard", score)
    shown = tints(scores, weights)
    slowly = winners(weights)
    for row, column in itertools.product(range(3, len(axis), 13), repeat=2):
        around = slowly[row - 1 : row + 2, column - 1 : column + 2]
        if len(set(around.ravel())) == 1:
            pixel = shown[UPSAMPLING * row + UPSAMPLING // 2, UPSAMPLING * column + UPSAMPLING // 2]
            assert "#{:02x}{:02x}{:02x}".format(*pixel[:3]) == COLORS[slowly[row, column]]
            assert pixel[3] == round(255 * 0.6)


def test_the_softer_the_paler_and_nothing_where_nobody_wins() -> None:
    cover = [tints(*stages(softness)[1:3])[..., 3].mean() for softness in ("hard", "T = 0.3", "T = 1", "T = 10")]
    assert cover == sorted(cover, reverse=True)
    for softness in ("uniform", "exact match"):
        _, scores, weights, *_ = stages(softness)
        assert (winners(weights) == TIE).all()
        assert not tints(scores, weights)[..., 3].any()
        assert boundaries(winners(weights), scores, stages(softness)[0])[0].size == 0


def test_the_picture_stands_the_right_way_up() -> None:
    [image] = drawn("hard").figure.layout.images
    assert (image.x, image.y, image.sizex, image.sizey) == (-2, 2, 4, 4)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(image.source.split(",")[1]))))
    top, bottom = pixels[5, pixels.shape[1] // 2], pixels[-5, pixels.shape[1] // 2]
    assert "#{:02x}{:02x}{:02x}".format(*top[:3]) == COLORS[1]  # the hen is above
    assert "#{:02x}{:02x}{:02x}".format(*bottom[:3]) == COLORS[2]


def test_values_have_one_scale_whatever_comes_back() -> None:
    for softness in ("hard", "T = 1", "uniform", "exact match"):
        chart = drawn(softness, "value")
        [trace] = chart.figure.data
        assert (chart.figure.layout.coloraxis.cmin, chart.figure.layout.coloraxis.cmax) == (-2, 6)
        np.testing.assert_allclose(trace.z, stages(softness)[3].astype("f4"))
    assert np.isnan(trace.z).all()


def test_equal_values_have_a_scale_too() -> None:
    axis, scores, weights, result, _ = stages("uniform")
    figure = plane_background(axis, scores, weights, result, np.full(3, 5.0), colored_by="value")
    assert figure.layout.coloraxis.cmin < 5 < figure.layout.coloraxis.cmax


@pytest.mark.parametrize("eyes", EYES)
def test_the_keys_and_the_query_can_be_told_apart_by_all_eyes(eyes: str) -> None:
    def seen(color: str) -> np.ndarray:
        return np.array(OKLAB) @ np.cbrt(np.array(CONES) @ (np.array(EYES[eyes]) @ linear(color)).clip(0, 1))

    for one, other in itertools.combinations((*COLORS, QUERY), 2):
        assert np.linalg.norm(seen(one) - seen(other)) > 0.11


@pytest.mark.parametrize("color", [*COLORS, QUERY])
def test_arrows_are_seen_on_both_papers(color: str) -> None:
    assert all(contrast(color, paper) > 1.8 for paper in PAPER.values())
