"""What the app uses of Streamlit that is not its interface, and what it replaces; no other module reaches into it.

Streamlit 1.67 reads the state of all widgets when it draws one of them, and wakes its event loop three times for each
message to a browser, when it looks after the messages of all visitors: a fifth of the work of a run. It deletes the
file of a download after two more runs of anybody's page. It refers to messages that a browser has said to have and may
delete before the reference arrives, which ends its connection. A fragment that asks for runs at an interval sends the
values of all widgets as its browser has them then, also those in whose place the script has set others. A function is
replaced only if its source text is the one that the replacement was written for.
"""

import asyncio
import dataclasses
import hashlib
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import streamlit
import streamlit.logger
from streamlit import runtime
from streamlit.config import set_option as set_option
from streamlit.elements.lib.column_types import ColumnConfig as ColumnConfig
from streamlit.proto.Block_pb2 import Block as Block
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Element_pb2 import Element as Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg as ForwardMsg
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.media_file_manager import MediaFileManager, MediaFileMetadata
from streamlit.runtime.runtime import Runtime
from streamlit.runtime.scriptrunner import ScriptRunContext, ScriptRunnerEvent, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.exceptions import ScriptControlException as ScriptControlException
from streamlit.runtime.scriptrunner_utils.exceptions import StopException as StopException
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests
from streamlit.runtime.state.common import is_element_id
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState, _is_internal_key
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed as is_host_allowed

# session_state: the link of a run, and how Streamlit reads its values, are parts of it.
CLIENT_FILES = Path(streamlit.__file__).parent / "static" / "static"  # served below /static
DELAY = 0.015  # seconds for which messages of a page that runs are collected
KEPT = 20.0  # seconds for which the file of a download can be fetched
LAST_RUNS = 10  # runs to whose messages a later one may refer: fewer than global.maxCachedMessageAge


def run_context() -> ScriptRunContext | None:
    """Returns the context of the run in this thread; None outside of runs."""
    return get_script_run_ctx(suppress_warning=True)


def query_string() -> str:
    """Returns the query of the link that this run was opened with; no text outside of runs."""
    context = run_context()
    return context.query_string if context else ""


def bound_keys() -> set[str]:
    """Returns the keys of the widgets whose values are in the link, those of pages that are not open among them."""
    context = run_context()
    if context is None:
        return set()
    state = context.session_state._state
    keys = state._key_id_mapper.id_key_mapping
    return {keys[widget] for widget in state._query_param_bound_widget_ids if widget in keys}


def linked_texts(key: str) -> list[str] | None:
    """Returns the values that the link had for a parameter when it was opened; None if it has none."""
    context = run_context()
    if context is None:
        return None
    with context.session_state.query_params() as parameters:
        linked = parameters.get_initial_value(key)
    return [linked] if isinstance(linked, str) else linked


def set_linked_texts(key: str, texts: Sequence[str]) -> None:
    """Sets the values of a parameter with which its widget begins."""
    if context := run_context():
        with context.session_state.query_params() as parameters:
            parameters._initial_query_params[key] = [*texts]


@contextmanager
def messages_to(receive: Callable[[ForwardMsg], None]) -> Iterator[None]:
    """Calls `receive` with each message that this run sends to its browser within the block."""
    context = run_context()
    if context is None:
        yield
        return
    send = context.enqueue

    def enqueue(message: ForwardMsg) -> None:
        receive(message)
        send(message)

    context.enqueue = enqueue  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del context.enqueue


def connected_sessions() -> int:
    """Returns the number of browsers that are connected."""
    return runtime.get_instance()._session_mgr.num_active_sessions() if runtime.exists() else 0


def has_gone(session: str) -> bool:
    """Returns whether the browser of a session has closed its connection."""
    return bool(session) and runtime.exists() and not runtime.get_instance().is_active_session(session)


def expire_sessions() -> int:
    """Deletes the sessions that have ended; returns the number of those that are left.

    Streamlit keeps a session for disconnectedSessionTTL, in case its browser comes back, and until the next ends.
    """
    sessions = runtime.get_instance()._session_mgr
    sessions._session_storage._cache.expire()  # type: ignore[attr-defined]
    return len(sessions.list_sessions())


def delete_unused_files() -> None:
    """Deletes the files of downloads and pictures that no session shows."""
    runtime.get_instance().media_file_mgr.remove_orphaned_files()


def set_up_loggers(set_up: Callable[[logging.Logger], None]) -> None:
    """Sets the function that sets up each later logger of Streamlit, in place of Streamlit's own handler."""
    streamlit.logger.setup_formatter = set_up  # type: ignore[assignment]


class StateView(Mapping[str, Any]):
    """The values of a session by their keys, read one by one."""

    def __init__(self, state: SafeSessionState) -> None:
        self._state, self._lock = state._state, state._lock

    def __getitem__(self, key: str) -> Any:
        if is_element_id(key) or _is_internal_key(key):
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
    """The messages from a session's script to the event loop, sent several at a time, in their order."""

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


