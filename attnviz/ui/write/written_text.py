"""The text with the attention of each written token, as it is written; drawn by the browser code that begins in
streamlit.js."""

import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from attnviz.base.formatting import visible
from attnviz.chart import pack
from attnviz.figures.sentences import label
from attnviz.models.earlier_messages import MOST_MESSAGES
from attnviz.models.token_choices import TokenChoice
from attnviz.models.written_text import Ending, WrittenText
from attnviz.pages.write.blocks import WrittenRows, role_labels, written_content
from attnviz.pages.write.state import MOST_BRANCHES, WriteState, format_branches
from attnviz.ui.fragments import draw_repeatedly
from attnviz.ui.markdown import plain
from attnviz.ui.server import jobs, scheduling, scripts
from attnviz.ui.session_values import SessionValue, event_callback
from attnviz.ui.why_links import cell_links, word_links
from attnviz.ui.widget_values import field_value, set_field_value
from attnviz.ui.write import writing_job

KEY = "written-text"
EVERY = 0.15  # seconds between two looks at what has been written
MORE = 24  # tokens
LOST = 3.0  # seconds after which what was sent is in the browser, or will not come: Streamlit sends only the latest
# Under the name of the text, when how many written tokens were sent.
_sent = SessionValue[tuple[str, tuple[tuple[float, int], ...]]]("written tokens in the browser", lambda: ("", ()))


def draw_written_text(state: WriteState) -> None:
    """Draws the text of a state, and while it is being written draws what there is of it again and again."""
    if state.text.ending:
        with st.container():  # as that of a fragment, so that the browser keeps the element, and what is typed there
            _show(state)
        return
    _sent.set(("", ()))  # the browser may have lost what an earlier run has sent
    source = state.source
    draw_repeatedly(_follow, EVERY, state, writing_job.request(source.write, "written text", source))


def _follow(opened: WriteState, job: jobs.Job[WrittenText]) -> None:
    """Draws what has been written meanwhile; reruns the page when no more is written."""
    job.look(scheduling.session())
    text = job.latest
    if text is None or job.is_over or field_value(WriteState.length) != opened.length:
        st.rerun()
    if job.place:
        st.caption(scheduling.line_sentence(job.place))
    _show(opened.with_text(text))


def _show(state: WriteState) -> None:
    """Draws the text with the steps and the rows that the browser does not have yet. The root element has data-tokens,
    the number of tokens, and data-ready="true" when no more are written."""
    source, text, rows = state.source, state.text, WrittenRows(state.text, state.selection)
    name = f"{source!r} {state.layer} {state.head}"
    start = 0 if text.ending else _first_unknown(name, len(text.steps))
    goes_on = text.ending == Ending.COUNT and source.tokens < WriteState.length.most
    content = written_content(state, start) | {
        "stamp": zlib.crc32(name.encode()),
        "growth": _growth(rows, rows.first + start),
        "branches": format_branches(state.branches),
        "mostBranches": MOST_BRANCHES,
        "longer": _longer(source.tokens) if goes_on else 0,
        "chat": source.is_chat,
        "earlier": len(source.earlier),
        "why": word_links(state.why_text, text),
        "looks": cell_links(state.score_links),
        "pinned": state.values.get("pinned"),
    }
    events = {
        f"on_{event}_change": event_callback(KEY, event, _of_text(content["stamp"], act))
        for event, act in _actions(state).items()
    }
    scripts.mount("ui/write")(key=KEY, data=pack(content, half=True), **events)


def _first_unknown(name: str, tokens: int) -> int:
    """Returns the number of the first written token that the browser may not have, and notes that so many are sent."""
    sent_name, sent = _sent.get()
    now, sent = time.monotonic(), sent if sent_name == name else ()
    known = max((each for each in sent if each[0] < now - LOST), default=(0.0, 0))
    _sent.set((name, (known, *(each for each in sent if each > known), (now, tokens))))
    return known[1]


def _of_text(stamp: int, act: Callable[[Mapping[str, Any]], None]) -> Callable[[Mapping[str, Any]], None]:
    """Returns the function of an event that does nothing if the browser shows another text or head."""
    return lambda event: act(event) if event["stamp"] == stamp else None


def _actions(state: WriteState) -> dict[str, Callable[[Mapping[str, Any]], None]]:
    """Returns what the events of the browser do: a button stops the text or lets it go on, a click on a written token
    pins its row, a word is put in the place of a written one, and in a chat a message is answered, or it begins
    again."""
    source, text = state.source, state.text

    def write_word(event: Mapping[str, Any]) -> None:
        position = int(event["position"])
        try:
            ids = tuple(source.model().text_inputs.word_ids(str(event["text"])))
        except ValueError as problem:  # the translator does not know every word
            st.toast(plain(str(problem)), icon=":material/error:")
            return
        if ids:
            before = [one for one in source.choices if one.position < position]
            set_field_value(WriteState.choices, (*before, TokenChoice(position, ids)))
            known = tuple(dict.fromkeys(one for one in (*state.branches, source.choices) if one))
            set_field_value(WriteState.branches, known[-MOST_BRANCHES:])
            if (end := position + len(ids)) >= source.tokens:
                set_field_value(WriteState.length, _longer(end))

    def write_after(earlier: tuple[str, ...], message: str) -> None:
        set_field_value(WriteState.earlier, earlier[-MOST_MESSAGES:])
        set_field_value(WriteState.prompt, message)

    def reply(event: Mapping[str, Any]) -> None:
        message = str(event["text"])
        if message.strip() and text.ending:
            write_after((*source.earlier, source.prompt, text.answer), message)

    return {
        "length": lambda event: set_field_value(
            WriteState.length, len(text.steps) if event["stop"] else _longer(source.tokens)
        ),
        "pin": lambda event: set_field_value(WriteState.pinned, event["row"], state),
        "word": write_word,
        "reply": reply,
        "restart": lambda _event: write_after((), (*source.earlier, source.prompt)[0]),
    }


def _longer(tokens: int) -> int:
    return int(min(WriteState.length.most, tokens + MORE))


def _growth(rows: WrittenRows, first: int) -> dict[str, Any]:
    """Returns the first of some rows of the map, and their names."""
    inputs = rows.selection.inputs
    keys = () if rows.selection.layer.id.cross else inputs.key_tokens[first:]
    queries = inputs.query_tokens[first:]
    return {
        "first": first,
        "queryTokens": [*map(visible, queries)],
        "queryLabels": role_labels([*map(label, queries)], rows.text, rows.query_offset + first),
        "keyTokens": [*map(visible, keys)],
        "keyLabels": role_labels([*map(label, keys)], rows.text, rows.key_offset + first),
    }
