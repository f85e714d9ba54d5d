"""What followers see of a page: its headings, sentences and pictures, and none of its controls."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.ui.classroom import teacher
from attnviz.ui.classroom.page_recorder import PageRecorder
from tests.support.app import open_page


def nodes(contents: bytes) -> Iterator[dict[str, Any]]:
    """All nodes of a page, depth first."""

    def below(children: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for node in children:
            yield node
            yield from below(node.get("children", []))

    return below(json.loads(gzip.decompress(contents)))


def recorded(script: Any) -> list[dict[str, Any]]:
    app = AppTest.from_function(script).run()
    assert not app.exception
    return list(nodes(app.session_state["contents"]))


def test_headings_and_sentences_are_recorded_and_controls_are_not() -> None:
    def script() -> None:
        import streamlit as st

        from attnviz.ui.classroom.page_recorder import PageRecorder, recording

        with recording(recorder := PageRecorder()):
            st.header("A *head*")
            st.text_input("Text")
            st.button("Press")
            with st.expander("More"):
                st.html("<p>folded</p>")
            with st.container(key="lesson-strip"), st.expander("Lesson"):
                st.html("<p>verdict</p>")
                st.container(key="lesson-texts").html("<p>the question</p>")
            left, right = st.columns([0.25, 0.75])
            right.html("<p>right</p>")
            left.markdown("left \\*")
            st.sidebar.html("<p>aside</p>")
        st.html("<p>after</p>")
        st.session_state["contents"] = recorder.contents()

    drawn = recorded(script)
    assert [node.get("text") or node.get("body") for node in drawn if not node.get("children")] == [
        "A head",
        "<p>the question</p>",
        "left *",
        "<p>right</p>",
    ]
    assert [node["weight"] for node in drawn if node["kind"] == "column"] == [0.25, 0.75]


def test_what_is_drawn_again_at_a_place_is_recorded_once() -> None:
    def script() -> None:
        import streamlit as st

        from attnviz.ui.classroom.page_recorder import PageRecorder, recording

        with recording(recorder := PageRecorder()):
            place = st.empty()
            with place.container():
                st.html("<p>one</p>")
                st.html("<p>two</p>")
            place.html("<p>three</p>")
        st.session_state["contents"] = recorder.contents()

    assert [node["body"] for node in recorded(script)] == ["<p>three</p>"]


@pytest.mark.parametrize(
    ("page", "charts"), [("explore", {"heatmap", "heads"}), ("masks", {"map-a", "map-b", "change"})]
)
def test_a_page_is_recorded_with_its_charts(page: str, charts: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    contents: list[bytes] = []

    class Live:
        def publish(self, link: str, title: str, picture: bytes) -> None:
            contents.append(picture)

    monkeypatch.setattr(teacher, "taught_class", Live)
    monkeypatch.setattr(teacher, "_show_panel", lambda live: None)
    app = open_page(page)
    assert not app.exception
    drawn = list(nodes(contents[-1]))
    assert charts <= {node["key"] for node in drawn if node["kind"] == "component"}
    assert any(node["kind"] == "heading" for node in drawn)
    assert gzip.decompress(PageRecorder().contents()) == b"[]"
