"""The What if tab of the Models page: an intervention, and its effect on the output and on every head."""

from collections.abc import Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.figures.bars import bars
from attnviz.figures.head_grid import head_grid
from attnviz.formatting import number, visible
from attnviz.language import N_, _, option_name, plural
from attnviz.layer import Kind, Layer
from attnviz.masks import Band, Causal, Full, Mask, MaskError, SinksAndWindow, SlidingWindow, parse
from attnviz.models.intervention_run import has_many_labels
from attnviz.models.interventions import Intervention
from attnviz.normalizers import Softmax
from attnviz.ui import html, interventions
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_map import selected_map
from attnviz.ui.interventions import SIDES
from attnviz.ui.markdown import plain
from attnviz.ui.mechanism_sentences import STREAMING_LLM, describe_parts
from attnviz.ui.menus import names_of
from attnviz.ui.models.head_aggregate import BETWEEN, layer_head_name
from attnviz.ui.models.layer_table import layer_ranges
from attnviz.ui.models.outcome import IntervenedExample, Outcome, mass_shift_of_heads, outcome
from attnviz.ui.models.selection import ModelSelection

PREFIX = "if"
ABLATED, LAYERS_MENU, SPARSE = "if-off", "if-where", "if-sparse"
EVERYWHERE, SAME_KIND, HERE = N_("All layers"), N_("Layers of this kind"), N_("This layer")
KEYS = ("if-before", "if-after")  # of the charts of both sides
LAST = "what if on a model"  # the name of the last intervention that could be run
HEIGHT = 400
LEAST = 0.1  # the mass shift that has the last color, at least
LABELED = 24  # layers whose names fit beside the grid
BITS = N_(
    "KL is the Kullback–Leibler divergence: the bits that it costs on average to expect the "
    "changed distribution where the other one holds. 0 bits: the two are the same."
)
CAPTION = N_(
    "**What you are seeing.** The model reads the text once more, and attends otherwise where you "
    "say so. Layers below stay as they are; every layer above works with what comes of it, so its "
    "maps change too. Both maps have one color range. A small cell is a head: its mass shift is "
    "the share of a query’s attention that has left its keys, on average over the queries; an "
    "ablated head has no color."
)


def show(selection: ModelSelection) -> None:
    """Draws the presets, the effect on the output, and the map of the chosen head as trained and changed."""
    if not _unlocked(selection):
        st.info(
            plain(
                _("Nothing can be changed in {name}. {locked_reason}").format(
                    name=selection.model.name, locked_reason=selection.layer.locked_reason
                )
            )
        )
        return
    top = st.container()
    with st.expander(_("Change it yourself"), key="if-own", icon=":material/tune:", bind="query-params"):
        intervention, refused = _choose(selection)
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    example = _run(selection, intervention, refused, notes)
    with top:
        shown = example.intervention
        interventions.show_presets(model_presets(selection), shown, "if-try", lambda one: _write(selection, one))
    result = outcome(example)
    with notes:
        # A line even where nothing is changed, so that nothing below it jumps.
        changes = describe_intervention(selection.layers, example.intervention) or html.Markup("&nbsp;")
        st.html(html.summary(result.sentence, role="status") + html.note(changes))
        if locked := [layer.id for layer in selection.layers if layer.locked]:
            st.caption(
                plain(
                    _("Nothing can be changed in {layer_ranges}, whose queries and keys are not known.").format(
                        layer_ranges=layer_ranges(locked)
                    )
                )
            )
    _show_maps(selection, example, result)
    left, right = st.columns([0.45, 0.55], gap="medium")
    with left:
        _show_mass_shift(selection, example, result)
    with right:
        _show_candidates(selection, result)
        st.caption(_(CAPTION))


