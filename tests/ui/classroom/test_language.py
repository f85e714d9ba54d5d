"""A class answers each phone in its language: that of its link, or of its browser."""

import json
import re
from base64 import b64decode

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from attnviz.classroom.live_class import Classes
from attnviz.classroom.question import text_question
from attnviz.classroom.store_address import open_store
from attnviz.ui.classroom import server_classes
from attnviz.ui.classroom.class_json import class_address
from attnviz.ui.classroom.routes import ClassRoutes

GERMAN, ENGLISH = {"accept-language": "de-AT,en;q=0.5"}, {"accept-language": "en"}


@pytest.fixture
def live(tmp_path, monkeypatch):
    classes = Classes(open_store(f"sqlite://{tmp_path}/classes.sqlite3"))
    monkeypatch.setattr(server_classes, "classes", lambda: classes)
    return classes.open(classes.start().code)


@pytest.fixture
def phone() -> TestClient:
    return TestClient(Starlette(middleware=[Middleware(ClassRoutes)]))


def text(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style).*?</\1>", "", html, flags=re.DOTALL))


@pytest.mark.parametrize(("address", "headers"), [("", GERMAN), ("?lang=de", ENGLISH)])
def test_pages_are_in_the_language_of_the_browser_or_of_the_link(live, phone, address, headers) -> None:
    for page in ("/class", class_address(live.code)):
        answer = phone.get(f"{page}{address}", headers=headers).text
        assert '<html lang="de">' in answer
        assert not re.search(r"\b(the|your|you|Join|Name of|teacher|Explore)\b", text(answer))
        words = json.loads(re.search(r'id="attnviz-words">(.*?)</script>', answer, re.DOTALL)[1])
        assert words["Send"] == "Senden"
    assert "Der Code des Kurses" in text(phone.get(f"/class{address}", headers=headers).text)


def test_pages_are_in_english_for_any_other_browser(live, phone) -> None:
    answer = phone.get(class_address(live.code), headers={"accept-language": "fi"}).text
    assert '<html lang="en">' in answer
    assert "The teacher’s figures appear here." in answer
    assert 'id="attnviz-words"' not in answer


def test_what_phones_are_told_is_in_the_language_of_each(live, phone) -> None:
    phone.get(class_address(live.code))
    live.publish("explore", "Explore", b"picture")
    poll = live.ask(text_question("Which?", ["A", "B"], "B"))
    answer = class_address(live.code, "answer")
    assert phone.post(answer, json={"poll": poll, "round": 1, "value": [1]}).status_code == 200
    refused = phone.post(answer, json={"poll": poll, "round": 1, "value": [0, 1]}, headers=GERMAN)
    assert (refused.status_code, refused.text) == (400, "Eine Option antippen.")
    live.reveal()
    state = class_address(live.code, "state")
    german, english = (phone.get(state, headers=headers).json() for headers in (GERMAN, ENGLISH))
    assert german["result"]["sentences"][0] == "Eine Person hat geantwortet."
    assert english["result"]["sentences"][0] == "One person has answered."
    assert (german["distance"], english["distance"]) == ("Ihre Antwort war richtig.", "Your answer was right.")
    charts = [b64decode(each["result"]["charts"][0]["data"]) for each in (german, english)]
    assert "Antworten des Kurses" in charts[0].decode(errors="ignore")
    assert "Answers of the room" in charts[1].decode(errors="ignore")
