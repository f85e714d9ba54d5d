"""What the routes of a class answer to its teacher, to participants and to bad input."""

import csv
import io
import re
import sqlite3
import time
from base64 import b64decode
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from attnviz.classroom.live_class import Classes
from attnviz.classroom.question import text_question
from attnviz.classroom.store_address import open_store
from attnviz.lessons.lesson_files import parse_lesson
from attnviz.ui.classroom import access, server_classes
from attnviz.ui.classroom.class_json import class_address
from attnviz.ui.classroom.class_posts import OF_TEACHER
from attnviz.ui.classroom.rate_limit import RateLimit
from attnviz.ui.classroom.routes import ClassRoutes
from attnviz.ui.server import housekeeping
from attnviz.ui.server.addresses import address
from tests.support.waiting import run_in_thread, run_until

HOST = "http://testserver"
ROOT = Path(__file__).parents[3]
ROUTES = ClassRoutes(Starlette()).router.app.routes


@pytest.fixture
def classes(tmp_path, monkeypatch):
    for name in ("POSTS", "POSTS_OF_ADDRESS", "WRONG_CODES", "STARTS", "JOINS"):
        monkeypatch.setattr(access, name, RateLimit(100, 0))
    opened = Classes(open_store(f"sqlite://{tmp_path}/classes.sqlite3"))
    monkeypatch.setattr(server_classes, "classes", lambda: opened)
    return opened


@pytest.fixture
def teaching(classes):
    return classes.start()


@pytest.fixture
def live(classes, teaching):
    return classes.open(teaching.code)


def browser(teaching=None, host: str = "192.0.2.1") -> TestClient:
    """A browser of its own, at an address; with a class, its teacher's."""
    client = TestClient(Starlette(middleware=[Middleware(ClassRoutes)]), client=(host, 50_000))
    if teaching:
        client.cookies.set(access.TEACHER, f"{teaching.code}.{teaching.key}")
    return client


def follower(live) -> TestClient:
    client = browser()
    assert client.get(class_address(live.code)).status_code == 200
    assert client.get(class_address(live.code, "state")).status_code == 200
    return client


def vote(client: TestClient, live, poll: str, value: object, **options):
    content = {"poll": poll, "round": 1, "value": value}
    return client.post(class_address(live.code, "answer"), json=content, **options)


def test_the_teacher_takes_the_answers_and_the_lesson_home(live, teaching) -> None:
    live.publish("explore?head=Head+1", "Explore", b"1")
    poll = live.ask(text_question("Which?", ["A", "B"], "B"))
    assert vote(follower(live), live, poll, [1]).status_code == 200
    table = browser(teaching).get(class_address(live.code, "answers.csv"))
    assert table.headers["content-disposition"] == f'attachment; filename="answers-{live.code}.csv"'
    (row,) = csv.DictReader(io.StringIO(table.content.decode("utf-8-sig"), newline=""))
    assert (row["answer"], row["right"], row["nickname"]) == ("B", "yes", "")
    lesson = browser(teaching).get(class_address(live.code, "lesson.toml"))
    assert "attachment" in lesson.headers["content-disposition"]
    assert [step.ask for step in parse_lesson("class", lesson.text).steps] == ["Which?"]


def test_a_class_without_questions_gives_a_sentence_for_its_lesson(live, teaching) -> None:
    answer = browser(teaching).get(class_address(live.code, "lesson.toml"))
    assert (answer.status_code, answer.text[:25]) == (400, "No question of this class")


@pytest.mark.parametrize("path", ["answers.csv", "lesson.toml", "panel"])
def test_only_the_teacher_of_this_class_reads_what_is_hers(live, classes, path) -> None:
    for client in (follower(live), browser(classes.start())):
        answer = client.get(class_address(live.code, path))
        assert (answer.status_code, answer.text) == (403, "Only the person who started the class may do this.")