def describe_intervention(layers: Sequence[Layer], intervention: Intervention) -> str:
    """Returns a description of an intervention; empty if it changes nothing."""
    unlocked = [i for i, layer in enumerate(layers) if not layer.locked]
    places = unlocked if intervention.layers is None else intervention.layers
    layers_name = _("all layers") if set(unlocked) <= set(places) else layer_ranges([layers[i].id for i in places])
    sentences = []
    if parts := describe_parts(intervention.score, (), intervention.mask, intervention.normalizer):
        sentences.append(_("Changed in {layers_name}. {parts}").format(layers_name=layers_name, parts=parts))
    if intervention.sparse is not None:
        sentences.append(
            _("Laid over the masks of {layers_name}: {sparse}.").format(
                layers_name=layers_name, sparse=intervention.sparse
            )
        )
        if isinstance(intervention.sparse, SinksAndWindow):
            sentences.append(_(STREAMING_LLM))
    ablated = []
    for i in sorted({layer for layer, head in intervention.ablated}):
        heads = [str(head) for layer, head in intervention.ablated if layer == i]
        numbers = plural("{layer}, head {heads}", "{layer}, heads {heads}", len(heads)).format(
            layer=option_name(layers[i].name), heads=", ".join(heads)
        )
        ablated.append(
            _("all heads of {name}").format(name=option_name(layers[i].name))
            if len(heads) == layers[i].inputs.heads
            else numbers
        )
    return " ".join(sentences + [_("Ablated: {join}.").format(join="; ".join(ablated))] * bool(ablated))


# What can be chosen


def _unlocked(selection: ModelSelection) -> list[int]:
    """The positions of the layers whose attention can be changed."""
    return [i for i, layer in enumerate(selection.layers) if not layer.locked]


def _choose(selection: ModelSelection) -> tuple[Intervention, list[str]]:
    """Draws the widgets; returns the intervention, and messages about refused parts."""
    refused: list[str] = []
    *columns, layers_column = st.columns(4, gap="small")
    parts = interventions.choose_parts(PREFIX, None, columns, refused)
    with layers_column:
        layers_name = st.selectbox(
            _("Where"), _layer_choices(selection), key=LAYERS_MENU, bind="query-params",
            format_func=names_of(LAYERS_MENU, _layer_choices(selection)),
            help=_("In which layers the mask, the score and the normalizer are replaced."),
        )  # fmt: skip
    heads = heads_by_name(selection.layers)
    chosen = st.multiselect(
        _("Ablated heads"), list(heads), key=ABLATED, bind="query-params", placeholder=_("None"), select_all=False,
        format_func=names_of(ABLATED, heads, layer_head_name),
        help=_(interventions.ABLATION_HELP),
    )  # fmt: skip
    ablated = tuple(sorted(heads[name] for name in chosen))
    layers = _layer_choices(selection)[layers_name]
    return Intervention(**parts, ablated=ablated, layers=layers, sparse=_choose_sparse(refused)), refused


def _choose_sparse(refused: list[str]) -> Mask | None:
    """Draws the field of a mask that is laid over those of the layers; returns it, or None."""
    text = st.text_input(
        _("Sparse mask laid over, in words"), key=SPARSE, bind="query-params",
        placeholder="sinks_and_window(4, 16)",
        help=_("A query sees what its layer’s own mask and this one both allow, as on the Masks page "
"under “Mass kept”. `… | h != 3` changes head 3 alone."),
    )  # fmt: skip
    try:
        return parse(text) if text.strip() else None
    except MaskError as problem:
        refused.append(str(problem))
        return None


def _layer_choices(selection: ModelSelection) -> dict[str, tuple[int, ...]]:
    """Returns the layers to change, by name: all, those of one kind, or one."""
    every = _unlocked(selection)
    same_kind = [i for i in every if selection.layers[i].kind == selection.layer.kind]
    here = [i for i in every if i == selection.index]
    places = {EVERYWHERE: tuple(every), SAME_KIND: tuple(same_kind), HERE: tuple(here)}
    return {name: layers for name, layers in places.items() if name != SAME_KIND or 0 < len(same_kind) < len(every)}


