"""The style of all pages, which a page has before anything is drawn."""

from pathlib import Path

from markupsafe import Markup

_FILES = sorted(Path(__file__).parent.glob("*.css"))


def style_element() -> Markup:
    """Returns the element with all styles. It belongs at the end of the body, after what Streamlit's client adds to the
    head, so that of two rules for the same the one here is used."""
    styles = "".join(file.read_text(encoding="utf-8") for file in _FILES)
    return Markup(f"<style>{styles}</style>")  # noqa: S704 (files of ours)
