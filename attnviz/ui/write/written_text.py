"""The text with the attention of each written token, as it is written; drawn by the browser code that begins in
streamlit.js."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

from attnviz.chart import pack
from attnviz.figures.chart_spec import CellLinks
from attnviz.figures.sentences import label
from attnviz.formatting import visible
from attnviz.models.token_choices import format_choices
from attnviz.models.written_text import Ending
from attnviz.server import scripts
from attnviz.sources.written import Written
from attnviz.state.write import MOST_BRANCHES, Branch, format_branches
from attnviz.ui.session_values import event_callback
from attnviz.views.write import WrittenRows, role_labels, written_content

KEY = "written-text"


def show(
    rows: WrittenRows,
    name: str,
    *,
    start: int,
    pinned: int | None,
    source: Written,
    branches: tuple[Branch, ...],
    longer: int,
    tree: list[dict[str, Any]],
    why: dict[str, Any] | None,
    looks: CellLinks | None,
    on_length: Callable[[bool], None],
    on_pin: Callable[[int | None], None],
    on_word: Callable[[int, str], None],
    on_reply: Callable[[str], None],
    on_restart: Callable[[], None],
) -> None:
    """Draws the text, which has this name while it is written, with the steps and the rows from the written token of
    number `start` on; the browser has those before.

    `longer` is the number of tokens if the model goes on, 0 if it cannot, `tree` has the branches, and `why` and
    `looks` have links to Why about words and weights. A button calls
    `on_length` with whether the model is to stop or to go on; a click on a written token calls `on_pin` with its row of
    the map, or None; and `on_word` is called with the position and the text of a word that is typed in its place. In a
    chat `on_reply` is called with the user's next message, and `on_restart` if the chat is to begin again. The root
    element has data-tokens, the number of tokens, and data-ready="true" when no more are written.
    """
    text = rows.text
    stamp = zlib.crc32(name.encode())
    first = text.prompt_length - 1 - rows.query_offset + start

    def pin(event: Mapping[str, Any]) -> None:
        if event["stamp"] == stamp:
            on_pin(None if event["row"] is None else int(event["row"]))

    def length(event: Mapping[str, Any]) -> None:
        if event["stamp"] == stamp:
            on_length(bool(event["stop"]))

    def word(event: Mapping[str, Any]) -> None:
        if event["stamp"] == stamp:
            on_word(int(event["position"]), str(event["text"]))

    def reply(event: Mapping[str, Any]) -> None:
        if event["stamp"] == stamp:
            on_reply(str(event["text"]))

    def restart(event: Mapping[str, Any]) -> None:
        if event["stamp"] == stamp:
            on_restart()

    scripts.mount("ui/write")(
        key=KEY,
        data=pack(
            written_content(text, start)
            | {
                "stamp": stamp,
                "queryOffset": rows.query_offset,
                "keyOffset": rows.key_offset,
                "start": start,
                "rows": rows.weights(first),
                "growth": _growth(rows, first),
                "choices": format_choices(source.choices),
                "branches": format_branches(branches),
                "mostBranches": MOST_BRANCHES,
                "running": text.ending == Ending.NONE,
                "longer": longer,
                "chat": source.is_chat,
                "earlier": len(source.earlier),
                "tree": tree,
                "why": why,
                "looks": looks,
                "pinned": pinned,
                "heads": not isinstance(rows.selection.head, int),
            },
            half=True,
        ),
        on_length_change=event_callback(KEY, "length", length),
        on_pin_change=event_callback(KEY, "pin", pin),
        on_word_change=event_callback(KEY, "word", word),
        on_reply_change=event_callback(KEY, "reply", reply),
        on_restart_change=event_callback(KEY, "restart", restart),
    )


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
