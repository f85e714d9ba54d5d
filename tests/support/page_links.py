"""Links to every page and every tab, with a model and a text."""

from pathlib import Path

from attnviz.page.fields import ChoiceField, ModelField
from attnviz.page.source_field import SourceField
from attnviz.page.state import State
from attnviz.pages.catalogue import BLOCKS
from attnviz.sources import Model

TYPED = ("text", "prompt", "sentence", "english")  # fields of what a visitor types
WITHOUT_TEXT = {"lookup": "query-x"}  # by what visitors of a page without a text differ
Link = list[tuple[str, str]]


def link_of(page: str, text: str, number: int, folder: Path) -> Link:
    """Returns the link with which a visitor opens a page: a small model where the page has one, and a text."""
    link, has_own = Link(), page not in BLOCKS
    for each in BLOCKS[page].state.fields if page in BLOCKS else ():
        if isinstance(each, ModelField):
            link.append((each.parameter, str(folder)))
        elif isinstance(each, SourceField):
            link += each.write(None, Model(text, str(folder)))
            has_own = True
        elif each.name in TYPED:
            link.append((each.parameter, text))
            has_own = True
        elif WITHOUT_TEXT.get(page) == each.parameter:
            link.append((each.parameter, str(number / 10)))
            has_own = True
    assert has_own, f"{page}: add to TYPED or WITHOUT_TEXT what each of its visitors has for themselves"
    return link


def tab_links(page: str, link: Link) -> list[Link]:
    """Returns what is added to a link to open each tab of a page; nothing to open a page without tabs."""
    kind: type[State] | None = BLOCKS[page].state if page in BLOCKS else None
    tabs = [each for each in kind.fields if isinstance(each, ChoiceField) and each.label == "Tab"] if kind else []
    if kind is None or not tabs:
        return [[]]
    return [[(tabs[0].parameter, name)] for name in tabs[0].options(kind.read(link))]
