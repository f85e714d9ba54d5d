"""Transformer: how do words become the next word?"""

from attnviz.ui.text_page import show_text_page

show_text_page("transformer")
