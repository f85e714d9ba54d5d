"""Before attention: one vector for a whole sentence, beside attention."""

from collections.abc import Iterator
from functools import partial

from attnviz.base.formatting import grouped, percent
from attnviz.base.language import N_, _
from attnviz.figures.accuracy import accuracy
from attnviz.lessons.checks import Quantities
from attnviz.page import html
from attnviz.page.blocks import Block, Caption, Columns, Figure, Heading, Paragraph, Summary
from attnviz.page.result_cache import result_cache
from attnviz.pages.transformer.translated_text import translated_text
from attnviz.translator import Translation, load
from attnviz.translator.encoder_decoder import D_MODEL
from attnviz.translator.sentence_lengths import COMPARED, SENTENCES, matching_words, shipped_accuracies
from attnviz.translator.train import BATCH, STEPS

CHART = 280  # pixels
SUFFIXES = (" with attention", " with one vector")  # in the names of quantities
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
    "the other words are struck out above. The mark at the end counts as a word. The dotted line is "
    "the length of your sentence."
)
Both = tuple[Translation, Translation]  # with attention, and with one vector


def before_attention(english: str) -> Iterator[Block]:
    """Yields both translations of a sentence, and the accuracy of both translators by the length of sentences. Raises
    ValueError if the translators do not know a word."""
    both = both_translations(english)
    yield Summary(verdict(both), partial(length_quantities, both))
    for name, translation in zip(_names(), both, strict=True):
        yield Paragraph((html.element("b", name), ": ", translated_text(translation)))
    yield Columns([(0.5, [*chart]) for chart in _charts(len(both[0].english))])
    yield Caption(_(HISTORY))
    yield Caption(_(WHAT_WAS_DONE, steps=grouped(STEPS), batch=BATCH, sentences=SENTENCES))


def both_translations(english: str) -> Both:
    """Returns the translations with attention and with one vector."""
    attention, fixed_vector = COMPARED
    return result_cache().once(
        lambda: (load(attention).translate(english), load(fixed_vector).translate(english)), "before attention", english
    )


def length_quantities(both: Both) -> Quantities:
    """Returns how many words of this translation are right, and the words and the share of right sentences of its
    length, with attention and with one vector."""
    length, computed = len(both[0].english), {}
    for suffix, translation, accuracies in zip(SUFFIXES, both, shipped_accuracies().values(), strict=True):
        if translation.reference:
            right = matching_words(translation.french, translation.reference.french)
            computed[f"words right{suffix}"] = float(len(right))
        computed |= {f"sentences right{suffix}": one.sentences for one in accuracies if one.length == length}
    return computed | {"words": float(length)}


def verdict(both: Both) -> str:
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


def _charts(length: int) -> Iterator[list[Block]]:
    """Yields the charts of accuracy by the length of sentences, which mark one length."""
    accuracies = dict(zip(_names(), shipped_accuracies().values(), strict=True))
    lengths = [one.length for one in next(iter(accuracies.values()))]
    titles = {"sentences": _("Sentences right in every word"), "words": _("Words right")}
    for field, title in titles.items():
        shares = {name: [getattr(one, field) for one in line] for name, line in accuracies.items()}
        picture = accuracy(lengths, shares, marked=length)
        picture = picture.with_about(label=_("{title}, by sentence length", title=title))
        yield [Heading(title), Figure(picture, f"lengths-{field}", CHART)]
