"""Heads: what does each head do?"""

from attnviz.ui.text_page import show_text_page

show_text_page("heads")
