"""The start page: a picture in which each word of a sentence has its turn, and the groups of pages."""

from collections.abc import Iterable

import streamlit as st

from attnviz.analysis.head_maps import head_map
from attnviz.app_pages import GROUPS, PageGroup
from attnviz.figures.sentences import cell_sentence
from attnviz.formatting import visible
from attnviz.language import N_, _, current_language
from attnviz.models.minilm import is_installed
from attnviz.page.html import Markup, element, join
from attnviz.server import scripts
from attnviz.server.addresses import address
from attnviz.sources import Model
from attnviz.sources.source import Opening
from attnviz.translator import EXAMPLES, load
from attnviz.ui import cache, presentation
from attnviz.ui.lesson_strip import shipped_lessons

TRANSLATOR_OPENING = Opening(layer=1, head=3, query=5)  # “beautiful” looks at “car”
ABOUT = N_(
    "Attention lets every word take what it needs from all the others: much from some, next to "
    "nothing from most. Here you see it, in a real model, and every number of it."
)
TEACH = N_("In a class, every page fills a projector, and its link opens exactly the state that you have set.")


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


def show_groups() -> None:
    """Draws what attention is in a sentence, the first lesson, a card for each group of pages, and a way to present."""
    lessons = shipped_lessons()[0]
    first = next((lesson for lesson in lessons if lesson.language == current_language()), lessons[0])
    begin = _link(_("Lesson 1: {title}", title=first.title), first.link(), class_="attnviz-main")
    present = _link(_("Present lesson 1"), first.link(1, presentation.PRESENTING))
    st.html(
        element("p", _(ABOUT), class_="attnviz-about")
        + _links([begin])
        + element("div", join(map(_card, GROUPS)), class_="attnviz-groups")
        + element("p", _(TEACH), " ", present, class_="attnviz-teach")
    )


def _card(group: PageGroup) -> Markup:
    links = _links(_link(_(page.title), page.name) for page in group.pages)
    return element("article", element("h2", _(group.title)), element("p", _(group.question)), links)


def _links(links: Iterable[Markup]) -> Markup:
    return element("div", *links, class_="attnviz-row attnviz-links")


def _link(text: str, page: str, **attributes: str) -> Markup:
    return element("a", text, href=address(f"/{page}"), target="_self", **attributes)
