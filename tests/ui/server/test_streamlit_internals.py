"""What replaces parts of Streamlit does what they did."""

import asyncio
import random
import threading
from types import SimpleNamespace

import pytest
from streamlit import config
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.media_file_manager import MediaFileMetadata
from streamlit.testing.v1 import AppTest

from attnviz.ui.server import streamlit_internals
from attnviz.ui.server.streamlit_internals import (
    REPLACEMENTS,
    ForwardMsg,
    Outbox,
    Replacement,
    ScriptRunnerEvent,
    digest,
)
from tests.support.waiting import run_in_thread


@pytest.mark.parametrize("one", REPLACEMENTS, ids=lambda one: one.name)
def test_streamlit_is_the_one_that_the_replacement_was_written_for(one):
    found = {function.__qualname__: digest(function) for function in one.relies_on}
    assert found == {function.__qualname__: known for function, known in one.relies_on.items()}


def test_another_streamlit_is_left_as_it_is(monkeypatch):
    class Other:
        def send(self) -> str:
            return "its own"

    one = Replacement(Other, "send", lambda self: "another", {Other.send: "the digest of an older one"})
    monkeypatch.setattr(streamlit_internals, "REPLACEMENTS", (one, one._replace(name="none", relies_on={len: "?"})))
    assert streamlit_internals.speed_up() == []
    assert Other().send() == "its own"


def _page() -> None:
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    from attnviz.ui.server.streamlit_internals import StateView

    def compare() -> None:
        state = get_script_run_ctx().session_state
        view, whole = StateView(state), state._state.filtered_state
        assert dict(view) == whole == {key: view[key] for key in view}, (dict(view), whole)
        assert len(view) == len(whole)
        assert repr(view) == repr(whole)
        ids = {*state._state._keys()} - {*whole}
        assert not any(key in view for key in (*ids, "never there", "$$STREAMLIT_INTERNAL_KEY_x"))

    compare()
    st.session_state["mine"] = st.session_state.get("mine", 0) + 1
    st.session_state.setdefault("text", "first")
    compare()
    shown = st.checkbox("More", key="more")
    compare()
    st.text_input("Text", key="text")
    st.slider("Without a key", 0, 9)
    if shown:
        st.selectbox("Choice", ["a", "b"], key="choice")
        st.number_input("Number", key="number", value=None)
    compare()
    if st.button("Forget", key="forget"):
        del st.session_state["mine"]
    compare()


def test_the_view_of_the_state_has_what_streamlits_own_has():
    page = AppTest.from_function(_page).run()
    page.checkbox[0].check().run()
    page.selectbox[0].select("b").run()
    page.number_input[0].set_value(3.0).run()
    page.slider[0].set_value(4).run()
    page.text_input[0].set_value("last").run()
    page.button[0].click().run()
    page.checkbox[0].uncheck().run()
    assert not page.exception
    assert page.session_state["text"] == "last"


def test_messages_keep_their_order_and_none_is_lost():
    delivered: list[tuple[int, int]] = []

    def send(outbox: Outbox, thread: int) -> None:
        chance = random.Random(thread)
        for number in range(500):
            outbox.add(lambda n=number: delivered.append((thread, n)), at_once=chance.random() < 0.1)

    async def receive() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        threads = [threading.Thread(target=send, args=(outbox, thread)) for thread in range(4)]
        for thread in threads:
            thread.start()
        while len(delivered) < 2000:
            await asyncio.sleep(0)
        await asyncio.to_thread(threads[-1].join)

    run_in_thread(asyncio.wait_for(receive(), 60))
    assert sorted(delivered) == [(thread, number) for thread in range(4) for number in range(500)]
    for thread in range(4):
        numbers = [number for one, number in delivered if one == thread]
        assert numbers == sorted(numbers)


def test_an_event_is_delivered_at_once_after_the_messages_before_it(monkeypatch):
    monkeypatch.setattr(streamlit_internals, "DELAY", 3600.0)

    async def deliver() -> list[str]:
        outbox, delivered, is_over = Outbox(asyncio.get_running_loop()), [], asyncio.Event()
        outbox.add(lambda: delivered.append("message"), at_once=False)
        outbox.add(lambda: delivered.append("message 2"), at_once=False)
        outbox.add(lambda: (delivered.append("end"), is_over.set()), at_once=True)
        await asyncio.wait_for(is_over.wait(), 60)
        outbox.add(lambda: delivered.append("too early"), at_once=False)
        await asyncio.sleep(0)
        return delivered

    assert run_in_thread(deliver()) == ["message", "message 2", "end"]


class BrowserCache:
    """The messages that a browser keeps, as Streamlit's client does: those used in its last runs."""

    def __init__(self, oldest: int) -> None:
        self.oldest, self.run, self.last_use = oldest, 0, {}

    def receive(self, message: ForwardMsg) -> None:
        if message.ref_hash:
            assert message.ref_hash in self.last_use, "Cached ForwardMsg MISS"
        self.last_use[message.ref_hash or message.hash] = self.run

    def end_run(self) -> None:
        self.run += 1
        self.last_use = {one: run for one, run in self.last_use.items() if self.run - run <= self.oldest}


