"""The viewport in the small map of its head, and what a selection of a long text holds."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnviz import Inputs, Layer, Mechanism
from attnviz.layer import Kind, LayerId
from attnviz.page.head_mosaic import LEAST_SIDE, head_mosaic, head_of_tile, moved_part, part_in_view
from attnviz.page.selected_maps import positions
from attnviz.page.selection import Selection
from attnviz.page.viewport import WHOLE, Viewport
from attnviz.sources import Toy

COUNT, HEIGHT, WIDTH = 1200, 30, 40
TOKENS = tuple(map(str, range(COUNT)))


def selection(**more: object) -> Selection:
    layer = Layer(LayerId("decoder", 0), Kind.SELF, Inputs(*torch.zeros(3, 3, COUNT, 1), TOKENS, TOKENS), Mechanism())
    one = Selection(source=Toy(), layers=[layer], index=0, head=1, viewport=WHOLE)
    return replace(one, **more)


def frame_of(**more: object) -> tuple[dict, tuple[int, int]]:
    """The frame of the part in view, and the corner of its tile."""
    one = selection(**more)
    picture = head_mosaic(one, np.zeros((3, HEIGHT, WIDTH)), 1.0)
    (*_others, frame) = picture.figure.layout.shapes
    return frame, picture.spec.corner(1)


def test_a_frame_has_the_share_of_the_map_that_is_in_view() -> None:
    frame, (top, left) = frame_of(viewport=Viewport((300, 600), (0, 900)))
    assert [frame[side] for side in ("y0", "y1")] == [top + HEIGHT / 4 - 0.5, top + HEIGHT / 2 - 0.5]
    assert [frame[side] for side in ("x0", "x1")] == [left - 0.5, left + WIDTH * 3 / 4 - 0.5]


@pytest.mark.parametrize("first", [0, 7, COUNT - 1])
def test_a_frame_of_one_token_can_be_seen_and_stays_in_its_tile(first: int) -> None:
    frame, (top, left) = frame_of(viewport=Viewport((first, first + 1), (first, first + 1)))
    for start, length, low, high in ((top, HEIGHT, "y0", "y1"), (left, WIDTH, "x0", "x1")):
        first_edge, last_edge = (float(str(frame[edge])) + 0.5 - start for edge in (low, high))
        assert 0 <= first_edge <= last_edge - LEAST_SIDE <= length - LEAST_SIDE + 1e-6


def test_a_click_moves_the_part_and_keeps_its_size() -> None:
    one = selection(viewport=Viewport((0, 100), (500, 540)))
    spec = head_mosaic(one, np.zeros((3, HEIGHT, WIDTH)), 1.0).spec
    top, left = spec.corner(1)
    assert moved_part(one, spec, top + HEIGHT // 2, left) == (slice(570, 670), slice(0, 40))
    assert moved_part(one, spec, top + HEIGHT - 1, left + WIDTH - 1) == (slice(1100, 1200), slice(1160, 1200))
    other = spec.corner(2)
    assert moved_part(one, spec, *other) is None
    assert head_of_tile(one, spec, *other) == (0, 2)


def test_what_is_whole_has_no_frame() -> None:
    assert part_in_view(selection()) is None
    assert part_in_view(selection(viewport=None)) is None


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((0, 3), slice(400, 440)),
        ((1, 2), slice(410, 430)),
        ((-2, 5), slice(380, 460)),
        ((-(10**9), 10**9), slice(360, 480)),  # at most as many cells more on each side
        ((3, 0), slice(430, 440)),
    ],
)
def test_cells_around_a_part_are_positions_around_it(cells: tuple[int, int], expected: slice) -> None:
    assert positions([400, 410, 420, 430, 440], *cells, COUNT) == expected
    assert positions([0, 10, 20, 30, 40], -4, 7, 60) == slice(0, 60)


def test_the_positions_and_names_of_a_long_text_are_made_once() -> None:
    one = selection()
    assert one.keys is one.keys
    assert one.queries is one.queries
    assert one.query_names is one.query_names
