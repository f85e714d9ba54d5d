"""The words that the app and the documentation explain: the forms of each, separated by |, and one sentence."""

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

from attnviz.base.language import N_, _
from attnviz.page import html
from attnviz.page.fields import ParsedField
from attnviz.page.state import State

GLOSSARY = {
    N_("query|queries"): N_("What a token looks for: a vector that is compared with the keys."),
    N_("key|keys"): N_("What a token can be found by: a vector that queries are compared with."),
    N_("value|values"): N_("What a token gives: values are added up, each times its weight."),
    N_("head|heads"): N_("One of the parallel attentions of a layer, with queries, keys and values of its own."),
    N_("layer|layers"): N_("One of the steps of a model, each with its heads of attention and an MLP."),
    N_("logit|logits"): N_("The score of a possible next token; a softmax over all of them gives probabilities."),
    N_("share|shares"): N_("A part of a number; all its shares add up to it."),
    N_("effect|effects"): N_("What a number is after a change in the model, minus what it was before."),
    "[CLS]": N_("A token that BERT and models like it read before each text."),
    "MLP|MLPs": N_("The part of a layer after its attention: a small network, for each token by itself."),
    "KL": N_("How far one list of probabilities is from another one; 0 if they are equal."),
    "softmax": N_("The function from scores to weights that are positive and add up to 1."),
}
# What is not the sentence itself: tags, and what is quoted.
APART = re.compile(r"(<[^>]*>|“[^”]*”|„[^“]*“)")
WORD = re.compile(r"\[?\w+\]?")


class Terms:
    """The words of GLOSSARY that a page has not explained yet; those that occur in a text that somebody has typed are
    not explained."""

    def __init__(self, typed: Iterable[str] = ()) -> None:
        words = {word for text in typed for word in WORD.findall(text.casefold())}
        self._sentences: dict[str, str] = {}  # by the forms of a word
        for forms, sentence in GLOSSARY.items():
            own = _(forms).casefold().split("|")
            if words.isdisjoint(own):
                self._sentences |= dict.fromkeys(own, _(sentence))

    @classmethod
    def of_state(cls, state: State | None) -> "Terms":
        """Returns the words of a page that shows a state."""
        fields = state.fields if state else ()
        texts = [field for field in fields if isinstance(field, ParsedField) and state and field.name in state.values]
        return cls(field.text(state.values[field.name]) for field in texts if state)

    def explain(self, text: object) -> Markup:
        """Returns a text with the first occurrence of each word explained; not in elements, nor in quotation marks."""
        parts, depth = list[Markup](), 0
        for part in APART.split(escape(text)):
            if part.startswith("<"):
                depth += -1 if part.startswith("</") else 1
            is_own = depth == 0 and part[:1] not in ("<", "“", "„")
            parts.append(self._marked(part) if is_own else Markup(part))  # noqa: S704 - escaped above
        return html.join(parts)

    def _marked(self, escaped: str) -> Markup:
        """Returns a part of HTML without elements."""
        parts = list[Markup]()
        forms = "|".join(map(re.escape, self._sentences))
        for part in re.split(rf"(?<![\w-])({forms})(?![\w-])", escaped, flags=re.IGNORECASE) if forms else [escaped]:
            plain = Markup(part)  # noqa: S704 - escaped by who calls it
            sentence = self._sentences.get(part.casefold(), "")
            if sentence:
                self._sentences = {form: other for form, other in self._sentences.items() if other != sentence}
                plain = html.element("abbr", plain, class_="attnviz-term", tabindex=0, aria_description=sentence)
            parts.append(plain)
        return html.join(parts)
