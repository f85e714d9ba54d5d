"""The What if tab of the Models page: an intervention, and its effect on the output and on every head."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from attnviz.figures.bars import MOST_KEYS, bars
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.formatting import number, visible
from attnviz.language import N_, _, option_name, plural
from attnviz.layer import Kind, Layer, head_name
from attnviz.masks import Band, Causal, Full, MaskError, SinksAndWindow, SlidingWindow
from attnviz.models.intervention_run import has_many_labels
from attnviz.models.interventions import Intervention
from attnviz.normalizers import Softmax
from attnviz.page import html
from attnviz.state.models import (
    EVERYWHERE,
    IF_PARTS,
    SAME_KIND,
    ModelSelection,
    ModelsState,
    layer_places,
    unlocked,
)
from attnviz.ui import head_grid, intervention_widgets, quantities, viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.intervention_widgets import SIDES
from attnviz.ui.markdown import plain
from attnviz.ui.models.layer_table import layer_ranges
from attnviz.ui.models.outcome import Outcome, mass_shift_of_heads, outcome
from attnviz.ui.why_links import candidate_link
from attnviz.views.intervened_example import IntervenedExample
from attnviz.views.mechanism_sentences import STREAMING_LLM, describe_parts
from attnviz.views.selected_maps import selected_map
from attnviz.views.text_probabilities import text_probabilities

KEYS = ("if-before", "if-after")  # of the charts of both sides
LAST = "what if on a model"  # the name of the last intervention that could be run
HEIGHT = 400
LEAST_SHIFT = 0.1  # the mass shift that has the last color, at least
FIELDS = *IF_PARTS, ModelsState.if_where, ModelsState.if_off, ModelsState.if_sparse
BITS = N_(
    "KL is the Kullback–Leibler divergence: the bits that it costs on average to expect the "
    "changed distribution where the other one holds. 0 bits: the two are the same."
)
CAPTION = N_(
    "**What you are seeing.** The model reads the text again, with its attention changed where you "
    "choose. Layers below stay as they are; every layer above works with the result, so its maps "
    "change too. Both maps have one color range. A small cell is a head: its mass shift is "
    "the share of a query’s attention that has left its keys, on average over the queries; an "
    "ablated head has no color."
)


def show(selection: ModelSelection) -> None:
    """Draws the presets, the effect on the output, and the map of the chosen head as trained and changed."""
    if not unlocked(selection.layers):
        name, reason = selection.model.name, selection.layer.locked_reason
        st.info(plain(_("Nothing can be changed in {name}. {locked_reason}", name=name, locked_reason=reason)))
        return
    top = st.container()
    own: Any = draw(ModelsState.if_own, widget=_expander)
    with own:
        chosen, refused = _choose(selection)
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are

    def run() -> ModelsState:
        outcome(IntervenedExample.under(chosen.intervention, selection.source))
        return chosen

    changed = intervention_widgets.run_or_last(LAST, selection.source, run, selection.state, refused, notes)
    with top:
        intervention_widgets.show_presets(model_presets(selection), FIELDS, changed, selection.state, "if-try")
    example = IntervenedExample.under(changed.intervention, selection.source)
    result = outcome(example)
    with notes:
        # A line even where nothing is changed, so that nothing below it jumps.
        changes = describe_intervention(selection.layers, example.intervention) or html.Markup("&nbsp;")
        st.html(html.summary(result.sentence, role="status") + html.note(changes))
        if locked := [layer.id for layer in selection.layers if layer.locked]:
            unchanged = _(
                "Nothing can be changed in {layer_ranges}, whose queries and keys are not known.",
                layer_ranges=layer_ranges(locked),
            )
            st.caption(plain(unchanged))
    _show_maps(selection, example, result)
    most_heads = max(layer.inputs.heads for layer in selection.layers)
    left, right = head_grid.two_places(LayerTiles(len(selection.layers), most_heads), 0.45)
    with left:
        _show_mass_shift(selection, example, result)
    with right:
        _show_candidates(selection, result)
        _show_text(example)
        st.caption(_(CAPTION))


def describe_intervention(layers: Sequence[Layer], intervention: Intervention) -> str:
    """Returns a description of an intervention; empty if it changes nothing."""
    every = unlocked(layers)
    places = every if intervention.layers is None else intervention.layers
    layers_name = _("all layers") if {*every} <= {*places} else layer_ranges([layers[i].id for i in places])
    sentences = []
    if parts := describe_parts(intervention.score, (), intervention.mask, intervention.normalizer):
        sentences.append(_("Changed in {layers_name}. {parts}", layers_name=layers_name, parts=parts))
    if intervention.sparse is not None:
        sentences.append(
            _("Laid over the masks of {layers_name}: {sparse}.", layers_name=layers_name, sparse=intervention.sparse)
        )
        if isinstance(intervention.sparse, SinksAndWindow):
            sentences.append(_(STREAMING_LLM))
    ablated = []
    for i in sorted({layer for layer, head in intervention.ablated}):
        heads = [str(head) for layer, head in intervention.ablated if layer == i]
        numbers = plural(
            "{layer}, head {heads}",
            "{layer}, heads {heads}",
            len(heads),
            layer=option_name(layers[i].name),
            heads=", ".join(heads),
        )
        ablated.append(
            _("all heads of {name}", name=option_name(layers[i].name))
            if len(heads) == layers[i].inputs.heads
            else numbers
        )
    return " ".join(sentences + [_("Ablated: {heads}.", heads="; ".join(ablated))] * bool(ablated))


# What can be chosen


def _expander(label: str, value: bool, help: None, **options: Any) -> Any:
    return st.expander(label, expanded=value, icon=":material/tune:", **options)


def _choose(selection: ModelSelection) -> tuple[ModelsState, list[str]]:
    """Draws the widgets; returns the state with what they say, and messages about refused parts."""
    refused: list[str] = []
    *columns, layers_column = st.columns(4, gap="small")
    state = selection.state.updated(**intervention_widgets.draw_parts(IF_PARTS, columns, refused))
    with layers_column:
        places = draw(ModelsState.if_where, state)
    ablated = draw(ModelsState.if_off, state, placeholder=_("None"), select_all=False)
    state = state.updated(if_where=places, if_off=ablated)
    try:
        state = state.updated(if_sparse=draw(ModelsState.if_sparse, placeholder="sinks_and_window(4, 16)"))
    except MaskError as problem:
        refused.append(str(problem))
    return state, refused


def model_presets(selection: ModelSelection) -> dict[str, dict[str, Any]]:
    """Returns values of fields worth trying, by name."""
    places = layer_places(selection)
    same_kind = places.get(SAME_KIND, places[EVERYWHERE])
    menu: dict[str, dict[str, Any]] = {N_("Everything as trained"): {}}
    if not selection.layer.locked:
        heads = tuple((selection.index, head) for head in range(selection.inputs.heads))
        if isinstance(selection.head, int):
            menu[N_("Ablate this head")] = {"if_off": (heads[selection.head],)}
        menu[N_("Ablate this layer’s heads")] = {"if_off": heads}
    menu[N_("Temperature #").replace("#", "4")] = {"if_normalizer": Softmax(4.0)}
    if selection.layer.kind is Kind.CAUSAL:
        menu[N_("Only the last # tokens").replace("#", "4")] = {"if_mask": SlidingWindow(4), "if_where": same_kind}
        menu[N_("StreamingLLM: # sinks, the last # tokens").replace("#", "4")] = {
            "if_where": same_kind, "if_sparse": SinksAndWindow(4, 4)
        }  # fmt: skip
        menu[N_("See the future")] = {"if_mask": Full(), "if_where": same_kind}
    elif selection.layer.kind is Kind.SELF:
        menu[N_("Only the neighbors")] = {"if_mask": Band(1), "if_where": same_kind}
        menu[N_("Only what came before")] = {"if_mask": Causal(), "if_where": same_kind}
    return menu


# The charts


def _show_maps(selection: ModelSelection, example: IntervenedExample, result: Outcome) -> None:
    """Draws the map of the chosen head on both sides, with one color range."""
    try:
        maps = [selected_map(one) for one in (selection, replace(selection, source=example, layers=result.layers))]
    except ValueError as problem:  # too long to be drawn; the rest is not
        st.info(plain(str(problem)))
        return
    end = selection.colors.end([one.weights for one in maps])

    def draw(side: int) -> str:
        head_map, title = maps[side], _(SIDES[side])
        st.html(html.element("p", title, " ", html.element("small", head_map.title), class_="attnviz-change"))
        picture = head_map.chart(largest=end, link="what-if")
        picture = picture.with_about(
            label=_("{title}: attention weights", title=title), name=f"{picture.about.name} {title}",
            hint=_("Point at a cell: it is marked in both maps."),
        )  # fmt: skip
        chart(picture, KEYS[side], height=HEIGHT, on_zoom=viewport_sliders.on_zoom(head_map))
        if selection.layer.locked:
            return _("As the model itself has computed it.")
        intervention = example.intervention if side else Intervention()
        return intervention_widgets.describe_head(intervention, selection.mechanism, selection.index, selection.head)

    intervention_widgets.show_sides(draw)


def _show_mass_shift(selection: ModelSelection, example: IntervenedExample, result: Outcome) -> None:
    """Draws the mass shift of each head of each layer; an ablated head has no color."""
    title = _("Mass shift of each head")
    st.markdown(f"**{title}**")
    shares, ablated = mass_shift_of_heads(example, selection.layers, result.layers), example.intervention.ablated
    names = [
        _mass_shift_sentence(head_name(layer.id, head), float(shares[i, head]), (i, head) in ablated)
        for i, layer in enumerate(selection.layers)
        for head in range(shares.shape[1])
    ]
    for place in ablated:
        shares[place] = np.nan
    head_grid.show(
        selection, range(len(selection.layers)), shares, names, "if-moved", title,
        largest=max(LEAST_SHIFT, float(np.nanmax(shares, initial=0))),
        description=_("At 0 all attention stays on its keys, at 1 all of it is elsewhere."),
    )  # fmt: skip


def _mass_shift_sentence(head: str, share: float, is_ablated: bool) -> str:
    """Returns the sentence of a cell; empty if the layer has no such head."""
    if np.isnan(share):
        return ""
    if is_ablated:
        return _("{head}: ablated.", head=head)
    return _("{head}: {share} of its attention is elsewhere.", head=head, share=number(share))


def _show_candidates(selection: ModelSelection, result: Outcome) -> None:
    """Draws the most likely next tokens or labels with their probabilities on both sides."""
    candidates, kind = result.candidates, _("next tokens") if selection.model.outputs == "next token" else _("labels")
    if not candidates:
        return
    before, after = (np.array([getattr(one, side) for one in candidates], dtype="f4") for side in ("before", "after"))
    sentences = [_probabilities_sentence(one.text, one.before, one.after) for one in candidates]
    picture = bars(before, after, [one.text for one in candidates], (_(SIDES[0]), _(SIDES[1])), sentences=sentences)
    picture.figure.update_yaxes(title_text=_("probability"))
    st.markdown(_("**The likeliest {kind}**", kind=kind))
    chart(picture.with_about(label=_("The likeliest {kind}", kind=kind)), "if-next", height=260)
    st.html(candidate_link(selection.source, candidates))
    st.caption(" ".join([plain(result.written), "" if has_many_labels(selection.model) else _(BITS)]).strip())


def _show_text(example: IntervenedExample) -> None:
    """Draws the probabilities that a decoder gives the tokens of the text on both sides, of those that change most."""
    text = text_probabilities(example)
    if text is None:
        return
    quantities.publish(lambda: text.quantities)
    changed = np.sort(np.argsort(-np.abs(text.after - text.before), kind="stable")[:MOST_KEYS])
    tokens, before, after = [text.tokens[i] for i in changed], text.before[changed], text.after[changed]
    sentences = [_probabilities_sentence(*one) for one in zip(tokens, before, after, strict=True)]
    picture = bars(before, after, tokens, (_(SIDES[0]), _(SIDES[1])), sentences=sentences)
    picture.figure.update_yaxes(title_text=_("probability"))
    title = _("The tokens of the text")
    st.markdown(f"**{title}**")
    chart(picture.with_about(label=title), "if-text", height=260)
    means = {"before": number(float(text.before.mean())), "after": number(float(text.after.mean()))}
    st.caption(
        _(
            "How likely each token is to the model, from those before it: {before} on average as trained, {after} "
            "changed.",
            **means,
        )
    )


def _probabilities_sentence(text: str, before: float, after: float) -> str:
    return _(
        "{text}: {before} as trained, {after} changed",
        text=visible(text),
        before=number(before),
        after=number(after),
    )
