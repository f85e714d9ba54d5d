"""The What if tab of the Transformer page: interventions, and both translations with their maps."""

from difflib import SequenceMatcher
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.formatting import number, visible
from attnviz.language import N_, _, in_sentence
from attnviz.masks import Band, Full
from attnviz.mechanism import Mechanism
from attnviz.models.interventions import Intervention
from attnviz.normalizers import Softmax
from attnviz.scores import Cosine
from attnviz.translator import Translation, Translator
from attnviz.translator.model import HEADS, USE_LAYERS, Use
from attnviz.ui import html, interventions
from attnviz.ui.color_range import largest_weight
from attnviz.ui.interventions import SIDES
from attnviz.ui.menus import tab_names
from attnviz.ui.transformer import decoding, maps
from attnviz.ui.transformer.controls import TransformerSelection

USE = "change"  # the key of the use whose widgets and maps are shown
KEYS = ("trained", "changed")  # of the charts of both sides
LAST = "what if"  # the name of the last interventions that could be run
ALIGNS = 0.9  # a head aligns whose agreement with the true alignment is at least this
FUTURE = N_(
    "While the decoder writes, its last row has no later words to see. But the rows before it now "
    "see later words, which they never did in training."
)
Interventions = tuple[Intervention, ...]  # one for each use that is changed
Both = tuple[Translation, Translation]  # as trained, and changed


def show(selection: TransformerSelection) -> None:
    """Draws the widgets, the translation as trained and as changed, and the maps of the use that is chosen."""
    top = st.container()
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    columns = st.columns(2, gap="medium")
    translator = selection.translator
    use, chosen, refused = _choose(translator)
    changes, translated = _run(selection, chosen, refused, notes)
    with top:
        interventions.show_presets(translator_presets(translator), changes, "try", partial(_write, translator))
    both = selection.translation, translated
    steps = _steps(both, selection.step)
    notes.html(html.summary(intervention_verdict(both, changes), role="status"))
    for i, column in enumerate(columns):
        column.html(words(_(SIDES[i]), both[i], differing(both)[i], steps[i]))
    _show_maps(selection, both, changes, use, steps)


# What can be chosen


def translator_presets(translator: Translator) -> dict[str, Interventions]:
    """Returns interventions worth trying, by name."""
    encoder, decoder, cross = (USE_LAYERS[use] for use in maps.USES)
    heads = [(cross[layer], head) for layer, head in (divmod(i, HEADS) for i in range(len(cross) * HEADS))]
    best = heads[maps.first_head("cross", translator)]
    aligning = (head for head, share in zip(heads, maps.agreement(translator), strict=True) if share >= ALIGNS)
    return {
        "Everything as trained": (),
        "Let the decoder see the future": (Intervention(Full(), layers=decoder),),
        "Show the decoder its last word only": (Intervention(Band(0), layers=decoder),),
        "Cut the encoder to a window": (Intervention(Band(1), layers=encoder),),
        "Ablate the head that aligns best": (Intervention(ablated=(best,), layers=cross),),
        "Ablate all heads that align": (Intervention(ablated=tuple(aligning), layers=cross),),
        "Encoder–decoder: temperature 5": (Intervention(normalizer=Softmax(5.0), layers=cross),),
        "Encoder–decoder: cosine": (Intervention(score=Cosine(), layers=cross),),
    }


def in_use(changes: Interventions, use: Use) -> Intervention:
    """Returns the intervention in one use."""
    return next((one for one in changes if one.layers == USE_LAYERS[use]), Intervention(layers=USE_LAYERS[use]))


def trained(translator: Translator) -> dict[Use, Mechanism]:
    """Returns the trained mechanism of each use, the same in all its layers except for learned weights."""
    decoder = translator.model.decoder[0]
    modules: tuple[Any, ...] = (translator.model.encoder[0].attention, decoder.attention, decoder.cross)
    return {use: module.mechanism() for use, module in zip(maps.USES, modules, strict=True)}


def _choose(translator: Translator) -> tuple[Use, Interventions, list[str]]:
    """Draws the widgets; returns the use of the open tab, the interventions, and messages about refused parts."""
    refused: list[str] = []
    chosen: list[Intervention] = []
    opened: Use = "decoder"
    names = tab_names(USE, maps.SHORT.values())
    tabs = st.tabs(names, default=_(maps.SHORT["decoder"]), key=USE, bind="query-params")
    for (use, start), tab in zip(trained(translator).items(), tabs, strict=True):
        with tab:
            *columns, ablation_column = st.columns(4, gap="medium")
            parts = interventions.choose_parts(use, start, columns, refused)
            with ablation_column:
                ablated = tuple((place, head) for i, place in enumerate(USE_LAYERS[use]) for head in _ablated(use, i))
        chosen.append(Intervention(**parts, ablated=ablated, layers=USE_LAYERS[use]))
        opened = use if tab.open else opened
    return opened, tuple(one for one in chosen if not one.is_empty), refused


def _ablated(use: Use, layer: int) -> list[int]:
    label = _("Ablated in layer {layer}").format(layer=layer)
    key = _ablated_key(use, layer)
    return sorted(
        st.pills(
            label,
            range(HEADS),
            selection_mode="multi",
            key=key,
            bind="query-params",
            help=_(interventions.ABLATION_HELP),
        )
    )


