"""Why: why does a head look there, and why does the model say that?"""

from attnviz.ui.text_page import show_text_page

show_text_page("why")