def heads_by_name(layers: Sequence[Layer]) -> dict[str, tuple[int, int]]:
    """Returns the heads that can be ablated, by name, as pairs of a layer's index and a head."""
    return {
        f"{layer.name}{BETWEEN}{head}": (i, head)
        for i, layer in enumerate(layers)
        if not layer.locked
        for head in range(layer.inputs.heads)
    }


def model_presets(selection: ModelSelection) -> dict[str, Intervention]:
    """Returns interventions worth trying, by name."""
    places = _layer_choices(selection)
    everywhere, same_kind = places[EVERYWHERE], places.get(SAME_KIND, places[EVERYWHERE])
    menu = {N_("Everything as trained"): Intervention(layers=everywhere)}
    if not selection.layer.locked:
        heads = tuple((selection.index, head) for head in range(selection.layer.inputs.heads))
        if isinstance(selection.head, int):
            menu[N_("Ablate this head")] = Intervention(ablated=(heads[selection.head],), layers=everywhere)
        menu[N_("Ablate this layer’s heads")] = Intervention(ablated=heads, layers=everywhere)
    menu[N_("Temperature #").replace("#", "4")] = Intervention(normalizer=Softmax(4.0), layers=everywhere)
    if selection.layer.kind is Kind.CAUSAL:
        menu[N_("Only the last # tokens").replace("#", "4")] = Intervention(SlidingWindow(4), layers=same_kind)
        menu[N_("StreamingLLM: # sinks, the last # tokens").replace("#", "4")] = Intervention(
            layers=same_kind, sparse=SinksAndWindow(4, 4)
        )
        menu[N_("See the future")] = Intervention(Full(), layers=same_kind)
    elif selection.layer.kind is Kind.SELF:
        menu[N_("Only the neighbors")] = Intervention(Band(1), layers=same_kind)
        menu[N_("Only what came before")] = Intervention(Causal(), layers=same_kind)
    return menu


def _write(selection: ModelSelection, intervention: Intervention) -> None:
    """Sets the widgets to an intervention."""
    interventions.write_parts(PREFIX, None, intervention)
    places = _layer_choices(selection).items()
    st.session_state[LAYERS_MENU] = next(name for name, layers in places if layers == intervention.layers)
    heads = heads_by_name(selection.layers).items()
    st.session_state[SPARSE] = "" if intervention.sparse is None else str(intervention.sparse)
    st.session_state[ABLATED] = [name for name, head in heads if head in intervention.ablated]


def _run(
    selection: ModelSelection, intervention: Intervention, refused: list[str], notes: DeltaGenerator
) -> IntervenedExample:
    """Returns the example under the intervention, or under the last one that could be run."""

    def run() -> IntervenedExample:
        example = IntervenedExample.under(intervention, selection.source)
        outcome(example)
        return example

    unchanged = IntervenedExample.under(Intervention(layers=tuple(_unlocked(selection))), selection.source)
    return interventions.run_or_last(LAST, selection.source, run, unchanged, refused, notes)


# The charts


def _show_maps(selection: ModelSelection, example: IntervenedExample, result: Outcome) -> None:
    """Draws the map of the chosen head on both sides, with one color range."""
    try:
        maps = [selected_map(one) for one in (selection, selection.with_layers(example, result.layers))]
    except ValueError as problem:  # too long to be drawn; the rest is not
        st.info(plain(str(problem)))
        return
    end = selection.colors.end([one.weights for one in maps])

    def draw(side: int) -> str:
        head_map, title = maps[side], _(SIDES[side])
        st.html(html.element("p", title, " ", html.element("small", head_map.title), class_="attnviz-change"))
        chart(
            head_map.chart(largest=end, link="what-if"),
            KEYS[side],
            label=_("{title}: attention weights").format(title=title),
            name=_("attention {title} {side}").format(title=head_map.title, side=title),
            description=_("{title}, {title_2}: {size}. The arrow keys move from cell to cell.").format(
                title=title, title_2=head_map.title, size=head_map.size
            ),
            height=HEIGHT,
            hint=_("Point at a cell: it is marked in both maps."),
            on_view=head_map.on_view,
        )
        if selection.layer.locked:
            return _("As the model itself has computed it.")
        intervention = example.intervention if side else Intervention()
        return interventions.describe_head(intervention, selection.layer.mechanism, selection.index, selection.head)

    interventions.show_sides(draw)


