"""The three uses of attention side by side, each with its heads."""

from functools import partial

import streamlit as st

from attnviz.formatting import percent, visible
from attnviz.language import N_, _, in_sentence
from attnviz.state.transformer import HEAD_NAMES, TransformerState, agreement, first_head
from attnviz.translator import Translation, Translator
from attnviz.translator.encoder_decoder import USES, Use
from attnviz.translator.grammar import ADJECTIVE
from attnviz.translator.weights import TEST_SENTENCES
from attnviz.ui import quantities
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.transformer import one_use
from attnviz.ui.widget_values import set_field_value
from attnviz.views.transformer import use_quantities
from attnviz.views.translator_maps import use_maps

EXPLANATIONS: dict[Use, str] = {
    "encoder": N_("Every English word looks at every English word. Queries, keys and values come from the encoder."),
    "decoder": N_(
        "A French word looks at itself and the words before it. Queries, keys and values come from the decoder."
    ),
    "cross": N_(
        "A French word looks at every English word. Queries come from the decoder, keys and values from the encoder."
    ),
}
HEAD_NOTES: dict[Use, str] = {
    "encoder": N_(
        "In this head, most adjectives look most at the noun that they describe: in French they agree with it."
    ),
    "decoder": N_("In this head, the row that writes *pas* looks back at *ne*, the first half of “not”."),
}
NE = ("ne", "n'")
HEIGHT_PRESENTED = 350  # so that all three maps stand on a screen of 1080 pixels


def show(state: TransformerState) -> None:
    """Draws the maps of one step of decoding, with the selected head of each use."""
    quantities.publish(partial(use_quantities, state))
    with st.container(key="in-link-encoder-row"):  # chosen in the map
        row = draw(TransformerState.encoder_row, state)
    for use, column in zip(USES, st.columns(3, gap="small"), strict=True):
        with column, st.container(key=f"use-{use}"):
            _show_use(use, state, row)
    st.caption(
        _(
            "**What you are seeing.** Each row is a word that looks: a *query*. Each column is a word "
            "that is looked at: a *key*. The color is the share of the query’s attention that goes to "
            "the key, from 0 to 1 in all maps. A row of the decoder has two words, such as “petite → "
            "voiture”: *petite* goes in, and *voiture* comes out. Gray is masked: a word may not look "
            "at the words after it. The framed row is the current step; the rows below it come later. "
            "In encoder–decoder attention an outline marks the English words that the French word "
            "translates. They are known from the grammar that made the sentences; the translator was "
            "never taught them. The percentage above a head shows for how many French words its largest "
            "weight lies on such a word, in {test_sentences} test sentences. The mark at the end "
            "counts as a word.",
            test_sentences=TEST_SENTENCES,
        )
    )


def _show_use(use: Use, state: TransformerState, row: int | None) -> None:
    def pin(clicked: int) -> None:
        set_field_value(TransformerState.encoder_row, None if clicked == row else clicked, state)

    translator, translation, step = state.translator, state.translation, state.step
    head = state.heads[use]
    st.markdown(f"**{_(USES[use])}**, {in_sentence(HEAD_NAMES[head])}  \n{_(EXPLANATIONS[use])}")
    step_maps = use_maps(translation, use, step)
    shares = [percent(share, 2) for share in agreement(translator)] if use == "cross" else []
    one_use.show_heads(step_maps, f"{use}-heads", chosen=head, labels=shares)
    one_use.show_head(
        step_maps,
        f"{use}-map",
        head=head,
        pinned=row if use == "encoder" else step,
        on_click=pin if use == "encoder" else partial(set_field_value, TransformerState.step, state=state),
        hint=_("Point at a cell to read it, click to pin its query."),
        rows=max(10, len(translation.english), len(translation.steps)),
        presented=HEIGHT_PRESENTED,
    )
    if use != "encoder":
        fed, output = map(visible, (translation.decoder_inputs[step], translation.steps[step].word))
        st.markdown(plain(_("In the framed row “{fed}” goes in, and “{output}” comes out.", fed=fed, output=output)))
    st.markdown(_note(use, translator, translation, head))


def _note(use: Use, translator: Translator, translation: Translation, head: int) -> str:
    """Returns a note about a head, if its function is known."""
    if use != "cross":
        words, telling = (translation.english, ADJECTIVE) if use == "encoder" else (translation.french, NE)
        is_telling = head == first_head(use, translator) and any(word in telling for word in words)
        return _(HEAD_NOTES[use]) if is_telling else ""
    share = percent(agreement(translator)[head], 2)
    whole = use_maps(translation, use)
    if not whole.true:
        why = (
            _("This is not the right translation")
            if translation.reference
            else _("The grammar does not know this sentence")
        )
        agreed = _(
            "In {test_sentences} test sentences this head agrees on {share} of words.",
            test_sentences=TEST_SENTENCES,
            share=share,
        )
        return _("{why}, so there is no true alignment to outline. {agreed}", why=why, agreed=agreed)
    agreed = _(
        "**{agreed} of {count} words** look most at a word that they translate",
        agreed=whole.agreed(head),
        count=len(whole.true),
    )
    return _(
        "In this head {agreed}; {share} in {test_sentences} test sentences.",
        agreed=agreed,
        share=share,
        test_sentences=TEST_SENTENCES,
    )
