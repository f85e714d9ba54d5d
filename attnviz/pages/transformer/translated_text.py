"""The text of a translation, with its wrong words marked."""

from itertools import groupby, pairwise

from attnviz.base.formatting import visible
from attnviz.page import html
from attnviz.translator import Translation
from attnviz.translator.sentence_lengths import matching_words
from attnviz.translator.translation import detokenize

MANY = 4  # repetitions of a word in a row; from here on their number is written


def translated_text(translation: Translation) -> html.Markup:
    """Returns the French text; words that are not in the right translation, or not in this order, are struck out."""
    wrong, parts = wrong_words(translation), list[object]()
    words = zip(translation.french, _pieces(translation), range(len(translation.french)), strict=True)
    for _word, same in groupby(words, key=lambda one: one[0]):
        run = [(piece, i in wrong) for _text, piece, i in same]
        shown = run if len(run) < MANY else [(run[-1][0], any(is_wrong for _piece, is_wrong in run))]
        for piece, is_wrong in shown:
            word = visible(piece.strip())
            parts += [" " * piece.startswith(" "), html.element("s", word) if is_wrong else word]
        if len(run) >= MANY:
            parts += [" ", html.element("small", f"× {len(run)}")]
    return html.element("span", *parts, lang="fr")


def wrong_words(translation: Translation) -> set[int]:
    """Returns the positions of the words that are not in the right translation, or not in this order; none where that
    is not known."""
    if translation.reference is None:
        return set()
    right = {position for position, _ in matching_words(translation.french, translation.reference.french)}
    return set(range(len(translation.french))) - right


def _pieces(translation: Translation) -> list[str]:
    """Returns the pieces of French text that the words add, with the spaces between them."""
    written = [detokenize(translation.french[:end]) for end in range(len(translation.french) + 1)]
    return [after[len(before) :] for before, after in pairwise(written)]
