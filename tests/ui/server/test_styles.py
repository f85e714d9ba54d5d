"""What styles may ask for, so that a change of a page leaves the styles of most elements as they are."""

import re
from pathlib import Path

import attnviz

PACKAGE = Path(attnviz.__file__).parent
STYLES = {file: re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.DOTALL) for file in PACKAGE.rglob("*.css")}
PARTS = (PACKAGE / "ui" / "navigation" / "page_parts.js").read_text().split("PARTS = {")[1].split("}")[0]


def arguments_of_has(style: str) -> list[str]:
    """The arguments of each `:has(`, which may hold others."""
    found = []
    for match in re.finditer(r":has\(", style):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(style[end], 0)
            end += 1
        found.append(re.sub(r"\s+", " ", style[match.end() : end - 1]).strip())
    return found


def selectors(argument: str) -> list[str]:
    """The selectors of a list, without what stands in their parentheses."""
    while argument != (argument := re.sub(r"\([^()]*\)", "", argument)):
        pass
    return [one.strip() for one in argument.split(",")]


def test_styles_ask_elements_for_children_and_neighbors_alone():
    """Of an element that asks for descendants, each change of any of them costs the styles of all."""
    asked = [(file.name, one) for file, style in STYLES.items() for one in arguments_of_has(style)]
    assert asked
    child = re.compile(r"[>+] ?[^ >+~]+( [>+] ?[^ >+~]+)*")
    assert [one for one in asked if not all(child.fullmatch(each) for each in selectors(one[1]))] == []


def test_a_change_of_a_class_leaves_descendants_as_they_are():
    """Where `[class*=…]` stands before a `*`, each change of a class costs the styles of all elements below it."""
    universal = re.compile(r"\[class[*^$|~]?=[^\]]*\][^,{};]*[ >+~(]\*")
    assert [(file.name, found[0]) for file, style in STYLES.items() for found in universal.finditer(style)] == []


def test_the_root_says_which_parts_of_a_page_styles_ask_for():
    named = set(re.findall(r'^\s*"?([a-z-]+)"?:', PARTS, re.MULTILINE))
    assert named == {name for style in STYLES.values() for name in re.findall(r"\.has-([a-z-]+)", style)}


def test_styles_of_a_page_leave_what_lies_over_it():
    """Menus, dialogs and hints are drawn beside .stApp: a presentation hides the controls of the page, not theirs."""
    parts = re.compile(r"(:root)?(?:\.has-[a-z-]+|:not\(\.has-[a-z-]+\))+\s+(\S+)")
    asked = [(file.name, *found.group(0, 1, 2)) for file, style in STYLES.items() for found in parts.finditer(style)]
    assert len(asked) > 20
    allowed = re.compile(r"\.st(App|MainBlockContainer|-key-\S+)\b")
    assert [one for one in asked if not (one[2:] == (":root", "{") or allowed.match(one[3]))] == []
