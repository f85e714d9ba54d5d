"""The style of all pages and components, which a page has before anything is drawn."""

from markupsafe import Markup

from attnviz.base.app_files import PACKAGE
from attnviz.figures.themes import CSS_PROPERTIES
from attnviz.ui.server.scripts import component_styles

_FILES = (PACKAGE / "chart" / "base.css", PACKAGE / "page" / "blocks.css", *sorted((PACKAGE / "ui").glob("*.css")))


def style_element() -> Markup:
    """Returns the element with all styles. It belongs at the end of the body, after what Streamlit's client adds to the
    head, so that of two rules for the same the one here is used."""
    styles = "".join(file.read_text(encoding="utf-8") for file in _FILES)
    return Markup(f"<style>{CSS_PROPERTIES}{component_styles()}{styles}</style>")  # noqa: S704 (files of ours)