def _ablated_key(use: Use, layer: int) -> str:
    return f"{use}-off-{layer}"


def _write(translator: Translator, changes: Interventions) -> None:
    """Sets the widgets to these interventions, and opens the tab of the first changed use."""
    for use, start in reversed(trained(translator).items()):
        intervention = in_use(changes, use)
        interventions.write_parts(use, start, intervention)
        for i, place in enumerate(USE_LAYERS[use]):
            st.session_state[_ablated_key(use, i)] = [head for layer, head in intervention.ablated if layer == place]
        if not intervention.is_empty:
            st.session_state[USE] = _(maps.SHORT[use])


def _run(
    selection: TransformerSelection, chosen: Interventions, refused: list[str], notes: DeltaGenerator
) -> tuple[Interventions, Translation]:
    """Returns the interventions and the translation under them, or the last ones for this sentence."""
    translator, translation = selection.translator, selection.translation

    def run() -> tuple[Interventions, Translation]:
        return chosen, translator.translate(" ".join(translation.english), chosen)

    example = translator.variant, translator.step, translation.english
    unchanged: tuple[Interventions, Translation] = (), translation
    return interventions.run_or_last(LAST, example, run, unchanged, refused, notes)


# What is shown


def _steps(both: Both, step: int) -> tuple[int, int]:
    """Returns the step of each translation; both are at the end together."""
    before, after = (len(one.steps) - 1 for one in both)
    return step, after if step == before else min(step, after)


def _show_maps(
    selection: TransformerSelection, both: Both, changes: Interventions, use: Use, steps: tuple[int, int]
) -> None:
    """Draws the heads of one use and the map of the selected one, on both sides."""
    head = selection.heads[use]
    st.markdown(f"**{_(maps.USES[use])}**, {in_sentence(maps.HEAD_NAMES[head])}")
    both_maps = [maps.use_maps(one, use, step) for one, step in zip(both, steps, strict=True)]
    linked = (both_maps[0].queries, both_maps[0].keys) == (both_maps[1].queries, both_maps[1].keys)
    end, rows = max(1.0, largest_weight([one.weights for one in both_maps])), max(len(one.queries) for one in both_maps)

    def draw_heads(side: int) -> str:
        st.markdown(f"**{_(SIDES[side])}**")
        on_open = partial(maps.choose_head, use)
        maps.show_heads(both_maps[side], f"{KEYS[side]}-heads", chosen=head, largest=end, on_open=on_open)
        return ""

    def draw_map(side: int) -> str:
        maps.show_head(
            both_maps[side], f"{KEYS[side]}-map", head=head, largest=end, link="what-if" if linked else "",
            pinned=None if use == "encoder" else steps[side], rows=max(10, rows),
        )  # fmt: skip
        layer, number_in_layer = divmod(head, HEADS)
        intervention = in_use(changes if side else (), use)
        start = trained(selection.translator)[use]
        return interventions.describe_head(intervention, start, USE_LAYERS[use][layer], number_in_layer)

    interventions.show_sides(draw_heads)
    interventions.show_sides(draw_map)


def intervention_verdict(both: Both, changes: Interventions) -> str:
    """Returns the effect of the interventions on the translation as text."""
    before, after = both
    if not changes:
        return _(interventions.UNCHANGED)
    sentence = _("The translation changes where words are marked.")
    if before.french == after.french and before.finished == after.finished:
        sentence = _("The translation stays the same; its probabilities and maps change.")
        if all(a.probability == b.probability for a, b in zip(before.steps, after.steps, strict=True)):
            sentence = _("The translation stays the same, and so do its probabilities.")
    sees_future = in_use(changes, "decoder").mask and not all(
        one.is_causal for one in after.steps[-1].records if one.use == "decoder"
    )
    return f"{sentence} {_(FUTURE)}" if sees_future else sentence


def differing(both: Both) -> tuple[set[int], set[int]]:
    """Returns the steps of each translation whose words the other does not have."""
    before, after = ([step.word for step in one.steps] for one in both)
    matched = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    differences = [positions for kind, *positions in matched if kind != "equal"]
    return (
        {i for start, end, _, _ in differences for i in range(start, end)},
        {i for _, _, start, end in differences for i in range(start, end)},
    )


def words(side: str, translation: Translation, differs: set[int], step: int | None = None) -> html.Markup:
    """Returns a translation with the probability of each word; differing words are marked."""
    items = (
        html.element(
            "li",
            visible(one.word),
            html.element("small", number(one.probability)),
            class_="attnviz-differs" if i in differs else None,
            aria_current="step" if i == step else None,
        )
        for i, one in enumerate(translation.steps)
    )
    mean = sum(one.probability for one in translation.steps) / len(translation.steps)
    return html.join(
        [
            html.element(
                "p",
                side,
                " ",
                html.element("small", _("mean probability {mean}").format(mean=number(mean))),
                class_="attnviz-change",
            ),
            html.element("ol", *items, class_="attnviz-compared", lang="fr"),
            ""
            if translation.finished
            else html.element("p", _("It does not come to an end, so it is cut off."), class_="attnviz-verdict"),
            decoding.translation_verdict(translation),
        ]
    )
