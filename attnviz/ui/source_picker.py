"""How a page begins that looks at a source: which one, and which layer and head of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.head_maps import HeadChoice
from attnviz.layer import Layer
from attnviz.sources import SOURCES, Pretrained, Source
from attnviz.ui import cache, head_controls
from attnviz.ui.downloads import samples
from attnviz.ui.markdown import plain
from attnviz.ui.widgets import by_title, choose_class, field_widget, settings, title


@dataclass(frozen=True, eq=False)
class Brought:
    """The layers of a source, or the last good ones, and what is looked at of them."""

    source: Source
    layers: Sequence[Layer]
    layer: int
    head: HeadChoice
    notes: DeltaGenerator  # one place for what comes and goes, so that the charts below stay what they are
    _settings: DeltaGenerator

    @property
    def shown(self) -> Layer:
        return self.layers[self.layer]

    def fixed(self, therefore: str = "") -> bool:
        """Whether nothing of the mechanism may be swapped, which is then said, with what follows from it."""
        if self.shown.locked:
            self._settings.empty()
            self.notes.info(plain(f"{self.shown.locked_reason} {therefore}".strip()))
        return self.shown.locked


def choose_source() -> tuple[Source, DeltaGenerator]:
    """Returns the chosen source, and the place of its settings, which can be emptied.

    Its first field, the text or the file, stands on the page; the other fields stand in the sidebar.
    """
    with st.sidebar:
        kind = by_title(SOURCES)[choose_class("Source", by_title(SOURCES), title(SOURCES[0]), "source")]
    first, *others = settings(kind)
    values = {first.name: field_widget(first, kind, "")}
    place = st.sidebar.empty()
    with place.container():
        values |= {other.name: field_widget(other, kind, title(kind)) for other in others}
    return kind(**values), place


def brought() -> Brought:
    """The source, its layer and its head, as the controls say."""
    source, place = choose_source()
    notes = st.container()
    if source.private:
        with notes:
            samples()
    shown, layers = cache.or_last_good(
        "layers", lambda: (source, cache.layers(source)), lambda: (Pretrained(), Pretrained().layers()), notes
    )
    with st.sidebar:
        layer, head = head_controls.choose_layer_and_head(layers, shown.opening)
    return Brought(shown, layers, layer, head, notes, place)
