"""How a page begins that looks at a source: which one, and which layer and head of it."""

from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.layer import Layer
from attnviz.sources import Pretrained
from attnviz.ui import cache, controls
from attnviz.ui.downloads import samples
from attnviz.ui.markdown import plain
from attnviz.ui.selection import Selection

LAYERS = "layers"  # the name under which the last good ones are kept


@dataclass(frozen=True)
class Places:
    """Where a page that begins so has its notes, and the settings of its source."""

    notes: DeltaGenerator  # one place for what comes and goes, so that the charts below stay what they are
    settings: DeltaGenerator

    def show_locked(self, layer: Layer, consequence: str = "") -> bool:
        """Returns whether the mechanism of the layer cannot be changed, and says so with what follows from it."""
        if layer.locked:
            self.settings.empty()
            self.notes.info(plain(f"{layer.locked_reason} {consequence}".strip()))
        return layer.locked


def choose() -> tuple[Selection, Places]:
    """Draws the widgets of the source, the layer and the head, and returns what they say.

    If the source has no layers to show, the last one that had is selected.
    """
    chosen, settings = controls.source()
    places = Places(st.container(), settings)
    if chosen.private:
        with places.notes:
            samples()
    source, layers = cache.or_last_good(
        LAYERS, lambda: (chosen, cache.layers(chosen)), lambda: (Pretrained(), Pretrained().layers()), places.notes
    )
    with st.sidebar:
        index, head = controls.layer_and_head(layers, source.opening)
    mechanisms = [layer.mechanism for layer in layers]
    return Selection(source=source, layers=layers, mechanisms=mechanisms, index=index, head=head), places


def keep(selection: Selection) -> None:
    """Keeps the source as the last good one: one whose picture was refused is forgotten."""
    cache.remember(LAYERS, (selection.source, selection.layers))