def test_a_second_tab_commands_the_class_and_a_second_teacher_does_not(live, classes, teaching) -> None:
    second = browser(classes.start())
    for path in OF_TEACHER:
        assert second.post(class_address(live.code, path), json={}).status_code == 403
    assert classes.open(live.code)
    for tab in (browser(teaching), browser(teaching)):
        assert tab.post(class_address(live.code, "names"), json={"show": True}).status_code == 200


@pytest.mark.parametrize("code", ["K7M2", "AAAAA", "<b>x", "K" * 10_000, "%00", "ÄÖÜßé"])
def test_a_code_that_is_none_leads_to_the_entrance_which_says_so(classes, code) -> None:
    answer = browser().get(address("/class"), params={"code": code})
    assert answer.status_code == 404
    assert "There is no class" in answer.text
    assert f'<a href="{address("/")}">Cancel</a>' in answer.text
    assert "<b>x" not in answer.text


def test_many_guesses_from_one_phone_are_one_answer(live) -> None:
    poll = live.ask(text_question("Which?", ["A", "B"], "B"))
    phone = follower(live)
    for number in range(50):
        assert vote(phone, live, poll, [number % 2]).status_code == 200
    assert live.poll().counts == (1,)
    assert [one.counts for one in live.polls()[0].rounds[0].values()] == [((1, 1),)]


