"""The start page: a picture in which each word of a sentence has its turn, and the ways into the app."""

from collections.abc import Sequence

import streamlit as st

from attnviz.analysis.head_maps import head_map
from attnviz.figures.sentences import cell_sentence
from attnviz.formatting import visible
from attnviz.language import N_, _, current_language
from attnviz.models.minilm import is_installed
from attnviz.server import scripts
from attnviz.server.addresses import address
from attnviz.sources import Model
from attnviz.sources.source import Opening
from attnviz.translator import EXAMPLES, load
from attnviz.ui import cache, presentation
from attnviz.ui.html import Markup, element, join
from attnviz.ui.lesson_strip import shipped_lessons

TRANSLATOR_OPENING = Opening(layer=1, head=3, query=5)  # “beautiful” looks at “car”
ABOUT = N_(
    "Attention lets every word take what it needs from all the others: much from some, next to "
    "nothing from most. Here you see it, in a real model, and every number of it."
)
NEW = N_(
    "Short lessons, from a dictionary to a transformer that translates. Each asks a question, and you "
    "try it in the figure."
)
TEACH = N_("Every page fills a projector, and its link opens exactly the state that you have set.")
COMPARE = N_("Any text, any mask, any head of a model of yours, with the numbers to trust it.")


def show_picture() -> None:
    """Draws the example of the model, in the head that it opens with, or of the translator where it is not
    installed; its root has data-ready="true" once drawn."""
    installed = is_installed()
    opening = Model().opening if installed else TRANSLATOR_OPENING

    def compute() -> dict[str, object]:
        layers = Model().layers() if installed else load().translate(EXAMPLES[0]).layers(use="encoder")
        layer = layers[opening.layer]
        weights = head_map(layer.inputs, layer.mechanism, opening.head)
        tokens = layer.inputs.query_tokens
        return {
            "tokens": [visible(token) for token in tokens],
            "weights": weights.tolist(),
            "sentences": [
                cell_sentence(token, tokens[int(row.argmax())], float(row.max()))
                for token, row in zip(tokens, weights, strict=True)
            ],
            "queries": [i for i in range(len(tokens)) if i not in layer.inputs.special_queries],
            "first": opening.query,
        }

    scripts.mount("ui/start")(key="picture", data=cache.once(compute, "start", installed))


def show_ways() -> None:
    """Draws what attention is in a sentence, and a card for each of three people."""
    lessons = shipped_lessons()[0]
    first = next((one for one in lessons if one.language == current_language()), lessons[0])
    ways = (
        (
            _("I am new"),
            _(NEW),
            ((_("Lesson 1: {title}", title=first.title), first.link()), (_("All lessons"), "lessons")),
        ),
        (
            _("I teach"),
            _(TEACH),
            ((_("Lessons"), "lessons"), (_("Present lesson 1"), first.link(1, presentation.PRESENTING))),
        ),
        (
            _("I compare masks or models"),
            _(COMPARE),
            ((_("Explore"), "explore"), (_("Masks"), "masks"), (_("Models"), "models")),
        ),
    )
    st.html(element("p", _(ABOUT), class_="attnviz-about") + join(card(*way) for way in ways))


def card(name: str, about: str, links: Sequence[tuple[str, str]]) -> Markup:
    """Returns a card; the first link is the main one."""
    anchors = (
        element("a", text, href=address(f"/{page}"), target="_self", class_=None if i else "attnviz-main")
        for i, (text, page) in enumerate(links)
    )
    buttons = element("div", *anchors, class_="attnviz-row attnviz-links")
    return element("article", element("h2", name), element("p", about), buttons, class_="attnviz-way")
