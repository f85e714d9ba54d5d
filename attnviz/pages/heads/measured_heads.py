"""A number of each head: all of them as a grid or as points, the largest, a chosen head, and the heads of each kind."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.analysis.head_detectors import DETECTORS, Detector
from attnviz.analysis.strongest_heads import MOST_OF
from attnviz.base.formatting import grouped, percent
from attnviz.base.language import N_, _, plural
from attnviz.base.link import Link
from attnviz.effects.ablation import Head
from attnviz.figures.scatter import SHAPES, scatter
from attnviz.layer import Kind, Layer
from attnviz.lessons.checks import Quantities
from attnviz.page.blocks import Anchor, Block, Columns, Control, Figure, More, Note, Paragraph, Summary, Table
from attnviz.page.head_numbers import HeadNumbers
from attnviz.page.head_state import HeadState
from attnviz.page.parts import help_text
from attnviz.page.selected_maps import map_panel, selected_map
from attnviz.page.selection import Selection
from attnviz.page.viewport import WHOLE
from attnviz.pages.effects.links import effects_link
from attnviz.pages.heads.links import in_general
from attnviz.pages.heads.state import HeadsState

KIND_NAMES = {  # of an encoder–decoder model
    ("encoder", False): N_("Encoder self-attention"),
    ("decoder", False): N_("Decoder self-attention"),
    ("decoder", True): N_("Encoder–decoder attention"),
}
LISTED, NAMED = 10, 4  # heads in the table, and of each kind
MAP, POINTS = 360, 420  # pixels


def measure_controls(state: HeadsState) -> Columns:
    return Columns(
        [(0.5, [Control(HeadsState.measure, state, stays=True)]), (0.5, [Control(HeadsState.against, state)])]
    )


def head_numbers(
    state: HeadsState, measure: Detector, values: np.ndarray, of_seeds: np.ndarray | None = None
) -> HeadNumbers:
    """Returns what is measured of each head; shares have the same colors everywhere."""
    ends = None if of_seeds is None else (of_seeds.min(0), of_seeds.max(0))
    return HeadNumbers(measure_title(measure), state.ids, values, ends, 1.0 if measure.unit == "share" else None)


def measure_title(measure: Detector) -> str:
    """Returns the name of what is measured, with its unit."""
    return _(measure.name) if measure.unit == "share" else f"{_(measure.name)}, {_(measure.unit)}"


def measured_heads(
    state: HeadsState,
    measured: dict[Detector, HeadNumbers],
    rests: str,
    largest: Callable[[HeadNumbers, Sequence[Head]], str],
    about_head: Callable[[Head], Iterable[Block]],
) -> Iterator[Block]:
    """Yields the chosen numbers of all heads, the largest of them, and what there is about the chosen head."""
    shown = measured[state.measure]
    strongest = shown.strongest(LISTED)
    head = state.head or next(iter(strongest), None)
    yield Summary(largest(shown, strongest), partial(_quantities, measured, state))
    yield _picture(state, measured, head)
    yield Note(f"{_about(state.measure)} {rests}")
    if state.against is not None:
        yield from map(Note, _about_points(state, shown, measured[state.against]))
    table = shown.table((_("Head"), shown.title), state, strongest)
    chosen = [] if head is None else [*about_head(head), _all_numbers(head, measured, shown)]
    yield Columns([(0.4, [table]), (0.6, [Control(HeadsState.head, state), *chosen])])


def largest_share(measure: Detector, shown: HeadNumbers, strongest: Sequence[Head]) -> str:
    if not strongest:
        return _("No head here has a number for “{name}”.", name=shown.title)
    name, value = shown.name(strongest[0]), shown.text(strongest[0])
    texts = [shown.text((int(layer), int(head))) for layer, head in np.argwhere(np.isfinite(shown.values))]
    if len(texts) > 1 and {*texts} == {value}:  # the largest is that by rounding
        return _("All {count} heads have {value} for “{name}”.", count=len(texts), value=value, name=shown.title)
    if measure in DETECTORS and shown.values[strongest[0]] < MOST_OF:
        text = _(
            "No head is a clear “{kind}” here. The largest share, {value}, has {head}.",
            kind=_(measure.name),
            value=value,
            head=name,
        )
    elif measure in DETECTORS:
        text = _("{head} is the strongest {kind}: {value}.", head=name, kind=_(measure.name), value=value)
    else:
        text = _("{head} has the largest number for “{name}”: {value}.", head=name, name=shown.title, value=value)
    return text[:1].upper() + text[1:]


def _about(measure: Detector) -> str:
    """Returns what is measured, in a sentence or two."""
    if measure.about or measure.metric is None:
        return _(measure.about)
    return help_text(type(measure.metric)).split("\n\n")[0].replace("\n", " ")


def over_queries(queries: int) -> str:
    return plural("Over {count} query.", "Over {count} queries.", queries, count=grouped(queries))


def _quantities(measured: dict[Detector, HeadNumbers], state: HeadsState) -> Quantities:
    """Returns the numbers that lessons check: those that are shown."""
    numbers = {**measured[state.measure].quantities("number of")}
    return numbers if state.against is None else {**numbers, **measured[state.against].quantities("other number of")}


def _picture(state: HeadsState, measured: dict[Detector, HeadNumbers], head: Head | None) -> Figure:
    """Returns the grid of the numbers, or both numbers of each head as a point."""
    shown, hint = measured[state.measure], _("Click a head to see all that it does.")
    if state.against is None:
        return shown.grid("heads-grid", hint, shown.opens_head(state), head)
    other, places = measured[state.against], [*state.heads.values()]
    rows, columns = zip(*places, strict=True)
    kinds = [*dict.fromkeys(map(kind_of, state.layers))]
    names = [
        f"{shown.name(place)}: {other.title} {other.text(place)}, {shown.title} {shown.text(place)}" for place in places
    ]
    picture = scatter(
        other.values[rows, columns], shown.values[rows, columns], names, np.array(rows),
        [i for i, place in enumerate(places) if place == head],
        titles=(other.title, shown.title), kinds=[kinds.index(kind_of(state.layers[i])) for i in rows],
        labels=[*map(shown.short_name, places)], aspect=0.5, group=_("layer"),
    ).with_about(hint=_("Each point is a head. Click to open it."))  # fmt: skip

    def opens(point: int, _column: int) -> Link:
        return state.link_with(head=places[point])

    return Figure(picture, "heads-points", POINTS, opens, [other.panel(), shown.panel()])


def _about_points(state: HeadsState, *numbers: HeadNumbers) -> Iterator[str]:
    """Yields what the shapes of points are, and how many heads have none."""
    is_encoder_decoder = state.source.model().is_encoder_decoder
    kinds = dict.fromkeys(kind_name(layer, is_encoder_decoder) for layer in state.layers)
    if len(kinds) > 1:
        yield " · ".join(f"{shape} {name}" for shape, name in zip(SHAPES.values(), kinds, strict=False))
    total = len(state.heads)
    missing = total - int(np.isfinite(numbers[0].values + numbers[1].values).sum())
    if missing:
        yield _("{count} of {total} heads lack one of the numbers, and have no point.", count=missing, total=total)


def _all_numbers(head: Head, measured: dict[Detector, HeadNumbers], shown: HeadNumbers) -> More:
    known = [(one.title, one.text(head)) for one in measured.values() if np.isfinite(one.values[head])]
    return More(_("All that it does"), [Table((shown.name(head), ""), known)])


def map_of_text(state: HeadsState, head: Head) -> Iterator[Block]:
    """Yields the map of a head on the text, and links to what else is known of it."""
    index, number_of_head = head
    selection = Selection(source=state.source, layers=state.layers, index=index, head=number_of_head, viewport=WHOLE)
    try:
        head_map = selected_map(selection)
    except ValueError as problem:
        yield Note(str(problem))
        return
    picture = head_map.chart(largest=float(np.nanmax(head_map.weights, initial=0)) or 1.0)
    yield Figure(picture, "heads-map", MAP, panels=[map_panel(head_map, head_map.title, None)])
    explore = HeadState(source=state.source, layer=index, head=number_of_head).link()
    without = effects_link(state.link(), HeadsState.head.name_of(state, head))
    yield Paragraph(
        (
            Anchor(_("Open in Explore"), explore, "explore", "attnviz-page-link"),
            " ",
            Anchor(_("What happens without it?"), without, "effects", "attnviz-page-link"),
            " ",
            in_general(state.model, state.ids[index], number_of_head),
        )
    )


def kinds_of_heads(state: HeadsState, measured: dict[Detector, HeadNumbers]) -> Table:
    """Returns the heads that give most of their attention to what the detectors look for."""
    rows = []
    for detector in (one for one in DETECTORS if one in measured):
        numbers = measured[detector]
        strong = numbers.strongest(numbers.values.size, MOST_OF)
        cells: list[object] = [
            (Anchor(numbers.short_name(head), state.link_with(measure=detector, head=head)), f" {numbers.text(head)} ")
            for head in strong[:NAMED]
        ]
        more = [_("and {count} more", count=len(strong) - NAMED)] if len(strong) > NAMED else []
        rows.append((_(detector.name), tuple(cells + more) or "–"))
    return Table((_("Kind"), _("at least {least} of all attention", least=percent(MOST_OF))), rows)


def kind_of(layer: Layer) -> tuple[str, bool]:
    """Returns what layers of one kind have in common: their stack, and whether they are cross-attention."""
    return layer.id.stack, layer.kind is Kind.CROSS


def kind_name(layer: Layer, is_encoder_decoder: bool) -> str:
    """Returns the name of a layer's kind of attention."""
    stack = layer.id.stack.capitalize()
    return _(KIND_NAMES.get(kind_of(layer), stack) if is_encoder_decoder else stack)
