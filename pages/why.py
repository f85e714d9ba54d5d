"""Why: why does a head look there, and why does the model say that?"""

from attnviz.state.why import WhyState, question_words
from attnviz.ui.text_page import show_text_page
from attnviz.views.why import why

show_text_page("why", WhyState, why, question_words)