class SentMessages:
    """The hashes of the messages of a session's last runs, which its browser still has when a reference arrives.

    A browser names the messages that it has when it asks for a run, and deletes the oldest when the run before ends.
    """

    def __init__(self) -> None:
        self._runs: deque[set[str]] = deque([set()], LAST_RUNS)

    def begin_run(self) -> None:
        """Begins a run: the messages of the earliest are forgotten."""
        self._runs.append(set())

    def add(self, message: ForwardMsg) -> None:
        """Adds a message of the current run, or a reference to it."""
        self._runs[-1].add(message.ref_hash or message.hash)

    def limit(self, client_state: ClientState) -> None:
        """Removes from the messages that a browser says to have those of earlier runs."""
        hashes = client_state.cached_message_hashes
        hashes[:] = [one for one in hashes if any(one in run for run in self._runs)]


def _sent_messages(session: AppSession) -> SentMessages:
    return session.__dict__.setdefault("_attnviz_sent", SentMessages())


_request_any_rerun = AppSession.request_rerun


def _request_rerun(self: AppSession, client_state: ClientState | None) -> None:
    if client_state:
        _sent_messages(self).limit(client_state)
    _request_any_rerun(self, client_state)


_request_any_script_rerun = ScriptRequests.request_rerun


def _request_script_rerun(self: ScriptRequests, new_data: RerunData) -> bool:
    if new_data.is_auto_rerun:  # what somebody changes has a request of its own
        new_data = dataclasses.replace(new_data, widget_states=None)
    return _request_any_script_rerun(self, new_data)


def _on_event(self: AppSession, sender: Any, event: ScriptRunnerEvent, *values: Any, **named: Any) -> None:
    outbox = self.__dict__.get("_attnviz_outbox") or self.__dict__.setdefault(
        "_attnviz_outbox", Outbox(self._event_loop)
    )
    handle = partial(_handle_event, self, sender, event, *values, **named)
    outbox.add(handle, at_once=event is not ScriptRunnerEvent.ENQUEUE_FORWARD_MSG or _has_chart(**named))


def _handle_event(self: AppSession, sender: Any, event: ScriptRunnerEvent, *values: Any, **named: Any) -> None:
    if event is ScriptRunnerEvent.SCRIPT_STARTED:
        _sent_messages(self).begin_run()
    elif event is ScriptRunnerEvent.ENQUEUE_FORWARD_MSG:
        _sent_messages(self).add(named["forward_msg"])
    self._handle_scriptrunner_event_on_event_loop(sender, event, *values, **named)


def _has_chart(forward_msg: ForwardMsg, **others: Any) -> bool:
    """Returns whether a message has a component, which takes the browser longer to draw than what follows it."""
    return bool(forward_msg.delta.new_element.HasField("bidi_component"))


def _wake_up(self: Runtime) -> None:
    loop, has_messages = (objects := self._get_async_objs()).eventloop, objects.need_send_data
    if has_messages.is_set():  # the loop clears it before it sends what is there
        return
    if asyncio._get_running_loop() is loop:
        has_messages.set()
    else:
        loop.call_soon_threadsafe(has_messages.set)


def _mark_for_delete(self: MediaFileMetadata) -> None:
    first = self.__dict__.setdefault("_attnviz_first_marked", time.monotonic())
    self._is_marked_for_delete = time.monotonic() >= first + KEPT


class Replacement(NamedTuple):
    """A function or property of a class, what replaces it, and the digests of all that the replacement relies on."""

    owner: type
    name: str
    value: Any
    relies_on: Mapping[Callable[..., Any], str]


def _getter(owner: type, name: str) -> Callable[..., Any]:
    return vars(owner)[name].fget


REPLACEMENTS = (
    Replacement(SafeSessionState, "filtered_state", property(StateView), {
        _getter(SafeSessionState, "filtered_state"): "d08f2da73ad67b5e",
        _getter(SessionState, "filtered_state"): "c9cebb3efcc6df9b",
        SessionState.__getitem__: "07d82ff981acb690",
    }),
    Replacement(AppSession, "_on_scriptrunner_event", _on_event, {
        AppSession._on_scriptrunner_event: "a622d57aa2bacdc2",
        AppSession._call_soon_on_event_loop: "565b1968d78c9283",
    }),
    Replacement(AppSession, "request_rerun", _request_rerun, {AppSession.request_rerun: "52f29d8973368c8b"}),
    Replacement(ScriptRequests, "request_rerun", _request_script_rerun, {
        ScriptRequests.request_rerun: "358d9fc2e184ef05",
        ScriptRequests._request_rerun_locked: "5bc72b1577cab5e1",
    }),
    Replacement(Runtime, "_enqueued_some_message", _wake_up, {
        Runtime._enqueued_some_message: "82ae537d91f146d1",
        Runtime._loop_coroutine: "f2bf0cf6b7bd78b7",
    }),
    Replacement(MediaFileMetadata, "mark_for_delete", _mark_for_delete, {
        MediaFileMetadata.mark_for_delete: "c1b7ad1cd843193d",
        _getter(MediaFileMetadata, "is_marked_for_delete"): "66bd15c8c16e9190",
        MediaFileManager.remove_orphaned_files: "d8ea79ea32ca9cb1",
    }),
)  # fmt: skip


def speed_up() -> list[str]:
    """Replaces these parts of Streamlit, and returns their names; call it before the server starts."""
    replaced = []
    for owner, name, value, relies_on in REPLACEMENTS:
        if all(digest(function) == known for function, known in relies_on.items()):
            setattr(owner, name, value)
            replaced.append(name)
    return replaced


def digest(function: Callable[..., Any]) -> str:
    """Returns a digest of the text of a function; none if there is no text."""
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return "none"
