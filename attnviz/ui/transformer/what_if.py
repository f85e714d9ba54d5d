"""The What if tab of the Transformer page: interventions, and both translations with their maps."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import streamlit as st

from attnviz.formatting import number, visible
from attnviz.language import N_, _, in_sentence
from attnviz.masks import Band, Full
from attnviz.normalizers import Softmax
from attnviz.page import html
from attnviz.scores import Cosine
from attnviz.state.color_range import largest_weight
from attnviz.state.transformer import ABLATED_FIELDS, HEAD_NAMES, PART_FIELDS, TransformerState, agreement, first_head
from attnviz.translator import Translation, Translator
from attnviz.translator.encoder_decoder import HEADS, USE_LAYERS, USES, Use
from attnviz.ui import intervention_widgets
from attnviz.ui.field_widgets import choice_tabs, draw
from attnviz.ui.intervention_widgets import SIDES
from attnviz.ui.transformer import one_use, word_by_word
from attnviz.views.transformer import changed_step
from attnviz.views.translator_maps import use_maps

KEYS = ("trained", "changed")  # of the charts of both sides
LAST = "what if"  # the name of the last interventions that could be run
ALIGNS = 0.9  # a head aligns whose agreement with the true alignment is at least this
FUTURE = N_(
    "While the decoder writes, its last row has no later words to see. But the rows before it now "
    "see later words, which they never did in training."
)
Both = tuple[Translation, Translation]  # as trained, and changed
FIELDS = [field for use in USES for field in (*PART_FIELDS[use], *ABLATED_FIELDS[use])]


def show(state: TransformerState) -> None:
    """Draws the widgets, the translation as trained and as changed, and the maps of the use that is chosen."""
    top = st.container()
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    columns = st.columns(2, gap="medium")
    chosen, refused = _choose(state)
    changed = intervention_widgets.run_or_last(
        LAST, (state.similarity, state.english), lambda: chosen if chosen.changed else state, state, refused, notes
    )
    with top:
        intervention_widgets.show_presets(translator_presets(state.translator), FIELDS, changed, state, "try")
    both = state.translation, changed.changed
    steps = state.step, changed_step(*both, state.step)
    notes.html(html.summary(intervention_verdict(both, changed), role="status"))
    for i, column in enumerate(columns):
        column.html(words(_(SIDES[i]), both[i], differing(both)[i], steps[i]))
    _show_maps(state, changed, chosen.change, steps)


# What can be chosen


def translator_presets(translator: Translator) -> dict[str, dict[str, Any]]:
    """Returns values of fields worth trying, by name, each with the tab that shows them."""
    aligning = [head for head, share in enumerate(agreement(translator)) if share >= ALIGNS]
    return {
        N_("Everything as trained"): {},
        N_("Let the decoder see the future"): {"change": "decoder", "decoder_mask": Full()},
        N_("Show the decoder its last word only"): {"change": "decoder", "decoder_mask": Band(0)},
        N_("Cut the encoder to a window"): {"change": "encoder", "encoder_mask": Band(1)},
        N_("Ablate the head that aligns best"): _ablated([first_head("cross", translator)]),
        N_("Ablate all heads that align"): _ablated(aligning),
        N_("Encoder–decoder: temperature 5"): {"change": "cross", "cross_normalizer": Softmax(5.0)},
        N_("Encoder–decoder: cosine"): {"change": "cross", "cross_score": Cosine()},
    }


def _ablated(heads: Sequence[int]) -> dict[str, Any]:
    """Returns the values with which these heads of the encoder–decoder attention, numbered across layers, are
    ablated."""
    of_layers = enumerate(ABLATED_FIELDS["cross"])
    return {"change": "cross"} | {
        field.name: tuple(head % HEADS for head in heads if head // HEADS == layer) for layer, field in of_layers
    }


def _choose(state: TransformerState) -> tuple[TransformerState, list[str]]:
    """Draws the widgets; returns the state with what they say, and messages about refused parts."""
    refused: list[str] = []
    values: dict[str, Any] = {}
    for name, tab in choice_tabs(TransformerState.change, state).items():
        use = TransformerState.change.options(state)[name]
        if tab.open:
            values["change"] = use
        with tab:
            *columns, ablation_column = st.columns(4, gap="medium")
            values |= intervention_widgets.draw_parts(PART_FIELDS[use], columns, refused)
            with ablation_column:
                for i, field in enumerate(ABLATED_FIELDS[use]):
                    label = _(field.label, layer=i)
                    values[field.name] = draw(field, state, st.pills, selection_mode="multi", label=label)
    return state.updated(**values), refused


# What is shown


def _show_maps(state: TransformerState, changed: TransformerState, use: Use, steps: tuple[int, int]) -> None:
    """Draws the heads of one use and the map of the selected one, on both sides."""
    head = state.heads[use]
    st.markdown(f"**{_(USES[use])}**, {in_sentence(HEAD_NAMES[head])}")
    both = zip((state.translation, changed.changed), steps, strict=True)
    both_maps = [use_maps(one, use, step) for one, step in both]
    linked = (both_maps[0].queries, both_maps[0].keys) == (both_maps[1].queries, both_maps[1].keys)
    end, rows = max(1.0, largest_weight([one.weights for one in both_maps])), max(len(one.queries) for one in both_maps)

    def draw_heads(side: int) -> str:
        st.markdown(f"**{_(SIDES[side])}**")
        one_use.show_heads(both_maps[side], f"{KEYS[side]}-heads", chosen=head, largest=end)
        return ""

    def draw_map(side: int) -> str:
        one_use.show_head(
            both_maps[side], f"{KEYS[side]}-map", head=head, largest=end, link="what-if" if linked else "",
            pinned=None if use == "encoder" else steps[side], rows=max(10, rows),
        )  # fmt: skip
        layer, number_in_layer = divmod(head, HEADS)
        trained = state.translation.layers(use=use)[layer].known_mechanism
        intervention = (changed if side else state).intervention(use)
        return intervention_widgets.describe_head(intervention, trained, USE_LAYERS[use][layer], number_in_layer)

    intervention_widgets.show_sides(draw_heads)
    intervention_widgets.show_sides(draw_map)


def intervention_verdict(both: Both, changed: TransformerState) -> str:
    """Returns the effect of the interventions on the translation as text."""
    before, after = both
    if not changed.interventions:
        return _(intervention_widgets.UNCHANGED)
    sentence = _("The translation changes where words are marked.")
    if before.french == after.french and before.finished == after.finished:
        sentence = _("The translation stays the same; its probabilities and maps change.")
        if all(a.probability == b.probability for a, b in zip(before.steps, after.steps, strict=True)):
            sentence = _("The translation stays the same, and so do its probabilities.")
    sees_future = changed.intervention("decoder").mask and not all(
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
                html.element("small", _("mean probability {mean}", mean=number(mean))),
                class_="attnviz-change",
            ),
            html.element("ol", *items, class_="attnviz-row attnviz-compared", lang="fr"),
            ""
            if translation.finished
            else html.element("p", _("It does not end, so it is cut off."), class_="attnviz-verdict"),
            word_by_word.translation_verdict(translation),
        ]
    )
