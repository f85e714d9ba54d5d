"""The Write page takes any link, and shows what is wrong in a sentence."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.models.written_text import Ending
from attnviz.pages.write.state import CHAT_TOKENS
from attnviz.sources.written import Written
from attnviz.ui.write import writing_job
from tests.support.app import errors, ok, open_page
from tests.support.tiny_models import add_chat_template
from tests.support.waiting import until


@pytest.mark.parametrize(
    "link",
    [
        {"choices": "x"},
        {"branches": "x~y"},
        {"choices": "3.1-2.1"},
        {"length": "0"},
        {"chat": "true", "earlier": '["a"]', "length": "2"},
        {"earlier": "x"},
    ],
    ids=str,
)
def test_what_a_link_does_not_have_is_left_out(link: dict[str, str]) -> None:
    app = ok(open_page("write", **link))
    assert not errors(app)
    assert app.get("bidi_component")


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"writer": "/nowhere"}, "/nowhere"),
        ({"writer": "sentence-transformers/all-MiniLM-L6-v2"}, "does not write"),
        ({"prompt": " "}, "There is no text yet"),
        ({"choices": "0.4999999"}, "there is no token 4999999"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_said(link: dict[str, str], sentence: str) -> None:
    app = open_page("write", **link)
    assert not app.exception
    assert sentence in errors(app)


def sent(app: AppTest) -> dict[str, Any]:
    """What the page has sent to the browser for the text."""
    packed = (component.proto.bytes for component in app.get("bidi_component"))
    headers = [json.loads(one[8 : 8 + int.from_bytes(one[:8], "little")]) for one in packed]
    [text] = [header for header in headers if "steps" in header]
    return text


def written(**link: object) -> dict[str, Any]:
    """The text of a page, when it has been written."""
    app = ok(open_page("write", **link))
    until(lambda: not sent(ok(app.run()))["running"])
    return sent(app)


def test_tokens_are_drawn_by_the_seed_of_the_link(saved) -> None:
    def tokens(**link: object) -> list[str]:
        return written(writer=saved / "llama", prompt="the cat sat", length=8, **link)["tokens"]

    drawn = {"next_token": "At random", "write_temperature": 2}
    texts = [tokens(**drawn, write_seed=seed) for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0] != tokens() == tokens(**drawn, top_k=1) == tokens(write_seed=3)


def test_a_chat_of_a_link_has_its_earlier_messages(copied) -> None:
    link = {"writer": add_chat_template(copied("llama")), "prompt": "the fox", "earlier": '["a dog","the lazy dog"]'}
    text = written(**link, chat="true", length=2)
    said = "".join(text["tokens"][: text["prompt"]])
    assert said.endswith("user: a dog; assistant: the lazy dog; user: the fox; assistant:")
    assert [text["chat"], text["earlier"], len(text["roles"])] == [True, 2, len(text["tokens"])]
    alone = written(**link, length=2)
    assert (alone["chat"], alone["earlier"], alone["roles"]) == (False, 0, [])
    assert "dog" not in "".join(alone["tokens"])


def test_an_answer_in_a_chat_may_be_longer_than_a_text(copied) -> None:
    folder = add_chat_template(copied("llama"))
    for chat, length in (("true", CHAT_TOKENS), ("false", Written.tokens)):
        app = ok(open_page("write", writer=folder, prompt="the fox", chat=chat))
        assert app.number_input(key="length").value == length
        app.toggle(key="chat").set_value(chat == "false").run()
        assert app.number_input(key="length").value == (Written.tokens if chat == "true" else CHAT_TOKENS)


def test_each_run_of_the_page_sends_all_that_has_been_written(saved, monkeypatch) -> None:
    source = Written("the cat sat", str(saved / "llama"), tokens=4)
    text = replace(source.write(), ending=Ending.NONE)
    job = SimpleNamespace(look=lambda _session: None, first=lambda: text, latest=text, is_over=False, place=0)
    monkeypatch.setattr(writing_job, "request", lambda *_key: job)
    app = ok(open_page("write", writer=source.name, prompt=source.prompt, length=4))
    for run in (app, app.run()):  # the browser may have lost what the first one has sent
        assert sent(run)["start"] == 0
        assert [step["id"] for step in sent(run)["steps"]] == [step.token_id for step in text.steps]


def test_another_text_has_its_own_length_choices_and_pinned_row(saved) -> None:
    link = {"writer": saved / "llama", "prompt": "the cat sat", "length": 3, "choices": "0.5", "branches": "0.5~0.7"}
    own = {key: link[key] for key in ("length", "choices", "branches")}

    def values(app: AppTest) -> dict[str, Any]:
        until(lambda: not sent(ok(app.run()))["running"])
        return {key: app.session_state[key] for key in own}

    app = ok(open_page("write", **link))
    assert values(app) == own
    pinned = app.selectbox(key="pinned")
    pinned.set_value(pinned.options[1]).run()
    assert sent(app)["pinned"] == 0
    app.selectbox(key="head").set_value("Head 1").run()
    assert (values(app), sent(app)["pinned"]) == (own, 0)
    app.text_area(key="prompt").set_value("the cat ran").run()
    assert values(app) == {"length": Written.tokens, "choices": "", "branches": ""}
    assert sent(app)["pinned"] is None
    app.number_input(key="length").set_value(4).run()
    assert values(app)["length"] == 4


def test_a_chat_shows_turns_and_its_template_if_wanted(copied) -> None:
    link = {"writer": add_chat_template(copied("llama")), "prompt": "the fox", "chat": "true", "length": 2}
    text = written(**link)
    hidden = [token for i, token in enumerate(text["tokens"]) if i in text["hidden"]]
    assert "".join(hidden).strip() == "user: ; assistant:"
    assert [*text["turns"].values()] == ["user", "assistant"]
    whole = written(**link, template_tokens="true")
    assert (whole["hidden"], whole["turns"], whole["tokens"]) == ([], {}, text["tokens"])
