"""Controls of the source, the layer and the head."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _
from attnviz.layer import Layer
from attnviz.models.minilm import minilm
from attnviz.page.head_state import HeadState
from attnviz.page.parts import settings
from attnviz.page.source_field import MODEL, short_layers, source_layers, with_example
from attnviz.sources import Model, Source, Toy, Upload
from attnviz.trace import Trace
from attnviz.ui import cache, model_input, presentation
from attnviz.ui.downloads import samples
from attnviz.ui.field_widgets import choose_class, draw_setting
from attnviz.ui.markdown import plain
from attnviz.ui.server.page_runs import PageEnd

SOURCE = HeadState.source
LAYERS, SHORT_LAYERS = "layers", "short layers"  # names under which the last good ones are kept


@dataclass(frozen=True)
class Places:
    """The places of a page's notes, and of its source's settings."""

    notes: DeltaGenerator  # one place for what comes and goes, so that the charts below stay what they are
    settings: DeltaGenerator  # what has no effect on finished weights
    model: DeltaGenerator  # and notes on it


def choose_layers(
    side: DeltaGenerator, more: DeltaGenerator, *, long: bool = False
) -> tuple[Source, Sequence[Layer], Places]:
    """Draws the widgets of the source, its first field here and the others at the `side`, those of
    few users in `more`; returns it and its layers.

    If the source has no layers, the last good one of its kind is selected, or its example; if there is none, the page
    ends. The text stays in presentations; only with `long` are there layers whose maps have to be downsampled.
    """
    chosen, places = choose_source(side, more)
    if isinstance(chosen, Upload):
        with places.notes:
            samples()
    readable = cache.or_last_good(
        LAYERS if long else SHORT_LAYERS,
        chosen.subject,
        lambda: _kept(*_source_layers(chosen, long)),
        lambda: _example(chosen, long),
        places.notes,
    )
    if readable is None:
        raise PageEnd
    source, layers = readable
    try:
        layers = layers or source_layers(source)
    except ValueError as problem:  # its folder has been removed or replaced
        cache.show_problem(problem, places.notes)
        raise PageEnd from None
    cache.keep_layers(source, layers)
    if isinstance(source, Model) and isinstance(layers, Trace):
        model_input.show_model(source, layers, places.model, places.notes)
    elif isinstance(layers, Trace):
        for sentence in layers.missing[: model_input.MOST_MISSING]:
            places.notes.info(plain(sentence))
    if isinstance(source, Toy):
        text = _(
            "These vectors are drawn at random, not learned: what a token looks at here says nothing about language."
        )
        places.notes.caption(text)
    if isinstance(chosen, Toy) and not minilm.is_installed():
        places.notes.info(
            plain(_("{not_installed} Until then, these are toy vectors.", not_installed=minilm.not_installed))
        )
    return source, layers, places


def _source_layers(source: Source, long: bool) -> tuple[Source, Sequence[Layer]]:
    """Returns a source with its layers. Raises ValueError if there are none, or if they are long and may not be."""
    return source, source_layers(source) if long else short_layers(source)


def _kept(source: Source, layers: Sequence[Layer]) -> tuple[Source, Sequence[Layer]]:
    """Returns what a session keeps of a source that could be read: no layers that the source keeps itself."""
    return source, () if source.keeps_layers else layers


def _example(source: Source, long: bool) -> tuple[Source, Sequence[Layer]] | None:
    """Returns the example of the same kind of source, or None if it has none."""
    example = source.own_example
    try:
        return _source_layers(example, long) if example.subject == source.subject else None
    except ValueError:
        return None


def choose_source(side: DeltaGenerator, more: DeltaGenerator) -> tuple[Source, Places]:
    """Returns the chosen source, and the places of the page.

    Its input, such as a text or a file, is on the page; its other fields are at the side, those of few users in `more`.
    """
    with side:
        opening = Model() if st.query_params.get(MODEL) else SOURCE.opening(None)
        kind = choose_class(SOURCE, opening) or type(opening)
        place, model = st.empty(), st.container()
    input_place = presentation.control("source")
    places = Places(st.container(), place, model)
    start = SOURCE.start(None, kind)
    if isinstance(start, Model):
        return model_input.choose_model_source(start, model, more, input_place, places.notes), places
    first, *others = settings(kind)
    with place.container():
        values = {other.name: draw_setting(other, SOURCE.prefix(kind, other.name), start) for other in others}
    source = kind(**values)
    with input_place:
        text_or_file = draw_setting(first, SOURCE.prefix(kind, first.name), with_example(source, source))
    return kind(**values | {first.name: text_or_file}), places


def forget_last(*, long: bool = False) -> None:
    """Forgets the last good source, where nothing of it can be drawn; with the argument of `choose_layers`."""
    cache.remember(LAYERS if long else SHORT_LAYERS, None, None)
