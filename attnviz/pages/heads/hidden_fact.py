"""How much attention the question at the end of a long text gives to a fact that is hidden in it."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.analysis.needle import PassageMass, passage_mass
from attnviz.analysis.work import heads_work
from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.effects.ablation import Head
from attnviz.figures.bands import add_bands
from attnviz.page.blocks import Block, Columns, Control, Figure, More, Note, Paragraph, Row, Summary
from attnviz.page.head_numbers import HeadNumbers
from attnviz.page.result_cache import result_cache
from attnviz.page.selected_maps import map_panel, selected_map
from attnviz.page.selection import Selection
from attnviz.page.viewport import WHOLE
from attnviz.pages.heads.haystack_layers import HaystackLayers, find_needle, most_words
from attnviz.pages.heads.state import HeadsState
from attnviz.sources.haystack import Haystack

LISTED = 10  # heads in the table
MAP = 360  # pixels


def hidden_fact(state: HeadsState) -> Iterator[Block]:
    """Yields how much attention the question at the end of a long text gives to a fact that is hidden in it."""
    words = min(int(state.words), most_words(state.source))
    haystack = Haystack(words, int(state.depth))
    example = find_needle(state.source, haystack)
    compute = partial(passage_mass, example.layers, example.question, example.needle)
    masses: PassageMass = result_cache().once(compute, "needle", example.source, work=heads_work(example.layers))
    numbers = _masses(state, example, masses)
    strongest = numbers.strongest(LISTED)
    head = state.head or strongest[0]
    yield Row([Control(HeadsState.words, state), Control(HeadsState.depth, state)], "heads-haystack")
    yield Summary(_mass_sentence(state, example, masses, numbers, head), partial(numbers.quantities, "mass of"))
    yield numbers.grid("heads-needle", _("Click a head to see its map."), numbers.opens_head(state), head)
    yield Note(
        _("Hidden in the text: “{fact}” At its end: “{question}”", fact=haystack.fact, question=haystack.question)
    )
    table = numbers.table((_("Head"), _("mass on the fact")), state, strongest)
    yield Columns([(0.4, [table]), (0.6, [Control(HeadsState.head, state), *_marked_map(state, example, head)])])
    yield More(_("The text"), [Paragraph(haystack.text)])


def _masses(state: HeadsState, example: HaystackLayers, masses: PassageMass) -> HeadNumbers:
    places = [state.ids.index(layer.id) for layer in example.layers]
    layers = np.array(places)[masses.layers.numpy()]
    values = state.grid(layers, masses.heads.numpy(), masses.mass.numpy())
    return HeadNumbers(_("Mass on the fact"), state.ids, values)


def _mass_sentence(
    state: HeadsState, example: HaystackLayers, masses: PassageMass, numbers: HeadNumbers, head: Head
) -> str:
    name = state.layers[head[0]].name
    index = next((i for i, layer in enumerate(example.layers) if layer.name == name), None)
    if index is None:
        return _("The text does not attend to itself in {name}. Open a head of the table.", name=name)
    here = int(((masses.layers == index) & (masses.heads == head[1])).nonzero()[0, 0])
    return _(
        "{title}: the question gives {mass} of its attention to the fact; spread over all tokens "
        "alike, it would be {uniform}.",
        title=numbers.name(head)[:1].upper() + numbers.name(head)[1:],
        mass=number(float(masses.mass[here])),
        uniform=number(float(masses.uniform[here])),
    )


def _marked_map(state: HeadsState, example: HaystackLayers, head: Head) -> Iterator[Block]:
    """Yields the map of a head, with the rows and columns of the fact and the rows of the question."""
    index, number_of_head = head
    selection = Selection(source=state.source, layers=state.layers, index=index, head=number_of_head, viewport=WHOLE)
    try:
        head_map = selected_map(example.selected(selection))
    except ValueError as problem:
        yield Note(str(problem))
        return
    picture = head_map.chart(largest=float(np.nanmax(head_map.weights, initial=0)) or 1.0)
    rows = [_band(head_map.queries, part) for part in (example.needle, example.question)]
    columns = [_band(head_map.keys, example.needle)]
    add_bands(picture.figure, head_map.weights.shape, rows=rows, columns=columns)
    picture = picture.with_about(hint=_("Marked: the fact, and the question’s rows."))
    yield Figure(picture, "heads-map", MAP, panels=[map_panel(head_map, head_map.title, None)])


def _band(positions: Sequence[int], passage: slice) -> tuple[int, int]:
    """Returns the first and last row or column of a passage among those that are shown."""
    shown = [i for i, position in enumerate(positions) if passage.start <= position < passage.stop]
    return shown[0], shown[-1]
