"""Side by side: what differs between two texts, or two models, in a head?"""

from attnviz.ui.head_page import show_head_page

show_head_page("side_by_side")
