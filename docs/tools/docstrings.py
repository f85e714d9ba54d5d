"""Parts of docstrings that griffe does not read: sections named "Example", and the comments that describe fields."""

import re
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import griffe

griffe.stdlib_decorators["attnviz.base.cached_property.cached_property"] = {"cached", "property"}
EXAMPLE = re.compile(r"^(\s*)Example:$", re.MULTILINE)


@cache
def comments(path: Path) -> dict[int, str]:
    """Returns the comment at the end of each line of code, by the line's number."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip()
    }


def sentence(comment: str) -> str:
    """Returns a comment as a sentence, with formulas and code as they are."""
    return comment if comment.endswith((".", "?")) else f"{comment}."


class Docstrings(griffe.Extension):
    """Gives "Example:" the meaning of "Examples:", and a field the comment of its line as its docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring or not isinstance(attr.parent, griffe.Class) or not isinstance(attr.filepath, Path):
            return
        if comment := comments(attr.filepath).get(attr.lineno or 0):
            attr.docstring = griffe.Docstring(sentence(comment), lineno=attr.lineno, parent=attr)
