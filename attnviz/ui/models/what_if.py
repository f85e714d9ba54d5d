"""What if: another mask, score, normalizer or temperature, or heads less, in the model itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, cast

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from torch import Tensor

from attnviz.biases import Bias
from attnviz.figures.bars import bars
from attnviz.figures.head_grid import head_grid
from attnviz.formatting import number, visible
from attnviz.layer import Kind, Layer
from attnviz.masks import Band, Causal, Full, Mask, SlidingWindow
from attnviz.models.interventions import Intervention
from attnviz.normalizers import Normalizer, Softmax
from attnviz.scores import Score
from attnviz.ui import cache, mechanism_controls, widgets
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_map import selected_map
from attnviz.ui.markdown import plain
from attnviz.ui.models.intervention_run import IntervenedExample, Outcome, outcome
from attnviz.ui.models.layer_table import named
from attnviz.ui.models.products import in_words
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.transformer import what_if as parts

MASK, SCORE, NORMALIZER, OFF, WHERE = "if-mask", "if-score", "if-normalizer", "if-off", "if-where"
EVERYWHERE, ALIKE, HERE = "All layers", "Layers of this kind", "This layer"
NAMES = ("As it is", "Changed")
SIDES = dict(zip(("if-before", "if-after"), NAMES, strict=True))  # by the keys of their charts
SCORE_MENU = {widgets.title(kind): kind for kind in parts.PLAIN_SCORES}
KEPT = "what if on a model"  # the name of what could be computed last
HEIGHT = 400
LEAST = 0.1  # where the colors of what has moved end at least
LABELED = 24  # layers that have room for their names
BITS = (
    "KL is the Kullback–Leibler divergence: the bits that it costs on average to expect the changed distribution where "
    "the other one holds. 0 bits: the two are the same."
)
SEEING = (
    "**What you are seeing.** The model reads the text once more, and attends otherwise where you say so. Layers below "
    "stay as they are; every layer above works with what comes of it, so its maps move too. Both maps have one color "
    "range. A small cell is a head: the share of a query’s attention that is no longer where it was, on average over "
    "its queries; a head that is ablated has no color."
)


@dataclass(frozen=True)
class AsItIs:
    """Each layer keeps what it was trained with."""


def show(selection: ModelSelection) -> None:
    """Draws changes to try, what becomes of the output, and the map of the chosen head as it is and changed."""
    if not _open(selection):
        st.info(plain(f"Nothing can be exchanged in {selection.model.name}. {selection.layer.locked_reason}"))
        return
    top = st.container()
    with st.expander("Change it yourself", key="if-own", icon=":material/tune:", bind="query-params"):
        intervention, refused = _choose(selection)
    with top:
        _menu(selection, intervention)
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    example, result = _made(selection, intervention, refused, notes)
    with notes:
        changes = (
            escape(listed(selection.layers, example.intervention)) or "&nbsp;"
        )  # a line, so that nothing below jumps
        st.html(
            f"<p class='attnviz-summary' role='status'>{escape(result.sentence)}</p>"
            f"<p class='attnviz-note'>{changes}</p>"
        )
        if len(_open(selection)) < len(selection.layers):
            closed = [layer.id for layer in selection.layers if layer.locked]
            st.caption(plain(f"Nothing can be exchanged in {named(closed)}, whose queries and keys are not known."))
    _maps(selection, example, result)
    left, right = st.columns([0.45, 0.55], gap="medium")
    with left:
        _grid(selection, example, result)
    with right:
        _tokens(result)
        st.caption(SEEING)


def listed(layers: Sequence[Layer], intervention: Intervention) -> str:
    """What is changed and where, in words; nothing where nothing is."""
    open_ones = [i for i, layer in enumerate(layers) if not layer.locked]
    places = open_ones if intervention.layers is None else intervention.layers
    where = "all layers" if set(open_ones) <= set(places) else named([layers[i].id for i in places])
    said = []
    if parts := in_order(intervention.score, (), intervention.mask, intervention.normalizer):
        said.append(f"Changed in {where}. {parts}")
    ablated = []
    for i in sorted({layer for layer, _ in intervention.ablated}):
        heads = [str(head) for layer, head in intervention.ablated if layer == i]
        numbers = f"{layers[i].name}, head{'s' * (len(heads) > 1)} {', '.join(heads)}"
        ablated.append(f"all heads of {layers[i].name}" if len(heads) == layers[i].inputs.heads else numbers)
    return " ".join(said + [f"Ablated: {'; '.join(ablated)}."] * bool(ablated))


def _open(selection: ModelSelection) -> list[int]:
    """The places of the layers whose attention can be exchanged."""
    return [i for i, layer in enumerate(selection.layers) if not layer.locked]


def _choose(selection: ModelSelection) -> tuple[Intervention, list[str]]:
    """Draws the widgets; gives what is to be exchanged, and why some of it was refused."""
    refused: list[str] = []
    columns = st.columns(4, gap="small")
    with columns[0]:
        mask = _part("Mask", mechanism_controls.MASK_MENU, MASK, refused)
    with columns[1]:
        score = _part("Score", SCORE_MENU, SCORE, refused)
    with columns[2]:
        normalizer = _part("Normalizer", parts.NORMALIZER_MENU, NORMALIZER, refused)
    with columns[3]:
        where = st.selectbox(
            "Where", _places(selection), key=WHERE, bind="query-params",
            help="In which layers the mask, the score and the normalizer are exchanged.",
        )  # fmt: skip
    heads = _heads(selection)
    about = "They see nothing, and add nothing to what their layer gives."
    off = st.multiselect("Ablated heads", list(heads), key=OFF, bind="query-params", placeholder="None", help=about)
    ablated = tuple(heads[one] for one in sorted(off, key=list(heads).index))
    return Intervention(mask, score, normalizer, ablated, _places(selection)[where]), refused


def _part(label: str, menu: dict[str, type], key: str, refused: list[str]) -> Any:
    """One part of every mechanism, or None where each layer keeps its own."""
    part = widgets.choose(label, cast("dict[str, type[object]]", menu), AsItIs(), key, refused.append)
    return None if isinstance(part, AsItIs) else part


def _places(selection: ModelSelection) -> dict[str, tuple[int, ...]]:
    """Where something can be exchanged, by name: in all layers, in those of one kind, or in one."""
    every = _open(selection)
    alike = [i for i in every if selection.layers[i].kind == selection.layer.kind]
    here = [i for i in every if i == selection.index]
    named = {EVERYWHERE: tuple(every), ALIKE: tuple(alike), HERE: tuple(here)}
    return {name: places for name, places in named.items() if name != ALIKE or 0 < len(alike) < len(every)}


def _heads(selection: ModelSelection) -> dict[str, tuple[int, int]]:
    """The heads that can be ablated, by name: their layer and their place in it."""
    return {
        f"{selection.layers[i].name}, head {head}": (i, head)
        for i in _open(selection)
        for head in range(selection.layers[i].inputs.heads)
    }


def tries(selection: ModelSelection) -> dict[str, tuple[Intervention, str]]:
    """Changes worth trying, and where, by name."""
    all_of_it = ALIKE if ALIKE in _places(selection) else EVERYWHERE
    found = {"Everything as it is": (Intervention(), EVERYWHERE)}
    if not selection.layer.locked:
        whole = tuple((selection.index, head) for head in range(selection.layer.inputs.heads))
        if isinstance(selection.head, int):
            found["Ablate this head"] = (Intervention(ablated=(whole[selection.head],)), EVERYWHERE)
        found["Ablate this layer’s heads"] = (Intervention(ablated=whole), EVERYWHERE)
    found["Temperature 4"] = (Intervention(normalizer=Softmax(4.0)), EVERYWHERE)
    if selection.layer.kind is Kind.CAUSAL:
        found["Only the last 4 tokens"] = (Intervention(SlidingWindow(4)), all_of_it)
        found["See the future"] = (Intervention(Full()), all_of_it)
    elif selection.layer.kind is Kind.SELF:
        found["Only the neighbors"] = (Intervention(Band(1)), all_of_it)
        found["Only what came before"] = (Intervention(Causal()), all_of_it)
    return found


def _menu(selection: ModelSelection, intervention: Intervention) -> None:
    """The changes worth trying; the one that is tried is marked."""
    choices = tries(selection)
    places = _places(selection)

    def try_it() -> None:
        if (name := st.session_state["if-try"]) is not None:
            _write(selection, *choices[name])

    tried = (name for name, (one, where) in choices.items() if intervention == replace(one, layers=places[where]))
    st.session_state["if-try"] = next(tried, None)
    st.pills("Try", list(choices), key="if-try", on_change=try_it, label_visibility="collapsed")


def _write(selection: ModelSelection, intervention: Intervention, where: str) -> None:
    """Makes this the change that the widgets show."""
    for menu, part, key in (
        (mechanism_controls.MASK_MENU, intervention.mask, MASK),
        (SCORE_MENU, intervention.score, SCORE),
        (parts.NORMALIZER_MENU, intervention.normalizer, NORMALIZER),
    ):
        parts.show_part(cast("dict[str, type[object]]", menu), part or AsItIs(), key)
    st.session_state[WHERE] = where
    st.session_state[OFF] = [name for name, head in _heads(selection).items() if head in intervention.ablated]


def _made(
    selection: ModelSelection, asked: Intervention, refused: list[str], notes: DeltaGenerator
) -> tuple[IntervenedExample, Outcome]:
    """What is asked, or the last that could be run of this example, and what it gives."""
    plain_one = IntervenedExample.of(selection.source, Intervention())
    if st.session_state.get(f"{KEPT} of") != selection.source:
        st.session_state[f"{KEPT} of"] = selection.source
        cache.remember(KEPT, plain_one)

    def make() -> IntervenedExample:
        if refused:
            raise ValueError(" ".join(refused))
        example = IntervenedExample.of(selection.source, asked)
        outcome(example)
        return example

    example = cache.or_last_good(KEPT, make, lambda: plain_one, notes)
    return example, outcome(example)


# The pictures


def _maps(selection: ModelSelection, example: IntervenedExample, result: Outcome) -> None:
    """Draws the map of the chosen head as it is and changed, in one range of colors."""
    pairs = ((selection.source, selection.layers), (example, result.layers))
    try:
        sides = [selected_map(selection.with_layers(source, layers)) for source, layers in pairs]
    except ValueError as problem:  # too long to be drawn; the rest is not
        st.info(plain(str(problem)))
        return
    end = selection.colors.end([side.weights for side in sides])
    for (key, title), side, column in zip(SIDES.items(), sides, st.columns(2, gap="medium"), strict=True):
        with column:
            st.html(f"<p class='attnviz-change'>{title} <small>{escape(side.title)}</small></p>")
            chart(
                side.chart(largest=end, link="what-if"),
                key,
                label=f"{title}: attention weights",
                name=f"attention {side.title} {title.lower()}",
                description=f"{title}, {side.title}: {side.size}. The arrow keys move from cell to cell.",
                height=HEIGHT,
                hint="Point at a cell: it is marked in both maps.",
                on_view=side.on_view,
            )
            st.caption(plain(described(selection, example.intervention if key == "if-after" else Intervention())))


def described(selection: ModelSelection, intervention: Intervention) -> str:
    """How the chosen head attends under an intervention, in words."""
    if (selection.index, selection.head) in intervention.ablated:
        return f"Head {selection.head} is ablated: it sees nothing, and adds nothing."
    if selection.layer.locked:
        return "As the model itself has computed it."
    mechanism = replace(intervention, ablated=()).apply(selection.layer.mechanism, selection.index)
    return in_order(mechanism.score, mechanism.biases, mechanism.mask, mechanism.normalizer)


def in_order(score: Score | None, biases: Sequence[Bias], mask: Mask | None, normalizer: Normalizer | None) -> str:
    """The parts of a mechanism in words, in the order in which they act, a sentence each; nothing of None."""
    said = [f"Scores: {', '.join([called(score), *map(in_words, biases)])}."] if score else []
    said += [mask.describe()] if mask else []
    return " ".join(said + ([f"Weights: {called(normalizer)}."] if normalizer else []))


def called(part: Score | Normalizer) -> str:
    """What a part is called, with its values, but for those that a model has learned for each head."""
    learned = any(isinstance(value, Tensor) for value in vars(part).values())
    return widgets.title(type(part)) if learned else parts.named(part)


def _grid(selection: ModelSelection, example: IntervenedExample, result: Outcome) -> None:
    """Draws how much of its attention each head of each layer has moved; a head that is ablated has no color."""
    shares, ablated = result.mass_shift.copy(), example.intervention.ablated
    names = [
        _moved(layer.name, i, head, float(shares[i, head]), ablated)
        for i, layer in enumerate(selection.layers)
        for head in range(shares.shape[1])
    ]
    for place in ablated:
        shares[place] = np.nan
    rows, columns = shares.shape
    chosen = [selection.index * columns + selection.head] if isinstance(selection.head, int) else []
    picture = head_grid(shares, names, largest=max(LEAST, float(np.nanmax(shares, initial=0))), chosen=chosen)
    if rows <= LABELED:
        written = [escape(layer.name, quote=False) for layer in selection.layers]
        picture.figure.update_yaxes(tickvals=list(range(rows)), ticktext=written, title=None)

    def open_at(row: int, column: int) -> None:
        place = picture.spec.head_at(row, column)
        if place is not None and names[place]:
            open_head(selection.layers, *divmod(place, columns))

    st.markdown("**How much of its attention each head has moved**")
    chart(
        picture,
        "if-moved",
        label="How much of its attention each head has moved",
        name="attention moved",
        description=f"{rows} layers by {columns} heads, a cell each. At 0 every query looks where it looked before, at "
        "1 nowhere there.",
        height=130 + 26 * min(rows, 12),
        grows=False,
        hint="Click to open",
        on_click=open_at,
    )


def _moved(layer: str, i: int, head: int, share: float, ablated: Sequence[tuple[int, int]]) -> str:
    """What a cell of the grid says; nothing where a layer has no such head."""
    if np.isnan(share):
        return ""
    told = "ablated" if (i, head) in ablated else f"{number(share)} of its attention is elsewhere"
    return f"{layer}, head {head}: {told}."


def _tokens(result: Outcome) -> None:
    """Draws the likeliest next tokens, without the change and with it."""
    if not result.next_tokens:
        return
    tokens = result.next_tokens
    before, after = (np.array([getattr(one, side) for one in tokens], dtype="f4") for side in ("before", "after"))
    said = [
        f"{visible(one.token)}: {number(one.before)} as it is, {number(one.after)} changed"
        for one in result.next_tokens
    ]
    picture = bars(before, after, [one.token for one in tokens], NAMES, sentences=said)
    picture.figure.update_yaxes(title_text="probability")
    st.markdown("**The likeliest next tokens**")
    chart(
        picture,
        "if-next",
        label="The likeliest next tokens",
        name="next tokens",
        description=". ".join(said),
        height=260,
        grows=False,
        hint="Point at a bar to read it.",
    )
    st.caption(" ".join([plain(result.written), BITS]).strip())
