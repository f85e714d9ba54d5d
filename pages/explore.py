"""Explore: what does each token look at, in every head?"""

from attnviz.ui.head_page import show_head_page

show_head_page("explore")
