"""Words that are explained where they first stand on a page."""

import re
from collections.abc import Iterator

import pytest
from markupsafe import Markup

from attnviz.base.language import language
from attnviz.page.block_html import block_html
from attnviz.page.blocks import Caption, ColoredText, Note, Summary, Table
from attnviz.page.glossary import GLOSSARY, Terms
from attnviz.page.nodes import page_nodes
from attnviz.pages.lookup.blocks import lookup
from attnviz.pages.lookup.state import LookupState
from attnviz.pages.steps.state import StepsState
from docs.tools.tables import terms

EXPLAINED = re.compile("<abbr class='attnviz-term' tabindex='0' aria-description='([^']+)'>(.*?)</abbr>")


def explained(html: object) -> list[str]:
    return [word for _sentence, word in EXPLAINED.findall(str(html))]


def test_a_word_is_explained_where_it_first_stands_in_any_form() -> None:
    page = Terms()
    first = page.explain("Queries look for keys. A query has a head; headings have none.")
    assert explained(first) == ["Queries", "keys", "head"]
    assert GLOSSARY["query|queries"] in EXPLAINED.findall(first)[0][0]
    assert explained(page.explain("A key, a layer and [CLS]")) == ["layer", "[CLS]"]
    assert first.striptags() == "Queries look for keys. A query has a head; headings have none."


@pytest.mark.parametrize("text", ["“key”", "„key“", Markup("<b>key</b>"), Markup("<bdi>key</bdi> of “<i>key</i>”")])
def test_what_is_quoted_or_in_an_element_is_data(text: str) -> None:
    assert explained(Terms().explain(text)) == []


def test_a_word_that_somebody_has_typed_is_not_explained() -> None:
    page = Terms.of_state(StepsState(sentence="the Query has no [CLS]"))
    assert explained(page.explain("A query, a key and [CLS]")) == ["key"]
    page = Terms.of_state(LookupState.read([("table", "1,0,5,heads;0,1,2,hen")]))
    assert explained(page.explain("A head, a layer")) == ["layer"]


def test_texts_stay_escaped() -> None:
    assert str(Terms().explain("<script> & key")).startswith("&lt;script&gt; &amp; <abbr")
    assert str(Terms().explain(Markup("&lt;b&gt; {}").format("<key>"))).startswith("&lt;b&gt; &lt;<abbr")


def test_sentences_are_explained_and_tokens_are_not() -> None:
    page = Terms()

    def html(block: object) -> str:
        return str(block_html(block, lambda _anchor: None, page.explain))

    assert explained(html(Table(["key"], [["key"]]))) == []
    assert explained(html(ColoredText(["key"], [1.0], ["value"]))) == []
    assert explained(html(Summary(("A key of ", "a head")))) == ["key", "head"]
    assert explained(html(Note("The softmax of a head"))) == ["softmax"]
    assert explained(html(Caption("Each *key* is a *query*"))) == ["query"]


def test_a_page_explains_each_word_once_in_notebooks_and_files_too() -> None:
    def texts(nodes: list) -> Iterator[str]:
        for node in nodes:
            yield node.get("html", "")
            for part in (node, *node.get("columns", ())):
                yield from () if node["kind"] == "more" else texts(part.get("nodes", []))

    words = explained("".join(texts(page_nodes(lookup(LookupState()), "page").nodes)))
    assert words == ["key", "value", "query"]


def test_words_are_explained_in_german_too() -> None:
    with language("de"):
        html = Terms().explain("Die Queries eines Kopfes und der Softmax")
    assert explained(html) == ["Queries", "Kopfes", "Softmax"]
    assert GLOSSARY["head|heads"] not in html


def test_the_documentation_has_the_same_sentences() -> None:
    assert "\nhead\n:   " + GLOSSARY["head|heads"] in terms()
