"""The Before attention tab of the Transformer page: one vector for a whole sentence, against attention."""

import streamlit as st

from attnviz.figures.accuracy import accuracy
from attnviz.formatting import grouped, percent
from attnviz.language import N_, _
from attnviz.page import html
from attnviz.state.transformer import TransformerState
from attnviz.translator import Translation
from attnviz.translator.encoder_decoder import D_MODEL
from attnviz.translator.sentence_lengths import SENTENCES, matching_words, shipped_accuracies
from attnviz.translator.train import BATCH, STEPS
from attnviz.ui import presentation, quantities
from attnviz.ui.chart import chart
from attnviz.ui.transformer.what_if import words
from attnviz.views.transformer import SUFFIXES, both_translations, length_quantities

NAMES = (N_("With attention"), N_("With one vector of {width} numbers"))
HISTORY = N_(
    "**Before attention.** The first neural translators had two recurrent networks (Cho et al. "
    "2014; Sutskever et al. 2014, with LSTMs). The first network, the encoder, read the sentence "
    "word by word and kept **one vector of a fixed size**. The second, the decoder, wrote the "
    "translation from this vector. A long sentence had to fit into as many numbers as a short one, "
    "and long sentences were translated badly. Bahdanau et al. (2015) kept a vector for *every* "
    "word and let the decoder look at all of them again before each new word: attention. Vaswani "
    "et al. (2017) then left out the recurrence: a transformer has attention only."
)
WHAT_WAS_DONE = N_(
    "**What you are seeing.** Both translators are transformers of the same size with scaled dot "
    "products, trained in the same way on the same {steps} × {batch} sentences; no recurrent "
    "network is used here. One thing differs: in the second one the encoder’s vectors are averaged "
    "into one. It is the only key and the only value, so its weight is always 1 and there is "
    "nothing to choose. Each point of a chart is {sentences} sentences that were kept apart for "
    "testing. *Words right* are the words of the right translation that are there, in their order; "
    "the other words are marked above. The mark at the end counts as a word. The dotted line is "
    "the length of your sentence."
)


def show(state: TransformerState) -> None:
    """Draws both translations of the sentence, and the accuracy of both translators by the length of sentences."""
    both = both_translations(state.english)
    quantities.publish(lambda: length_quantities(both))
    st.html(html.summary(verdict(both), role="status"))
    for name, translation, column in zip(_names(), both, st.columns(2, gap="medium"), strict=True):
        column.html(words(name, translation, wrong_words(translation)))
    _show_charts(len(state.translation.english))
    st.markdown(_(HISTORY))
    st.caption(_(WHAT_WAS_DONE, steps=grouped(STEPS), batch=BATCH, sentences=SENTENCES))


def wrong_words(translation: Translation) -> set[int]:
    """Returns the positions of the words that are not in the right translation, or not in this order."""
    if translation.reference is None:
        return set()
    right = {position for position, _ in matching_words(translation.french, translation.reference.french)}
    return set(range(len(translation.french))) - right


def verdict(both: tuple[Translation, Translation]) -> str:
    """Returns how much of the right translation each translator has, and what test sentences of this length give."""
    numbers, reference, parts = length_quantities(both), both[0].reference, []
    right, exact = (
        [numbers[f"{name} right{suffix}"] for suffix in SUFFIXES if f"{name} right{suffix}" in numbers]
        for name in ("words", "sentences")
    )
    if reference:
        parts.append(
            _(
                "With attention {attention} of {count} words are right, with one vector {vector}.",
                attention=f"{right[0]:.0f}",
                count=len(reference.french),
                vector=f"{right[1]:.0f}",
            )
        )
    if exact:
        parts.append(
            _(
                "Of test sentences with {length} words, {attention_share} are right in every word with "
                "attention, and {share} with one vector.",
                length=len(both[0].english),
                attention_share=percent(exact[0], 2),
                share=percent(exact[1], 2),
            )
        )
    return " ".join(parts)


def _names() -> list[str]:
    return [_(name, width=D_MODEL) for name in NAMES]


def _show_charts(length: int) -> None:
    """Draws the accuracy by the length of sentences, and marks one length."""
    accuracies = dict(zip(_names(), shipped_accuracies().values(), strict=True))
    lengths = [one.length for one in next(iter(accuracies.values()))]
    titles = {"sentences": _("Sentences right in every word"), "words": _("Words right")}
    for column, (field, title) in zip(st.columns(2, gap="medium"), titles.items(), strict=True):
        shares = {name: [getattr(one, field) for one in line] for name, line in accuracies.items()}
        with column:
            st.markdown(f"**{title}**")
            picture = accuracy(lengths, shares, marked=length)
            picture = picture.with_about(label=_("{title}, by sentence length", title=title))
            chart(picture, f"lengths-{field}", height=260 if presentation.presenting() else 300)
