"""The Before attention tab of the Transformer page: one vector for a whole sentence, against attention."""

import streamlit as st

from attnviz.figures.accuracy import accuracy
from attnviz.formatting import grouped, percent
from attnviz.language import N_, _
from attnviz.lessons.checks import Quantities
from attnviz.translator import Translation, load
from attnviz.translator.model import D_MODEL
from attnviz.translator.sentence_lengths import COMPARED, SENTENCES, matching_words, shipped_accuracies
from attnviz.translator.train import BATCH, STEPS
from attnviz.ui import cache, html, presentation, quantities
from attnviz.ui.chart import chart
from attnviz.ui.transformer.controls import TransformerSelection
from attnviz.ui.transformer.what_if import words

NAMES = (N_("With attention"), N_("With one vector of {width} numbers"))
SUFFIXES = (" with attention", " with one vector")  # in the names of quantities
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


def show(selection: TransformerSelection) -> None:
    """Draws both translations of the sentence, and the accuracy of both translators by the length of sentences."""
    english = " ".join(selection.translation.english)
    attention, fixed_vector = COMPARED
    both = cache.once(
        lambda: (load(attention).translate(english), load(fixed_vector).translate(english)), "before attention", english
    )
    quantities.publish(lambda: length_quantities(both))
    st.html(html.summary(verdict(both), role="status"))
    for name, translation, column in zip(_names(), both, st.columns(2, gap="medium"), strict=True):
        column.html(words(name, translation, wrong_words(translation)))
    _show_charts(len(selection.translation.english))
    st.markdown(_(HISTORY))
    st.caption(_(WHAT_WAS_DONE).format(steps=grouped(STEPS), batch=BATCH, sentences=SENTENCES))


def wrong_words(translation: Translation) -> set[int]:
    """Returns the positions of the words that are not in the right translation, or not in this order."""
    if translation.reference is None:
        return set()
    right = {position for position, _ in matching_words(translation.french, translation.reference.french)}
    return set(range(len(translation.french))) - right


def length_quantities(both: tuple[Translation, Translation]) -> Quantities:
    """Returns how many words of this translation are right, and the words and the share of right sentences of its
    length, with attention and with one vector."""
    length, computed = len(both[0].english), {}
    for suffix, translation, accuracies in zip(SUFFIXES, both, shipped_accuracies().values(), strict=True):
        if translation.reference:
            right = matching_words(translation.french, translation.reference.french)
            computed[f"words right{suffix}"] = float(len(right))
        computed |= {f"sentences right{suffix}": one.sentences for one in accuracies if one.length == length}
    return computed | {"words": float(length)}


def verdict(both: tuple[Translation, Translation]) -> str:
    """Returns how much of the right translation each translator has, and what test sentences of this length give."""
    length = len(both[0].english)
    attention, fixed = (
        next((one for one in accuracies if one.length == length), None) for accuracies in shipped_accuracies().values()
    )
    reference = both[0].reference
    parts = []
    if reference:
        right = [len(matching_words(one.french, reference.french)) for one in both]
        parts.append(
            _("With attention {right} of {count} words are right, with one vector {right_2}.").format(
                right=right[0], count=len(reference.french), right_2=right[1]
            )
        )
    if attention and fixed:
        parts.append(
            _(
                "Of test sentences with {length} words, {sentences} are right in every word with "
                "attention, and {sentences_2} with one vector."
            ).format(length=length, sentences=percent(attention.sentences, 2), sentences_2=percent(fixed.sentences, 2))
        )
    return " ".join(parts)


def _names() -> list[str]:
    return [_(name).format(width=D_MODEL) for name in NAMES]


def _show_charts(length: int) -> None:
    """Draws the accuracy by the length of sentences, and marks one length."""
    accuracies = dict(zip(_names(), shipped_accuracies().values(), strict=True))
    lengths = [one.length for one in next(iter(accuracies.values()))]
    views = (
        ("sentences", _("Sentences right in every word"), "sentences"),
        ("words", _("Words right"), "words"),
    )
    for column, (key, title, field) in zip(st.columns(2, gap="medium"), views, strict=True):
        shares = {name: [getattr(one, field) for one in line] for name, line in accuracies.items()}
        ends = "; ".join(
            _("{name}: {line} at {length} words, {line_2} at {length_2}").format(
                name=name,
                line=percent(line[0], 2),
                length=lengths[0],
                line_2=percent(line[-1], 2),
                length_2=lengths[-1],
            )
            for name, line in shares.items()
        )
        with column:
            st.markdown(f"**{title}**")
            chart(
                accuracy(lengths, shares, marked=length),
                f"lengths-{key}",
                label=_("{title}, by sentence length").format(title=title),
                name=_("{title} by length").format(title=title),
                description=f"{ends}.",
                height=260 if presentation.presenting() else 300,
                grows=False,
            )
