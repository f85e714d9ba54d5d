"""Scores: what changes with another similarity or another normalizer?"""

from attnviz.ui.head_page import show_head_page

show_head_page("scores")
