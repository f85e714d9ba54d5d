"""Copy as Python: the lines show the view of the link, which has the numbers of the page."""

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.models import TRANSLATOR
from attnviz.notebook.page_viewer import PageViewer
from attnviz.pages.catalogue import BLOCKS, read_state, view_of
from attnviz.ui.python_code import python_code
from tests.support.app import open_page

LINKS: dict[str, dict[str, str]] = {
    "explore": {"source": "Toy", "text": "a (b) 'c' & d", "head": "Kopf 1", "mask": "Kausal"},
    "scores": {"source": "Toy", "text": "a b c", "similarities": "Dot", "mask": "Causal"},
    "side_by_side": {
        "text": "the cat sat",
        "right-text": "the cat slept",
        "right-head": "Kopf 2",
        "layer": "Encoder 2",
    },
    "masks": {"source": "Toy", "text": "a b c", "mask-a": "causal & (q - k < 2)", "mask-b": "~causal"},
    "lookup": {"query-x": "0.25", "softness": "T = 0.3", "table": "1,0,5,cat;0,1,2,hen"},
    "transformer": {"text": "I sleep .", "word": "2", "open": "decoder 1", "path-head": "2"},
    "steps": {"sentence": "a b c", "heads": "2", "head-shown": "Head 1"},
    "write": {"prompt": "the cat sat", "length": "2", "layer": "Schicht 3", "head": "Kopf 5"},
    "why": {"text": "The capital of France is", "rather-than": "das durchschnittliche Token", "term": "23.4.4"},
    "heads": {"text": "The capital of France is", "kind": "Induktionskopf (Induction Head)", "against": "Entropie"},
    "effects": {"why-model": TRANSLATOR, "text": "I sleep .", "measure": "Wahrscheinlichkeit", "compared": "true"},
}


@pytest.mark.parametrize("page", BLOCKS)
def test_the_lines_give_the_view_of_the_link(page: str) -> None:
    link = tuple(LINKS[page].items())
    program, _, last = python_code(page, link).rpartition("\n")
    names: dict[str, object] = {}
    exec(program, names)
    view = eval(last, names)
    assert isinstance(view, PageViewer)
    assert view.quantities == view_of(page, read_state(page, link)).quantities


def test_the_lines_are_behind_a_button_on_these_pages_alone() -> None:
    for page, has_lines in (("explore", True), ("start", False)):
        app = open_page(page)
        assert (
            len([one for one in app.get("popover") if one.proto.popover.label == "Copy as Python"]) == 1
        ) == has_lines
    with pytest.raises(ValueError, match="Upload vectors"):
        python_code("explore", (("source", "Upload"),))
    assert python_code("explore", ()) == "import attnviz\n\nattnviz.view('explore')"


def test_what_the_link_does_not_have_is_not_copied() -> None:
    app = open_page("write", length="1")
    app.text_area(key="prompt").set_value("the cat " * 255).run()
    app.session_state["copy-as-python"] = True
    app.run()
    assert not app.exception
    assert not lines(app)
    assert "A text of more than 2,000 characters is not in the link, and is gone after a reload." in " ".join(
        one.value for one in app.caption
    )
    app.text_area(key="prompt").set_value("the cat").run()
    assert "the+cat" in lines(app)[0]


def lines(app: AppTest) -> list[str]:
    return [code.value for code in app.code if code.language == "python"]
