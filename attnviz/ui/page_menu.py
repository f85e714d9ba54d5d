"""The menu of pages: the first page, and groups of the others."""

import streamlit as st

from attnviz.base import app_files
from attnviz.base.app_pages import GROUPS, START, Page
from attnviz.base.language import _
from attnviz.page.html import element

Menu = dict[str, list[st.Page]]  # pages by the title of their group, which the first page does not have


def page_entries() -> Menu:
    """Returns the menu in the visitor's language."""
    return {"": [_entry(START)]} | {_(group.title): [_entry(page) for page in group.pages] for group in GROUPS}


def mark_group(name: str) -> None:
    """Says in which group a page is; the browser marks it in the menu (navigation/page_groups.js)."""
    title = next((_(group.title) for group in GROUPS if name in (page.name for page in group.pages)), "")
    st.html(element("data", value=title, class_="attnviz-group"))


def _entry(page: Page) -> st.Page:
    return st.Page(
        app_files.PAGES / f"{page.name}.py",
        title=_(page.title),
        icon=f":material/{page.icon}:",
        default=page is START,
        help=_(page.question),
    )
