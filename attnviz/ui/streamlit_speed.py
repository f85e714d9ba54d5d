"""Less work for Streamlit's server in every run of a page.

Streamlit 1.67 reads the state of all widgets when it draws one of them, and wakes its event loop three times for each
message to a browser, when it looks after the messages of all visitors. Both are half of a run at a hundred visitors.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from streamlit.runtime.app_session import AppSession
from streamlit.runtime.runtime import Runtime
from streamlit.runtime.scriptrunner import ScriptRunnerEvent
from streamlit.runtime.state.common import is_element_id
from streamlit.runtime.state.safe_session_state import SafeSessionState

DELAY = 0.015  # seconds for which messages of a page that runs are collected


class StateView(Mapping[str, Any]):
    """The values of a session by their keys, read one by one."""

    def __init__(self, state: SafeSessionState) -> None:
        self._state, self._lock = state._state, state._lock

    def __getitem__(self, key: str) -> Any:
        if is_element_id(key):
            raise KeyError(key)
        with self._lock:
            return self._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __repr__(self) -> str:
        return repr(self._values())

    def _values(self) -> dict[str, Any]:
        with self._lock:
            return self._state.filtered_state


class Outbox:
    """What the script of a session sends to the event loop, several messages at a time, in their order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def add(self, callback: Callable[[], None], *, at_once: bool) -> None:
        """Runs a callback in the event loop after those before it: at once, or when DELAY has passed."""
        with self._lock:
            self._waiting.append(callback)
            is_scheduled = len(self._waiting) > 1 and not at_once
        try:
            if at_once:
                self._loop.call_soon_threadsafe(self._deliver)
            elif not is_scheduled:
                self._loop.call_soon_threadsafe(self._loop.call_later, DELAY, self._deliver)
        except RuntimeError:
            if not self._loop.is_closed():  # when the server stops
                raise

    def _deliver(self) -> None:
        with self._lock:
            callbacks, self._waiting = self._waiting, []
        for callback in callbacks:
            self._loop.call_soon(callback)


def speed_up() -> None:
    """Replaces these parts of Streamlit; call it before the server starts."""
    SafeSessionState.filtered_state = property(StateView)  # type: ignore[assignment, method-assign]
    AppSession._on_scriptrunner_event = _on_event  # type: ignore[method-assign]
    Runtime._enqueued_some_message = _wake_up  # type: ignore[method-assign]


def _on_event(self: AppSession, sender: Any, event: ScriptRunnerEvent, *values: Any, **named: Any) -> None:
    outbox = self.__dict__.setdefault("_attnviz_outbox", None) or Outbox(self._event_loop)
    self.__dict__["_attnviz_outbox"] = outbox
    handle = partial(self._handle_scriptrunner_event_on_event_loop, sender, event, *values, **named)
    outbox.add(handle, at_once=event is not ScriptRunnerEvent.ENQUEUE_FORWARD_MSG)


def _wake_up(self: Runtime) -> None:
    loop, has_messages = (objects := self._get_async_objs()).eventloop, objects.need_send_data
    if has_messages.is_set():
        return
    if asyncio._get_running_loop() is loop:
        has_messages.set()
    else:
        loop.call_soon_threadsafe(has_messages.set)
