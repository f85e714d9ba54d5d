"""A teacher's way: a lesson is written, tried, answered, kept as a file, taken up again, and printed."""

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from attnviz.lessons.checks import Tap
from attnviz.lessons.lesson_files import FOLDER, parse_lesson, read_lesson
from attnviz.lessons.lesson_text import lesson_text
from tests.support.browser import AppPage, Browser, opened, shared

COPIED = read_lesson(FOLDER / "06-one-head.toml")


class Held:
    """What a page says to the server, which can be held back for a while, as by a busy one."""

    def __init__(self, page: Page) -> None:
        self.messages: list[tuple[WebSocketRoute, str | bytes]] = []
        self.is_holding = False
        page.route_web_socket(re.compile("_stcore/stream"), self._connect)

    def hold(self) -> None:
        self.is_holding = True

    def release(self) -> None:
        self.is_holding = False
        for server, message in self.messages:
            server.send(message)
        self.messages.clear()

    def _connect(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        socket.on_message(lambda message: self._send(server, message))

    def _send(self, server: WebSocketRoute, message: str | bytes) -> None:
        if self.is_holding:
            self.messages.append((server, message))
        else:
            server.send(message)


class Editor:
    """The lesson editor."""

    def __init__(self, app: AppPage) -> None:
        self.app, self.page = app, app.page
        self.strip = app.page.locator(".st-key-lesson-strip")
        self.verdict = app.page.locator(".st-key-lesson-file [role=status]")
        self.file = app.page.get_by_label("The file of this lesson")

    def text(self) -> str:
        """Returns the text of the file, which is empty until the browser has it."""
        expect(self.file).not_to_have_value("")
        return self.file.input_value()

    def fill(self, label: str, text: str, nth: int = 0) -> None:
        """Types into a field, and waits until the file has it."""
        field = self.page.get_by_role("textbox", name=label).nth(nth)
        field.fill(text)
        field.press("Control+Enter" if field.evaluate("e => e.tagName") == "TEXTAREA" else "Enter")
        expect(self.file).to_have_value(re.compile(re.escape(text)))
        self.app.settled()

    def choose(self, label: str, option: str) -> None:
        self.app.choose(label, option)
        self.app.settled()

    def saved(self, button: Locator, folder: Path) -> Path:
        with self.page.expect_download() as download:
            button.click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path


def test_a_lesson_from_its_first_word_to_paper(browser: Browser, address: str, tmp_path: Path) -> None:
    with opened(browser, address, kind=AppPage) as app:
        editor, page = Editor(app), app.page
        page.goto(f"{address}/lessons")
        page.get_by_text("For teachers").click()
        page.get_by_role("link", name="Write a lesson").click()
        expect(editor.verdict).to_contain_text("Line 1: The lesson has an empty title.")
        app.settled()
        editor.fill("Title", "Wohin schaut „it“?")
        editor.fill("Language", "de")
        expect(editor.file).to_have_value(re.compile('language = "de"'))  # which is not only part of another word
        editor.fill("In one sentence", "Ein Satz und ein Kopf.")
        editor.fill("Question", "Wohin schaut „it“ am meisten?")
        editor.fill("Answer", "Zu animal, mit 0.68.")
        expect(editor.verdict).to_have_text("A whole lesson, with 1 question.")
        page.get_by_role("button", name="Add a step").click()
        expect(editor.verdict).to_contain_text("Step 2 has an empty ask.")
        app.settled()
        page.reload()  # nothing is lost
        expect(page.get_by_label("Title")).to_have_value("Wohin schaut „it“?")
        expect(editor.verdict).to_contain_text("Step 2 has an empty ask.")
        app.settled()
        page.go_back()
        expect(editor.verdict).to_have_text("A whole lesson, with 1 question.")
        app.settled()
        editor.file.fill(editor.text() + "tap = 1\n")
        page.get_by_role("link", name="Preview", exact=True).click()  # which also ends the typing

        expect(editor.strip.locator(".attnviz-ask")).to_have_text("Wohin schaut „it“ am meisten?")
        expect(editor.strip.locator(".attnviz-ask")).to_have_attribute("lang", "de")
        app.settled()
        reader = page.url
        editor.strip.locator(".stButtonGroup button").filter(has_text="animal").click()
        expect(editor.strip.locator(".attnviz-verdict")).to_have_text("Right.")
        app.settled()
        editor.strip.get_by_role("link", name="Edit").click()
        expect(page.get_by_label("Title")).to_have_value("Wohin schaut „it“?")
        app.settled()

        path = editor.saved(page.get_by_role("button", name="Download"), tmp_path)
        assert path.name == "wohin-schaut-it.toml"
        lesson = parse_lesson("one", path.read_text(encoding="utf-8"))
        assert (lesson.title, lesson.language) == ("Wohin schaut „it“?", "de")
        assert lesson.steps[0].check == Tap(1)
        path.write_text(lesson_text(COPIED), encoding="utf-8")
        page.get_by_role("button", name="Upload").click()
        page.locator("input[type=file]").set_input_files(path)
        expect(editor.verdict).to_have_text("A whole lesson, with 4 questions.")
        page.keyboard.press("Escape")
        app.settled()

        page.get_by_role("link", name="Handout").click()
        paper = page.locator(".attnviz-handout")
        expect(paper.locator("h1")).to_have_text(COPIED.title)
        picture = paper.locator("figure img").first
        expect(picture).to_have_attribute("alt", re.compile("it gives 0.68 of its attention to animal"))
        app.until("() => [...document.querySelectorAll('.attnviz-handout img')].every(e => e.naturalWidth > 100)")
        app.settled()
        page.emulate_media(media="print")
        expect(paper).to_be_visible()
        expect(page.get_by_test_id("stHeader")).to_be_hidden()
        expect(page.get_by_role("button", name="Download")).to_be_hidden()
        assert paper.locator("section").evaluate("e => getComputedStyle(e).breakBefore") == "page"
        page.emulate_media(media="screen")
        file = editor.saved(page.get_by_role("button", name="Download"), tmp_path)

        page.goto(reader)  # the reader has nothing but the link
        expect(editor.strip.locator(".attnviz-ask")).to_have_text("Wohin schaut „it“ am meisten?")

    requests: list[str] = []
    offline = browser.new_page()
    offline.on("request", lambda request: requests.append(request.url))
    offline.goto(file.as_uri())
    expect(offline.locator(".attnviz-handout svg rect").first).to_be_visible()
    assert requests == [file.as_uri()]
    offline.emulate_media(media="print")
    expect(offline.locator("h1")).to_be_visible()
    for width, height in ((8.27, 11.69), (8.5, 11)):  # A4, Letter
        pages = offline.pdf(width=f"{width}in", height=f"{height}in")
        assert pages.count(b"/Type /Page\n") in (3, 4)
    offline.close()


def test_words_stay_that_were_typed_before_the_last_run_was_drawn(browser: Browser, address: str) -> None:
    with opened(browser, address, kind=AppPage) as app:
        editor, page, held = Editor(app), app.page, Held(app.page)
        page.goto(f"{address}/lessons?write=new")
        expect(editor.verdict).to_contain_text("Line 1: The lesson has an empty title.")
        app.settled()
        held.hold()
        for label, text in (("Title", "One"), ("In one sentence", "Two.")):
            field = page.get_by_role("textbox", name=label).first
            field.fill(text)
            field.press("Enter")
        held.release()
        for line in ('title = "One"', 'about = "Two."'):
            expect(editor.file).to_have_value(re.compile(re.escape(line)))


def test_a_link_waits_for_what_was_typed_however_late_the_run_begins(browser: Browser, address: str) -> None:
    with opened(browser, address, kind=AppPage) as app:
        editor, page, held = Editor(app), app.page, Held(app.page)
        page.goto(f"{address}/lessons?write=06-one-head")
        expect(editor.verdict).to_have_text("A whole lesson, with 4 questions.")
        app.settled()
        held.hold()
        editor.file.fill(editor.text().replace(COPIED.title, "Another title"))
        page.get_by_role("link", name="Preview", exact=True).click()
        app.until("then => performance.now() > then + 1500", page.evaluate("performance.now()"))
        assert "write=" in page.url
        held.release()
        expect(editor.strip).to_contain_text("Another title")


def test_the_steps_of_the_editor_fit_a_phone(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, touch=True, kind=AppPage) as app:
        app.go("lessons?write=02-soft")
        expect(Editor(app).verdict).to_have_text("A whole lesson, with 4 questions.")
        app.settled()
        for step in app.page.locator(".stExpander summary").all():
            step.click()
        expect(app.page.get_by_label("Question")).to_have_count(4)
        assert app.page.evaluate("document.documentElement.scrollWidth") <= 390
