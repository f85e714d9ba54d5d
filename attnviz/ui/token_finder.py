"""The search of a long text, which moves the viewport from match to match."""

from collections.abc import Callable

import streamlit as st

from attnviz.formatting import grouped, numbered_tokens, quoted
from attnviz.inputs import MapAxes
from attnviz.language import _, plural
from attnviz.state.explore import ExploreState
from attnviz.state.long_map_state import LongMapState
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import SessionValue, write_widget
from attnviz.ui.widget_values import field_text
from attnviz.views.long_map_blocks import matches

KEY = LongMapState.find.parameter
LONGEST_PHRASE = 100  # characters of a phrase
_LAST = SessionValue("find at", lambda: -1)  # the position of the match that was last gone to


def show(inputs: MapAxes, on_match: Callable[[int | None, int | None], None]) -> None:
    """Draws the field and says how many matches there are. At a match `on_match` is called with the position of its
    query and of its key, None where the match is not among them; a query is pinned."""

    def go_on() -> None:
        queries, keys = matches(inputs, field_text(LongMapState.find))
        if positions := queries or keys:
            last = _LAST.get()
            position = next((one for one in positions if one > last), positions[0])
            _LAST.set(position)
            if queries:
                query = numbered_tokens([position], [inputs.query_tokens[position]])[0]
                write_widget(ExploreState.pinned.parameter, query)
            on_match(position if queries else None, position if keys else None)

    def start() -> None:
        _LAST.set(-1)
        go_on()

    phrase = draw(LongMapState.find, max_chars=LONGEST_PHRASE, placeholder=_("a word or a phrase"), on_change=start)
    if not phrase.strip():
        return
    queries, keys = matches(inputs, phrase)
    positions = queries or keys
    if not positions:
        st.caption(plain(_("{phrase} is not in this text.", phrase=quoted(phrase))))
        return
    count, last = len(positions), _LAST.get()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(_("Next"), key="find-next", icon=":material/arrow_downward:", on_click=go_on)
        text = plural("{count} match", "{count} matches", count, count=grouped(count))
        st.caption(
            _("Match {index} of {count}", index=grouped(positions.index(last) + 1), count=grouped(count))
            if last in positions
            else text
        )
