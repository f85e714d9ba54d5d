"""Controls for the layer, the head, and the display of maps."""

from collections.abc import Sequence
from types import SimpleNamespace

from attnviz.analysis.head_maps import HeadChoice, Special
from attnviz.layer import Layer
from attnviz.sources.source import Opening
from attnviz.state.color_range import ColorRange
from attnviz.state.explore import ExploreState
from attnviz.state.source_field import head_names
from attnviz.ui.field_widgets import draw
from attnviz.ui.session_values import write_widget

DISPLAY = ("special-tokens", "mosaic", "colors")  # the link parameters of `choose_display`


def choose_layer_and_head(layers: Sequence[Layer], opening: Opening) -> tuple[int, HeadChoice]:
    """Draws the menus of layers and heads; returns the index of the layer, and the head or an aggregate."""
    source = SimpleNamespace(opening=opening, keeps_layers=True, layers=lambda: layers)
    layer = draw(ExploreState.layer, SimpleNamespace(source=source))
    return layer, draw(ExploreState.head, SimpleNamespace(source=source, layer=layer))


def choose_display(layers: Sequence[Layer], layer: int) -> tuple[Special, bool, ColorRange]:
    """Draws the controls of the display; returns the treatment of special tokens, whether the mosaic shows all
    layers, and the range of the colors."""
    has_special = bool(layers[layer].inputs.special_keys)
    special = draw(ExploreState.special_tokens) if has_special else Special.SHOWN
    return special, len(layers) > 1 and draw(ExploreState.mosaic), draw(ExploreState.colors)


def open_head(layers: Sequence[Layer], index: int, head: int) -> None:
    """Selects a head in the menus."""
    write_widget(ExploreState.layer.parameter, layers[index].name)
    write_widget(ExploreState.head.parameter, head_names(layers[index].inputs.heads)[head])
