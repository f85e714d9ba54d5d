"""Heads: what does each head do?"""

from attnviz.state.heads import HeadsState
from attnviz.ui.text_page import show_text_page
from attnviz.views.heads import heads

show_text_page("heads", HeadsState, heads, lambda _state: ())
