"""Lookup: how is attention a soft dictionary?"""

from attnviz.ui.block_page import show_block_page

show_block_page("lookup")
