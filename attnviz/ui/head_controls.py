"""Controls of the layer and the head."""

from collections.abc import Sequence

from attnviz.layer import Layer
from attnviz.sources import Source
from attnviz.state.head_state import HeadState
from attnviz.state.selection import Selection
from attnviz.state.source_field import head_names
from attnviz.ui.field_widgets import draw
from attnviz.ui.session_values import write_widget


class _ReadState(HeadState):
    """A state whose layers have been read, maybe before its source was damaged."""

    @property
    def layers(self) -> Sequence[Layer]:
        read: Sequence[Layer] = self.values["read"]
        return read


def choose_head(source: Source, layers: Sequence[Layer]) -> Selection:
    """Draws the menus of layers and heads; returns the selected head."""
    index = draw(HeadState.layer, _ReadState.partial(source=source, read=layers))
    head = draw(HeadState.head, _ReadState.partial(source=source, read=layers, layer=index))
    return Selection(source=source, layers=layers, index=index, head=head)


def open_head(layers: Sequence[Layer], index: int, head: int) -> None:
    """Selects a head in the menus."""
    write_widget(HeadState.layer.parameter, layers[index].name)
    write_widget(HeadState.head.parameter, head_names(layers[index].inputs.heads)[head])
