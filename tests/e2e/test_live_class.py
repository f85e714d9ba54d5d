"""A class in real browsers: the teacher's screen, phones that follow, votes, and what goes wrong in a lecture hall."""

import re
import signal
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.support.browser import Browser, Explore
from tests.support.classroom import ClassServer, HeadlessTeacher, Participant, Phone, Teacher, contexts

LESSON = "lookup?lesson=03-similarities&present=1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClassServer]:
    server = ClassServer(tmp_path_factory.mktemp("classes")).start()
    yield server
    with urllib.request.urlopen(f"{HeadlessTeacher(server.address).address}/events", timeout=60) as stream:
        assert stream.readline().startswith(b"data: ")
        server.stop()  # which does not wait for who still listens
    assert "Traceback" not in server.log.read_text()


def test_a_class_with_two_votes_survives_a_server_that_is_killed(browser: Browser, server: ClassServer) -> None:
    troubles: list[str] = []
    with contexts(browser.playwright, 2) as (laptop, pockets):
        for context in (laptop, *pockets):
            context.on("weberror", lambda error: troubles.append(str(error.error)))
        teacher = Teacher(laptop.new_page(), server.address)
        teacher.open(LESSON)
        code = teacher.start_class()
        first, second = (Phone(pocket.new_page(), server.address).join(code) for pocket in pockets)
        others = [Participant(server.address, code) for _ in range(3)]
        expect(teacher.here).to_have_text("5 have joined")
        expect(first.contents.locator("h1, h2").first).to_contain_text("Lookup")

        teacher.page.get_by_role("link", name="Next →").click()
        expect(second.contents).to_contain_text("Scaled dot product: divided by √2")
        teacher.ask("This step: Scaled dot product")
        first.vote("It falls")
        second.vote("It grows")
        for option, other in enumerate(others):
            other.vote(option)
        teacher.expect_answers(5, 5)

        server.stop(signal.SIGKILL)
        expect(first.status).to_have_attribute("data-status", "lost")
        second.option("It falls").tap()
        expect(second.said).to_contain_text("Nothing was sent")
        server.start()
        expect(first.status).to_have_attribute("data-status", "live")
        teacher.expect_answers(5, 5)
        second.vote("It falls")
        teacher.press("Show what the room thinks")
        expect(first.results.locator(".attnviz-chart[data-ready=true]")).to_have_count(1)
        expect(first.ballot).to_have_count(0)

        teacher.press("Vote again")
        first.vote("It falls")
        others[0].vote(2)
        teacher.expect_answers(2, 5)
        teacher.press("Reveal")
        expect(first.results).to_contain_text("How does the weight of “cat” change?")
        expect(first.results).to_contain_text("Your answer was right.")
        held: list[Route] = []
        teacher.page.route("**/dismiss", lambda route: held.append(route))
        teacher.press("Done")
        teacher.press("More")  # before the server has answered
        with teacher.page.expect_response("**/dismiss"):
            held[0].continue_()
        expect(teacher.poll).to_be_hidden()

        teacher.panel.locator(".class-list").get_by_text("End the class").click()
        teacher.press("End and delete")
        expect(first.status).to_have_text("This class has ended.")
        expect(teacher.page.locator(".attnviz-start-class")).to_be_visible()
    assert not troubles


def test_followers_explore_ask_read_are_named_and_vote(browser: Browser, server: ClassServer) -> None:
    with contexts(browser.playwright, 2, "dark") as (laptop, pockets):
        teacher = Teacher(laptop.new_page(), server.address)
        teacher.open("explore?head=Head+6&present=1")
        code = teacher.start_class()
        phone = Phone(pockets[0].new_page(), server.address).join(code)
        expect(phone.contents.locator(".attnviz-chart[data-ready=true]").first).to_be_visible()

        # What a follower explores, asks and comes back to.
        phone.page.get_by_role("link", name="Explore", exact=True).click()
        own = Explore(phone.page, server.address).painted()
        assert "head=Head+6" in phone.page.url
        own.type("<b>One</b> cat.")
        own.painted()
        mine = phone.page.url
        phone.page.get_by_role("button", name="Ask the teacher").click()
        dialog = phone.page.locator("dialog[open]")
        dialog.get_by_label("Your question").fill("Why is <i>this</i> one high?")
        dialog.get_by_role("button", name="Send").click()
        expect(dialog).to_contain_text("Sent.")
        dialog.get_by_role("button", name="Close").click()
        phone.page.get_by_role("link", name="Back to the class").click()
        expect(phone.status).to_have_attribute("data-status", "live")
        phone.page.get_by_role("link", name="Continue mine").click()
        expect(phone.page).to_have_url(mine)
        teacher.press("Questions")
        message = teacher.panel.locator(".class-list")
        expect(message).to_contain_text("Why is <i>this</i> one high?")
        message.get_by_role("button", name="Open").click()
        expect(teacher.page.get_by_label("Text", exact=True)).to_have_value("<b>One</b> cat.")
        assert "present=1" in teacher.page.url
        phone.join(code)

        # They see each step of the training, and read what is written without controls of it.
        teacher.open("transformer?tab=How+attention+forms&present=1")
        summary = phone.contents.locator(".attnviz-summary")
        expect(summary).to_contain_text("After 2,400 steps it writes")
        teacher.settled()
        teacher.page.get_by_role("slider", name="Steps of training").press("Home")
        expect(summary).to_contain_text("After 0 steps it writes")
        teacher.settled()
        teacher.open("write?present=1&choices=0.19997")
        written = phone.contents.locator(".attnviz-write")
        expect(written.locator(".write-text")).to_contain_text("The capital of Italy is Florence")
        expect(written).to_have_attribute("data-ready", "true")
        expect(written.locator(".write-alternative").nth(1)).to_contain_text("Florence")
        expect(written.locator("a, button, input").filter(visible=True)).to_have_count(0)

        # A code that is none is said, and the form stays; a nickname with markup is text that the teacher may show.
        page = pockets[1].new_page()
        page.goto(f"{server.address}/class/zzzzz")
        expect(page.get_by_role("alert")).to_contain_text("ZZZZZ")
        expect(page.get_by_label("The code of your class")).to_be_focused()
        names = Phone(page, server.address).join(code).page.locator(".class-names")
        phone.page.get_by_role("button", name="Name", exact=True).click()
        dialog.get_by_label("Nickname").fill("<img src=x onerror=alert(1)>")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        phone.page.get_by_role("button", name="Name", exact=True).click()
        expect(dialog.get_by_label("Nickname")).to_have_value("<img src=x onerror=alert(1)>")
        dialog.get_by_role("button", name="Cancel").click()
        expect(names).to_be_empty()
        teacher.choose_from("More", re.compile("Show the nicknames"))
        expect(names).to_have_text("Here: <img src=x onerror=alert(1)>")
        expect(teacher.panel.locator(".class-names")).to_have_text("<img src=x onerror=alert(1)>")
        teacher.choose_from("More", re.compile("Hide the nicknames"))
        expect(names).to_be_empty()

        # What the teacher types stays while people join.
        teacher.choose_from("Ask", re.compile("of your own"))
        form = teacher.panel.locator("form")
        form.get_by_label("Question").fill("Which mask is this?")
        Participant(server.address, code)
        expect(teacher.here).to_have_text("3 have joined")
        for number, answer in ((1, "Causal"), (2, "Full")):
            form.get_by_label(f"Answer {number}", exact=True).fill(answer)
        form.get_by_role("button", name="Ask").click()
        phone.vote("Causal")
        teacher.expect_answers(1, 3)
        expect(teacher.poll).to_contain_text("Which mask is this?")
