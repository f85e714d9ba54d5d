"""The pages in German: every word of theirs, and links that cross languages."""

import json
import re
from collections.abc import Iterator

import pytest
from google.protobuf.message import Message
from streamlit.testing.v1 import AppTest

from attnviz.base.language import language, option_name
from docs.tools.translations import all_strings, read
from tests.support.app import contents, healthy, linked, open_page

CODES = {
    "id",
    "key",
    "url",
    "icon",
    "form_id",
    "element_id",
    "user_key",
    "query_param_key",
    "block_id",
    "value",
    "html_content",  # of a component; its script translates it
    "default",
}
TABS = {
    "masks": ("look", ["Gallery", "For engineers"]),
    "heads": ("inspect", ["This text", "Repeated tokens", "Many texts"]),
    "why": ("inspect", ["This text", "Many texts"]),
    "transformer": ("tab", ["Three uses", "How attention forms", "Forward pass"]),
    "steps": ("part", ["Why scale", "Predict"]),
    "scores": ("look", ["Normalizers", "Similarities"]),
}
PAGES = [
    ("start", {}),
    ("explore", {}),
    ("explore", {"source": "Toy"}),
    ("explore", {"source": "Upload"}),
    ("lookup", {}),
]
PAGES += [("lookup", {"softness": "hard", "gradients": "true"}), ("steps", {"attention": "Translator"})]
PAGES += [("side_by_side", {}), ("side_by_side", {"right-text": "The animal slept.", "right-layer": "encoder 5"})]
PAGES += [("heads", {"inspect": "Hidden fact", "words": "60"})]
PAGES += [("explore", {"special-tokens": "Hidden", "predict": "true", "head": "Mean of heads"})]
PAGES += [(page, {key: tab}) for page, (key, tabs) in TABS.items() for tab in tabs]


def german(name: str, **link: str) -> AppTest:
    return healthy(open_page(name, lang="de", **link))


def texts(message: Message) -> Iterator[str]:
    """All texts of an element that go to the browser, also those in the header of a chart."""
    for field, value in message.ListFields():
        values = value if isinstance(value, list) or hasattr(value, "append") else [value]
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for one in values:
                yield from texts(one)
        elif field.type == field.TYPE_STRING and field.name == "columns":  # of a table: JSON, keys are not shown
            for one in values:
                yield from json_texts(json.loads(one or "{}"))
        elif field.type == field.TYPE_STRING and field.name not in CODES:
            yield from values
        elif field.type == field.TYPE_BYTES and len(value) > 8:
            header = bytes(value)[8 : 8 + int.from_bytes(bytes(value)[:8], "little")]
            if header.startswith(b"{"):
                yield from json_texts(json.loads(header))


def json_texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in ("themes", "mode", "kind"):
                yield from json_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from json_texts(one)
    elif isinstance(value, str):
        yield value


def elements(block: object) -> Iterator[Message]:
    for child in getattr(block, "children", {}).values():
        if isinstance(getattr(child, "proto", None), Message):
            yield child.proto
        yield from elements(child)


def sentences() -> dict[str, str]:
    """The English messages of several words that are others in German, without the values that are put into them."""
    pieces = {}
    for message in filter(lambda message: all_strings(message.string), read("de")):
        for source in [message.id] if isinstance(message.id, str) else message.id:
            longest = max(re.split(r"\{[^}]*\}|#|\n", source), key=len, default="").strip()
            if longest.count(" ") >= 2 and longest not in str(message.string):
                pieces[longest] = source
    return pieces


@pytest.mark.parametrize(
    ("name", "link"), PAGES, ids=[f"{name} {' '.join(link.values())}".strip() for name, link in PAGES]
)
def test_no_sentence_is_english_on_a_german_page(name: str, link: dict[str, str]) -> None:
    app = german(name, **link)
    shown = "\n".join(text.replace("\\", "") for element in elements(app._tree) for text in texts(element))
    assert [piece for piece in sentences() if piece in shown] == []


def test_the_link_chooses_the_language_and_keeps_it() -> None:
    assert "Worauf schaut jedes Token" in contents(german("explore"))
    assert "What does each token look at" in contents(open_page("explore", lang="en"))
    assert linked(german("explore"), "lang") == ["de"]


def test_an_unknown_language_is_english_and_is_named() -> None:
    app = healthy(open_page("explore", lang="xx"))
    assert "What does each token look at" in contents(app)
    assert "xx" in " ".join(toast.value for toast in app.toast)


@pytest.mark.parametrize("code", ["de", "en"])
@pytest.mark.parametrize("written", ["de", "en"])
def test_a_link_opens_the_same_state_in_every_language(code: str, written: str) -> None:
    state = {"mask": "Sliding window", "head": "Head 3", "normalizer": "Sparsemax", "special-tokens": "Hidden"}
    app = healthy(open_page("explore", lang=code, **{key: option_name(value, written) for key, value in state.items()}))
    assert {key: app.selectbox(key=key).value for key in state} == state
    assert not app.toast


@pytest.mark.parametrize("written", ["de", "en"])
def test_tabs_and_several_choices_open_in_every_language(written: str) -> None:
    app = german("masks", look=option_name("For engineers", written), part=option_name("Cost", written))
    assert "FLOPs der berechneten Blöcke" in contents(app)
    app = german("explore", biases=[option_name("T5 buckets", written), "ALiBi"])  # type: ignore[arg-type]
    assert app.multiselect(key="biases").value == ["T5 buckets", "ALiBi"]
    assert not app.toast


def test_text_of_a_person_is_no_message() -> None:
    """A text that is also a word of the interface stays as it is typed."""
    app = german("explore", text="Mean {key} Hidden")
    assert app.text_input(key="text").value == "Mean {key} Hidden"


def test_the_language_of_a_thread_ends_with_its_block() -> None:
    with language("de"):
        assert option_name("Head 1") == "Kopf 1"
    assert option_name("Head 1") == "Head 1"
