"""The number of tokens, which buttons change while a text is being written."""

import time

from attnviz.pages.write.state import WriteState
from attnviz.ui.session_values import SessionValue
from attnviz.ui.widget_values import field_value, set_field_value

STALE = 5.0  # seconds in which a browser may still send the number of tokens from before a button was pressed
# The number of tokens before a button was pressed, the one after, and until when that holds.
_change = SessionValue("number of tokens that a button asked for", lambda: (0, 0, 0.0))


def change_length(before: int, after: int) -> None:
    """Gives the number of tokens another value, as a callback does. A request of the browser that is under way has the
    former value, and does not bring it back: while a text is written, its fragment requests runs all the time."""
    _change.set((before, after, time.monotonic() + STALE))
    set_field_value(WriteState.length, after)


def current_length() -> int | None:
    """Returns the number of tokens; None before its widget is drawn first."""
    before, after, until = _change.get()
    value: int | None = field_value(WriteState.length)
    return after if value == before and time.monotonic() < until else value


def keep_change() -> None:
    """Gives the widget the number of tokens that a button has set; call it before the state is read."""
    if (length := current_length()) is not None and length != field_value(WriteState.length):
        set_field_value(WriteState.length, length)
