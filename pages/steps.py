"""Steps: where does each number come from?"""

from attnviz.ui.block_page import show_block_page

show_block_page("steps")