@pytest.mark.parametrize("seed", range(20))
def test_a_browser_has_each_message_that_the_server_refers_to(monkeypatch, seed):
    """What a browser has when it asks for a run may be deleted when the run before ends."""
    known = frozenset()

    def request(session, state):
        nonlocal known
        known = frozenset(state.cached_message_hashes)

    monkeypatch.setattr(streamlit_internals, "_request_any_rerun", request)
    handled = SimpleNamespace(_handle_scriptrunner_event_on_event_loop=lambda *_, **named: None)
    oldest = config.get_option("global.maxCachedMessageAge")
    chance, browser, references = random.Random(seed), BrowserCache(oldest), 0
    unread = []  # what the server has sent and the browser not yet received
    for _ in range(500):
        state = ClientState(cached_message_hashes=[*browser.last_use])
        while len(unread) > chance.randrange(3):  # the ends of some runs arrive after the next was asked for
            for message in unread.pop(0):
                browser.receive(message)
            browser.end_run()
        streamlit_internals._request_rerun(handled, state)
        streamlit_internals._handle_event(handled, None, ScriptRunnerEvent.SCRIPT_STARTED)
        run = []
        for name in {f"{min(int(chance.expovariate(0.2)), 60)}" for _ in range(4)}:
            run.append(ForwardMsg(ref_hash=name) if name in known else ForwardMsg(hash=name))
            references += name in known
            streamlit_internals._handle_event(handled, None, ScriptRunnerEvent.ENQUEUE_FORWARD_MSG, forward_msg=run[-1])
        unread.append(run)
    assert references > 100


def test_a_chart_is_delivered_at_once(monkeypatch):
    monkeypatch.setattr(streamlit_internals, "DELAY", 3600.0)
    button, figure = ForwardMsg(), ForwardMsg()
    button.delta.new_element.button.label = "Download"
    figure.delta.new_element.bidi_component.component_name = "chart"

    async def deliver() -> list[ForwardMsg]:
        delivered, is_over = [], asyncio.Event()

        class Session:
            _event_loop = asyncio.get_running_loop()

            def _handle_scriptrunner_event_on_event_loop(self, sender, event, forward_msg):
                delivered.append(forward_msg)
                if forward_msg is figure:
                    is_over.set()

        session = Session()
        for message in (button, figure, button):
            streamlit_internals._on_event(session, None, ScriptRunnerEvent.ENQUEUE_FORWARD_MSG, forward_msg=message)
        await asyncio.wait_for(is_over.wait(), 60)
        return delivered

    assert run_in_thread(deliver())[:2] == [button, figure]


def test_a_message_after_the_server_has_stopped_is_dropped():
    loop = asyncio.new_event_loop()
    loop.close()
    outbox = Outbox(loop)
    outbox.add(lambda: None, at_once=False)
    outbox.add(lambda: None, at_once=True)


def test_the_server_is_woken_once_for_all_messages_that_wait():
    woken = []

    class Event(asyncio.Event):
        def set(self) -> None:
            woken.append(threading.get_ident())
            super().set()

    async def wake() -> int:
        event = Event()
        runtime = SimpleNamespace(
            _get_async_objs=lambda: SimpleNamespace(eventloop=asyncio.get_running_loop(), need_send_data=event)
        )
        for _ in range(3):
            streamlit_internals._wake_up(runtime)
        assert len(woken) == 1
        event.clear()
        loop, waker = asyncio.get_running_loop(), threading.Thread(target=lambda: streamlit_internals._wake_up(other))
        other = SimpleNamespace(_get_async_objs=lambda: SimpleNamespace(eventloop=loop, need_send_data=event))
        waker.start()
        await asyncio.wait_for(event.wait(), 60)
        return threading.get_ident()

    own = run_in_thread(wake())
    assert woken == [own] * 2


def test_the_file_of_a_download_stays_for_a_while(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(streamlit_internals.time, "monotonic", lambda: now[0])
    file = MediaFileMetadata()
    streamlit_internals._mark_for_delete(file)
    now[0] += streamlit_internals.KEPT - 1
    streamlit_internals._mark_for_delete(file)
    assert not file.is_marked_for_delete
    now[0] += 1
    streamlit_internals._mark_for_delete(file)
    assert file.is_marked_for_delete


def test_outside_of_a_run_there_is_no_link_and_no_session():
    assert streamlit_internals.query_string() == ""
    assert streamlit_internals.linked_texts("head") is None
    assert streamlit_internals.connected_sessions() == 0
    received = []
    with streamlit_internals.messages_to(received.append):
        streamlit_internals.set_linked_texts("head", ["Head 1"])
    assert received == []
