"""Values that a session keeps from run to run, and the values of widgets by their keys."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import streamlit as st

from attnviz.page.result_cache import run_results

# session_state: other modules have values by their names from here alone.
T = TypeVar("T")


class SessionValue(Generic[T]):
    """A value that each session has for itself, under a name that no widget has; `make` returns the one it begins with.

    Example:
        count = SessionValue("clicks", int)
        count.set(count.get() + 1)
    """

    def __init__(self, name: str, make: Callable[[], T]) -> None:
        self.name, self._make = name, make

    def get(self) -> T:
        """Returns the value."""
        if self.name not in st.session_state:
            self.set(self._make())
        value: T = st.session_state[self.name]
        return value

    def set(self, value: T) -> None:
        """Sets the value."""
        st.session_state[self.name] = value

    def pop(self) -> T:
        """Returns the value, and begins again."""
        value = self.get()
        del st.session_state[self.name]
        return value


def has_widget(key: str) -> bool:
    """Returns whether the session has a value of a widget."""
    return key in st.session_state


def read_widget(key: str, default: Any = None) -> Any:
    """Returns the value of a widget; `default` if the session has none."""
    return st.session_state.get(key, default)


def write_widget(key: str, value: object) -> None:
    """Sets the value of a widget; call it before the widget is drawn in a run, as a callback does."""
    st.session_state[key] = value


def widget_callback(key: str, act: Callable[[Any], object]) -> Callable[[], None]:
    """Returns a callback that calls `act` with the value of a widget. It calls nothing if a link in place has left the
    page at the same time: the session then has no value of the widget."""

    def call() -> None:
        if (value := read_widget(key)) is not None:
            with run_results():  # those of the page's run begin after the callback
                act(value)

    return call


def event_callback(key: str, event: str, act: Callable[[Any], object]) -> Callable[[], None]:
    """Returns a callback that calls `act` with the value of a component's event, as `widget_callback` does."""
    return widget_callback(key, lambda values: act(values[event]))
