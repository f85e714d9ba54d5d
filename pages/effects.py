"""Effects: what happens without it?"""

from attnviz.state.effects import EffectsState, measure_words
from attnviz.ui.text_page import show_text_page
from attnviz.views.effects import effects

show_text_page("effects", EffectsState, effects, measure_words)
