"""Effects: what happens without it?"""

from attnviz.ui.text_page import show_text_page

show_text_page("effects")
