"""The three uses of attention side by side, each with its heads."""

from functools import partial

import streamlit as st

from attnviz.formatting import percent, visible
from attnviz.language import N_, _, in_sentence, option_name
from attnviz.lessons.checks import Quantities, map_quantities
from attnviz.translator import Translation, Translator
from attnviz.translator.grammar import ADJECTIVE
from attnviz.translator.model import Use
from attnviz.translator.weights import TEST_SENTENCES
from attnviz.ui import pinned_query, quantities
from attnviz.ui.markdown import plain
from attnviz.ui.transformer import maps
from attnviz.ui.transformer.controls import TransformerSelection
from attnviz.ui.transformer.decoding import WORD

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
PLACES: dict[Use, str] = {  # in the names of quantities
    "encoder": " in the encoder",
    "decoder": " in the decoder",
    "cross": " in cross-attention",
}
NE = ("ne", "n'")
ROW = "encoder-row"
HEIGHT_PRESENTED = 350  # so that all three maps stand on a screen of 1080 pixels


def show(selection: TransformerSelection) -> None:
    """Draws the maps of one step of decoding, with the selected head of each use."""
    quantities.publish(partial(_quantities, selection))
    for use, column in zip(maps.USES, st.columns(3, gap="small"), strict=True):
        with column, st.container(key=f"use-{use}"):
            _show_use(use, selection)
    st.caption(
        _(
            "**What you are seeing.** Each row is a word that looks: a *query*. Each column is a word "
            "that is looked at: a *key*. The color is the share of the query’s attention that goes to "
            "the key, from 0 to 1 in all maps. A row of the decoder has two words, such as “petite → "
            "voiture”: *petite* goes in, and *voiture* comes out. Gray is masked: a word may not look "
            "at the words after it. The framed row is the current step; the rows below it come later. "
            "In encoder–decoder attention an outline marks the English words that the French word "
            "stands for. They are known from the grammar that made the sentences; the translator was "
            "never taught them. The percentage above a head says for how many French words its largest "
            "weight lies on such a word, in {test_sentences} test sentences. The mark at the end "
            "counts as a word."
        ).format(test_sentences=TEST_SENTENCES)
    )


def _quantities(selection: TransformerSelection) -> Quantities:
    """Returns the weights of the shown heads, "… in the encoder", "… in the decoder" and "… in cross-attention"."""
    computed: dict[str, float] = {}
    for use, place in PLACES.items():
        shown = maps.use_maps(selection.translation, use, selection.step)
        weights = shown.weights[selection.heads[use]]
        computed |= map_quantities(shown.queries, shown.keys, weights, place)
    return computed


def _show_use(use: Use, selection: TransformerSelection) -> None:
    translator, translation, step = selection.translator, selection.translation, selection.step
    head = selection.heads[use]
    st.markdown(f"**{_(maps.USES[use])}**, {in_sentence(maps.HEAD_NAMES[head])}  \n{_(EXPLANATIONS[use])}")
    step_maps = maps.use_maps(translation, use, step)
    shares = (
        [percent(share, 2) for share in maps.agreement(translator)] if use == "cross" else [""] * len(maps.HEAD_NAMES)
    )
    maps.show_heads(
        step_maps,
        f"{use}-heads",
        chosen=head,
        on_open=partial(maps.choose_head, use),
        labels=shares,
        names=[
            f"{option_name(name)}: {share}" if share else option_name(name)
            for name, share in zip(maps.HEAD_NAMES, shares, strict=True)
        ],
    )
    names = pinned_query.numbered(range(len(step_maps.queries)), step_maps.queries)
    maps.show_head(
        step_maps,
        f"{use}-map",
        head=head,
        pinned=_pinned_row(names) if use == "encoder" else step,
        on_click=partial(_pin, names) if use == "encoder" else _go_to,
        hint=_("Point at a cell to read it, click to pin its query."),
        rows=max(10, len(translation.english), len(translation.steps)),
        presented=HEIGHT_PRESENTED,
    )
    if use != "encoder":
        fed, output = map(visible, (translation.decoder_inputs[step], translation.steps[step].word))
        st.markdown(
            plain(_("In the framed row “{fed}” goes in, and “{output}” comes out.").format(fed=fed, output=output))
        )
    st.markdown(_note(use, translator, translation, head))


def _pinned_row(names: list[str]) -> int | None:
    """Returns the pinned row of the encoder; a pinned word of another sentence is unpinned."""
    pinned = st.query_params.get(ROW)
    if pinned is not None and pinned not in names:
        del st.query_params[ROW]
    return names.index(pinned) if pinned in names else None


def _pin(names: list[str], row: int) -> None:
    if st.query_params.get(ROW) == names[row]:
        del st.query_params[ROW]
    else:
        st.query_params[ROW] = names[row]


def _go_to(row: int) -> None:
    """Goes to the step in which the word of a row is predicted."""
    st.session_state[WORD] = row + 1


def _note(use: Use, translator: Translator, translation: Translation, head: int) -> str:
    """Returns a note about a head, if its function is known."""
    if use != "cross":
        words, telling = (translation.english, ADJECTIVE) if use == "encoder" else (translation.french, NE)
        is_telling = head == maps.first_head(use, translator) and any(word in telling for word in words)
        return _(HEAD_NOTES[use]) if is_telling else ""
    share = percent(maps.agreement(translator)[head], 2)
    whole = maps.use_maps(translation, use)
    if not whole.true:
        why = (
            _("This is not the right translation")
            if translation.reference
            else _("The grammar does not know this sentence")
        )
        agreed = _("In {test_sentences} test sentences this head agrees on {share} of words.").format(
            test_sentences=TEST_SENTENCES, share=share
        )
        return _("{why}, so there is no true alignment to outline. {agreed}").format(why=why, agreed=agreed)
    agreed = _("**{agreed} of {count} words** look most at a word that they stand for").format(
        agreed=whole.agreed(head), count=len(whole.true)
    )
    return _("In this head {agreed}; {share} in {test_sentences} test sentences.").format(
        agreed=agreed, share=share, test_sentences=TEST_SENTENCES
    )
