"""The branches of a text, as links."""

from typing import Any

import streamlit as st

from attnviz.formatting import visible
from attnviz.language import _
from attnviz.link import page_address
from attnviz.models.token_choices import format_choices
from attnviz.sources.written import Written
from attnviz.state.write import Branch, WriteState, format_branches
from attnviz.text import shorten_token
from attnviz.ui.link_state import link_parameters

OWN = (WriteState.choices.parameter, WriteState.branches.parameter, WriteState.pinned.parameter)


def branch_links(source: Written, branches: tuple[Branch, ...]) -> list[dict[str, Any]]:
    """Returns the branches that have been written, each as a link with its depth in the tree; none if there is one."""
    paths = sorted({(), *branches, source.choices}, key=lambda path: [(each.position, each.ids) for each in path])
    if len(paths) < 2:
        return []
    tokenizer, known = source.model().tokenizer, tuple(path for path in paths if path)
    links = []
    for path in paths:
        text = _("What the model writes by itself")
        if path:
            word = visible(shorten_token(tokenizer.decode([*path[-1].ids]).strip(" ")))
            text = _("“{word}” as token {number}", word=word, number=path[-1].position + 1)
        depth = sum(path[:end] in paths for end in range(len(path)))
        links.append({"text": text, "href": _address(path, known), "depth": depth, "current": path == source.choices})
    return links


def _address(path: Branch, branches: tuple[Branch, ...]) -> str:
    parameters = [(name, value) for name, value in link_parameters() if name not in OWN]
    if path:
        parameters.append((WriteState.choices.parameter, format_choices(path)))
    parameters.append((WriteState.branches.parameter, format_branches(branches)))
    return page_address(st.context.url or "", parameters)
