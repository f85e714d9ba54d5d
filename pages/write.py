"""Write: what does a language model look at while it writes?"""

from attnviz.ui.write.page import show_write_page

show_write_page()
