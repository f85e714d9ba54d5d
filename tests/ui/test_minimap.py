"""The viewport in the small map of its head, and what a selection of a long text holds."""

from dataclasses import replace

import pytest
import torch

from attnviz import Inputs, Layer, Mechanism
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.layer import Kind, LayerId
from attnviz.sources import Toy
from attnviz.state.selection import Selection
from attnviz.state.viewport import WHOLE, Viewport
from attnviz.ui.minimap import LEAST_SIDE, minimap
from attnviz.ui.viewport_sliders import SLIDERS
from attnviz.views.selected_maps import positions

COUNT, HEIGHT, WIDTH = 1200, 30, 40
SPEC = MosaicSpec(("Head 0", "Head 1", "Head 2"), 2, 2, HEIGHT, WIDTH, HEIGHT + 2, WIDTH + 2)
TOKENS = tuple(map(str, range(COUNT)))


def selection(**more: object) -> Selection:
    layer = Layer(LayerId("decoder", 0), Kind.SELF, Inputs(*torch.zeros(3, 3, COUNT, 1), TOKENS, TOKENS), Mechanism())
    one = Selection(source=Toy(), layers=[layer], index=0, head=1, viewport=WHOLE)
    return replace(one, **more)


def test_a_frame_has_the_share_of_the_map_that_is_in_view() -> None:
    part = minimap(selection(viewport=Viewport((300, 600), (0, 900))), SPEC)
    assert part is not None
    top, left = SPEC.corner(1)
    frame = part.frame()
    assert [frame[side] for side in ("y0", "y1")] == [top + HEIGHT / 4 - 0.5, top + HEIGHT / 2 - 0.5]
    assert [frame[side] for side in ("x0", "x1")] == [left - 0.5, left + WIDTH * 3 / 4 - 0.5]


@pytest.mark.parametrize("first", [0, 7, COUNT - 1])
def test_a_frame_of_one_token_can_be_seen_and_stays_in_its_tile(first: int) -> None:
    part = minimap(selection(viewport=Viewport((first, first + 1), (first, first + 1))), SPEC)
    assert part is not None
    (top, left), frame = SPEC.corner(1), part.frame()
    for start, length, low, high in ((top, HEIGHT, "y0", "y1"), (left, WIDTH, "x0", "x1")):
        first_edge, last_edge = (float(str(frame[edge])) + 0.5 - start for edge in (low, high))
        assert 0 <= first_edge <= last_edge - LEAST_SIDE <= length - LEAST_SIDE + 1e-6


def test_a_click_moves_the_part_and_keeps_its_size(monkeypatch) -> None:
    state: dict[str, object] = {}
    monkeypatch.setattr("attnviz.ui.viewport_sliders.st.session_state", state)
    part = minimap(selection(viewport=Viewport((0, 100), (500, 540))), SPEC)
    assert part is not None
    top, left = SPEC.corner(1)
    part.move(top + HEIGHT // 2, left)
    assert state == {SLIDERS[0]: (570, 669), SLIDERS[1]: (0, 39)}
    part.move(top + HEIGHT - 1, left + WIDTH - 1)
    assert state == {SLIDERS[0]: (1100, 1199), SLIDERS[1]: (1160, 1199)}


def test_what_is_whole_has_no_frame() -> None:
    assert minimap(selection(), SPEC) is None
    assert minimap(selection(viewport=None), SPEC) is None


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
    assert one.key_names is one.key_names
