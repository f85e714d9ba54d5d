"""Masks: what do two masks do to the same scores, and where do they disagree?"""

from attnviz.ui.head_page import show_head_page

show_head_page("masks")