def _show_mass_shift(selection: ModelSelection, example: IntervenedExample, result: Outcome) -> None:
    """Draws the mass shift of each head of each layer; an ablated head has no color."""
    title = _("Mass shift of each head")
    st.markdown(f"**{title}**")
    shares, ablated = mass_shift_of_heads(example, selection.layers, result.layers), example.intervention.ablated
    layers, heads = shares.shape
    names = [
        _mass_shift_sentence(layer.name, head, float(shares[i, head]), (i, head) in ablated)
        for head in range(heads)
        for i, layer in enumerate(selection.layers)
    ]
    for place in ablated:
        shares[place] = np.nan
    chosen = [selection.head * layers + selection.index] if isinstance(selection.head, int) else []
    largest = max(LEAST, float(np.nanmax(shares, initial=0)))
    picture = head_grid(shares.T, names, largest=largest, chosen=chosen)
    if layers <= LABELED:
        labels = [str(html.Markup.escape(layer.name)) for layer in selection.layers]
        picture.figure.update_xaxes(tickvals=list(range(layers)), ticktext=labels, title=None)

    def open_at(row: int, column: int) -> None:
        place = picture.spec.head_at(row, column)
        if place is not None and names[place]:
            head, layer = divmod(place, layers)
            open_head(selection.layers, layer, head)

    chart(
        picture,
        "if-moved",
        label=title,
        name=_("mass shift"),
        description=_(
            "{rows} layers by {columns} heads, a cell each. At 0 all attention stays on its keys, at 1 "
            "all of it is elsewhere."
        ).format(rows=layers, columns=heads),
        height=130 + 26 * min(heads, 12),
        grows=False,
        hint=_("Click a head to open it."),
        on_click=open_at,
    )


def _mass_shift_sentence(layer: str, head: int, share: float, is_ablated: bool) -> str:
    """Returns the sentence of a cell; empty if the layer has no such head."""
    if np.isnan(share):
        return ""
    sentence = (
        _("{layer}, head {head}: ablated.")
        if is_ablated
        else _("{layer}, head {head}: {share} of its attention is elsewhere.")
    )
    return sentence.format(layer=option_name(layer), head=head, share=number(share))


def _show_candidates(selection: ModelSelection, result: Outcome) -> None:
    """Draws the most likely next tokens or labels with their probabilities on both sides."""
    candidates, kind = result.candidates, _("next tokens") if selection.model.outputs == "next token" else _("labels")
    if not candidates:
        return
    before, after = (np.array([getattr(one, side) for one in candidates], dtype="f4") for side in ("before", "after"))
    sentences = [
        _("{text}: {before} as trained, {after} changed").format(
            text=visible(one.text), before=number(one.before), after=number(one.after)
        )
        for one in candidates
    ]
    picture = bars(before, after, [one.text for one in candidates], (_(SIDES[0]), _(SIDES[1])), sentences=sentences)
    picture.figure.update_yaxes(title_text=_("probability"))
    st.markdown(_("**The likeliest {kind}**").format(kind=kind))
    chart(
        picture,
        "if-next",
        label=_("The likeliest {kind}").format(kind=kind),
        name=kind,
        description=". ".join(sentences),
        height=260,
        grows=False,
        hint=_("Point at a bar to read it."),
    )
    st.caption(" ".join([plain(result.written), "" if has_many_labels(selection.model) else _(BITS)]).strip())