def test_a_flood_of_one_phone_is_refused_and_another_phone_is_not(live, monkeypatch) -> None:
    monkeypatch.setattr(access, "POSTS", RateLimit(3, 0))
    poll = live.ask(text_question("Which?", ["A", "B"], "B"))
    phone = follower(live)
    assert [vote(phone, live, poll, [0]).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    assert vote(follower(live), live, poll, [1]).status_code == 200


def test_who_guesses_codes_has_to_wait_and_who_is_in_a_class_has_not(live, teaching, monkeypatch) -> None:
    monkeypatch.setattr(access, "WRONG_CODES", RateLimit(3, 0))
    phone, guesser = follower(live), browser()
    answers = [guesser.get(address("/class"), params={"code": "AAAAA"}).status_code for _ in range(5)]
    assert answers == [404, 404, 404, 429, 429]
    assert guesser.get(class_address(live.code)).status_code == 429
    for client in (phone, browser(teaching)):
        assert client.get(class_address(live.code)).status_code == 200


def test_a_cookie_that_is_made_up_gets_round_no_limit(live, monkeypatch) -> None:
    monkeypatch.setattr(access, "WRONG_CODES", RateLimit(3, 0))
    monkeypatch.setattr(access, "POSTS_OF_ADDRESS", RateLimit(3, 0))

    def guess(code: str, number: int, path: str) -> int:
        guesser = browser()
        guesser.cookies.set(access.PARTICIPANT, f"{number:032x}")
        where = class_address(code, path)
        return (guesser.post(where, json={}) if path == "answer" else guesser.get(where)).status_code

    assert [guess(live.code, number, "answer") for number in range(5)] == [400, 400, 400, 429, 429]
    codes = [guess(code, number, "state") for number, code in enumerate(["AAAAA"] * 4 + [live.code])]
    assert codes == [404, 404, 404, 429, 429]


def join(live, number: int, host: str = "192.0.2.1", path: str = "state") -> int:
    """The status for somebody with a cookie that is made up."""
    client = browser(host=host)
    client.cookies.set(access.PARTICIPANT, f"{number:032x}")
    where = class_address(live.code, path)
    return (client.get(where) if path == "state" else client.post(where, json={"text": "a"})).status_code


def test_one_address_does_not_fill_a_class_and_who_is_in_stays_in(classes, live, monkeypatch) -> None:
    monkeypatch.setattr(access, "JOINS", RateLimit(3, 0))
    assert [join(live, number) for number in range(5)] == [200, 200, 200, 429, 429]
    assert [join(live, number) for number in range(3)] == [200, 200, 200]
    assert join(live, 9, path="nickname") == join(live, 9, path="message") == join(live, 9, path="answer") == 429
    assert join(live, 2, path="nickname") == 200
    assert live.participants == 3
    assert join(live, 10, host="192.0.2.2") == 200
    assert join(classes.open(classes.start().code), 10) == 200  # the class next door has the same address


def test_an_address_of_ipv6_is_a_network_of_one_person(live, monkeypatch) -> None:
    monkeypatch.setattr(access, "JOINS", RateLimit(1, 0))
    assert join(live, 1, "2001:db8::1") == 200
    assert [join(live, 2, host) for host in ("2001:db8::2", "2001:db8::ffff:1:2:3")] == [429, 429]
    assert [join(live, n, host) for n, host in enumerate(("2001:db8:0:1::1", "::ffff:192.0.2.7", "192.0.2.8"), 5)] == (
        [200] * 3
    )
    assert join(live, 9, "::ffff:192.0.2.9") == 200


def test_a_school_behind_one_address_joins_within_a_minute() -> None:
    limits = access.JOINS, access.POSTS_OF_ADDRESS
    for limit in (RateLimit(one.burst, one.per_second, lambda: 0.0) for one in limits):
        assert all(limit.take("school") for _ in range(100))
    assert f"{access.JOINS.burst} at once and then {access.JOINS.per_second * 60} a minute" in " ".join(
        (ROOT / "docs" / "hosting.md").read_text(encoding="utf-8").split()
    )


def test_a_teacher_removes_those_who_never_answered(live, teaching) -> None:
    poll, phone = live.ask(text_question("Which?", ["A", "B"], "B")), follower(live)
    assert vote(phone, live, poll, [0]).status_code == 200
    assert [join(live, number, path="nickname") for number in range(3)] == [200] * 3
    where = class_address(live.code, "clear")
    assert phone.post(where, json={}).status_code == 403
    assert browser(teaching).post(where, json={}).status_code == 200
    assert (live.participants, live.nicknames()) == (1, {})
    assert join(live, 1) == 200  # who still follows is back
    assert live.participants == 2


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")


@pytest.mark.parametrize("method", METHODS)
def test_a_wrong_method_is_refused_at_every_address_of_a_class(live, method) -> None:
    client = browser()
    for route in ROUTES:
        path = re.sub(r"\{\w+(:int)?\}", "1", route.path.replace("{code}", live.code))
        allowed = {method for one in ROUTES if one.path_regex.match(path) for method in one.methods}
        if method not in allowed:
            assert client.request(method, path).status_code == 405, path


def test_a_post_from_a_page_of_another_origin_is_refused_by_any_sign_of_it(live) -> None:
    poll, phone = live.ask(text_question("Which?", ["A", "B"], "B")), follower(live)
    refused = [
        *({"sec-fetch-site": site} for site in ("cross-site", "same-site", "cross-origin", "")),
        *({"origin": one} for one in ("null", "", "http://testserver:8501", "http://testserver.example", "testserver")),
        *({"origin": one} for one in ("http://testserver@evil.example", "http://evil.example#testserver", "file://")),
        *({"origin": one} for one in ("http://testserver:x", "http://[::1", "//testserver", "https://testserver:80")),
        {"origin": HOST, "sec-fetch-site": "cross-site"},
    ]
    assert [vote(phone, live, poll, [0], headers=one).status_code for one in refused] == [403] * len(refused)
    assert live.poll().counts == (0,)
    start = address("/class/start")
    assert [browser().post(start, headers=one).status_code for one in refused] == [403] * len(refused)
    for one in (
        {"origin": HOST, "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"origin": f"{HOST}:80"},
    ):
        assert vote(phone, live, poll, [0], headers=one).status_code == 200


def test_a_preview_of_the_link_is_no_participant(live) -> None:
    for _ in range(3):
        assert browser().get(class_address(live.code)).status_code == 200
    assert live.participants == 0


def test_a_teacher_who_starts_again_keeps_her_class(live, teaching) -> None:
    client = browser(teaching)
    answer = client.post(address("/class/start"), data={"back": "masks?mask-b=causal"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/masks?mask-b=causal")
    assert "set-cookie" not in answer.headers
    live.end()
    assert "set-cookie" in client.post(address("/class/start"), follow_redirects=False).headers


def test_a_vote_for_a_question_that_has_ended_is_refused_with_a_sentence(live) -> None:
    poll, phone = live.ask(text_question("Which?", ["A", "B"], "B")), follower(live)
    live.close()
    assert "This vote has ended." in vote(phone, live, poll, [0]).text
    live.ask(text_question("Another?", ["A", "B"], "B"))
    answer = vote(phone, live, poll, [0])
    assert (answer.status_code, answer.text[:24]) == (400, "This question has ended.")


def test_a_nickname_is_short_and_plain_text(live) -> None:
    phone, where = follower(live), class_address(live.code, "nickname")
    answer = phone.post(where, json={"text": "a" * 10_000})
    assert (answer.status_code, "at most 40 characters" in answer.text) == (400, True)
    assert phone.post(where, json={"text": "<img src=x>"}).status_code == 200
    assert [*live.nicknames().values()] == ["<img src=x>"]
    state = phone.get(class_address(live.code, "state"))
    assert state.headers["content-type"] == "application/json"


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b"[" * 50_000, b"\xff", b"9" * 60_000])
def test_what_is_no_json_object_is_refused_with_a_sentence(live, body) -> None:
    answer = follower(live).post(class_address(live.code, "answer"), content=body)
    assert answer.status_code == 400
    assert answer.text in ("What was sent is not JSON.", "What was sent is not a JSON object.")


def test_what_is_too_large_is_refused(live) -> None:
    content = b" " * (access.LARGEST_BODY + 1)
    assert follower(live).post(class_address(live.code, "answer"), content=content).status_code == 413


def test_one_button_deletes_all_of_a_class(live, teaching, tmp_path) -> None:
    poll = live.ask(text_question("Which?", ["A", "B"], "B"))
    vote(follower(live), live, poll, [1])
    assert browser(teaching).post(class_address(live.code, "end"), json={}).status_code == 200
    assert kept(tmp_path) == [0, 0]


def test_the_server_deletes_a_class_when_its_hours_are_over(live, classes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(housekeeping, "EVERY_CLASS", 0.001)
    now = time.time()
    before = kept(tmp_path)
    monkeypatch.setattr(time, "time", lambda: now + 3600 * classes.hours - 60)
    server_classes.delete_expired_classes()
    assert kept(tmp_path) == before != [0, 0]
    monkeypatch.setattr(time, "time", lambda: now + 3600 * classes.hours + 60)
    run_until(housekeeping.delete_classes(server_classes.delete_expired_classes), lambda: kept(tmp_path) == [0, 0])
    assert kept(tmp_path) == [0, 0]


def kept(folder) -> list[int]:
    """The classes and the values in the file."""
    connection = sqlite3.connect(folder / "classes.sqlite3")
    try:
        return [connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("classes", "class_values")]
    finally:
        connection.close()


def test_a_vote_that_ends_has_charts_and_one_that_is_revealed_the_truth(live) -> None:
    live.ask(text_question("Which?", ["A", "B"], "B"))
    phone = follower(live)
    drawn = []
    for act in (lambda: None, live.close, live.reveal, live.dismiss):
        act()
        result = phone.get(class_address(live.code, "state")).json()["result"]
        drawn.append([b64decode(chart["data"]) for chart in result["charts"]] if result else None)
    before, [closed], [revealed], after = drawn
    assert (before, after) == (None, None)
    assert b"the truth" in revealed
    assert b"the truth" not in closed


@pytest.mark.parametrize("path", ["/class/start", "/class/ABCD/answer"])
def test_a_client_that_leaves_while_it_sends_is_no_error(classes, path) -> None:
    async def leave() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    sent: list[dict[str, object]] = []
    headers = [(b"host", b"testserver"), (b"content-type", b"application/json"), (b"sec-fetch-site", b"same-origin")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": address(path),
        "headers": headers,
        "query_string": b"",
        "client": ("192.0.2.1", 50_000),
        "server": ("testserver", 80),
        "scheme": "http",
    }
    run_in_thread(ClassRoutes(Starlette())(scope, leave, send))
    assert sent[0]["status"] == 400
