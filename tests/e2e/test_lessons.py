"""Lessons that have every kind of check, from their first step to their result, by clicks, as a person goes through
them; tests/pages/test_lessons.py goes through all lessons."""

import re

from playwright.sync_api import Locator, expect

from attnviz.lessons.lesson_files import FOLDER, read_lesson
from tests.support.browser import AppPage, Browser, opened, place_of


class Strip:
    """The strip of a lesson."""

    def __init__(self, app: AppPage) -> None:
        self.app = app
        self.root = app.page.locator(".st-key-lesson-strip")
        self.ask = self.root.locator(".attnviz-ask").first
        self.verdict = self.root.locator(
            ".attnviz-verdict"
        ).first  # for a moment that of the step before stands after it

    def begin(self, lesson: str) -> None:
        self.app.page.goto(f"{self.app.address}/lessons")
        self.app.page.get_by_role("link", name=lesson, exact=True).click()

    def pill(self, text: str) -> Locator:
        return self.root.locator(".stButtonGroup button").filter(has_text=re.compile(f"^{re.escape(text)}$"))

    def reveal(self) -> None:
        self.root.get_by_text("Reveal", exact=True).click()
        expect(self.root.locator(".attnviz-answer")).to_be_visible()

    def go(self, name: str) -> None:
        self.app.settled()
        self.root.get_by_role("link", name=name).click()

    def fits(self, width: int) -> None:
        self.app.settled()
        box = place_of(self.root)
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_words_are_tapped_a_state_is_reached_an_answer_revealed_and_a_text_chosen(
    browser: Browser, address: str
) -> None:
    with opened(browser, address, kind=AppPage) as app:
        strip = Strip(app)
        strip.begin("From exact to soft")
        for word in ("hen", "cat"):
            strip.pill(word).click()
        expect(strip.verdict).to_have_text("Right.")
        app.expect_in_link("right", "1")
        strip.fits(1280)
        strip.go("Next →")
        expect(strip.verdict).to_have_text("Not there yet.")
        slider = app.page.locator(".st-key-softness input[type=range]")
        slider.press("Home")  # the dictionary, in which no key has this query
        app.expect_in_link("softness", None)
        slider.press("ArrowRight")
        expect(strip.verdict).to_have_text("Right: you are there.")
        app.expect_in_link("right", "1.2")
        app.page.reload()
        expect(strip.verdict).to_have_text("Right: you are there.")
        app.settled()
        app.page.go_back()
        expect(strip.verdict).to_have_text("Not there yet.")
        strip.go("Next →")
        expect(strip.ask).to_contain_text("Now the other end")
        strip.reveal()
        strip.go("Next →")
        expect(strip.ask).to_contain_text("What happens to exp(score)")
        strip.pill("It becomes 2.72 times as large").click()
        expect(strip.verdict).to_have_text("Right.")
        strip.fits(1280)
        strip.go("Finish")
        expect(strip.ask).to_have_text("2 of 4 answers were right.")


def test_a_number_that_is_typed_counts_though_the_next_step_is_chosen_at_once(browser: Browser, address: str) -> None:
    with opened(browser, address, kind=AppPage) as app:
        strip = Strip(app)
        strip.begin("The four similarities")
        app.page.get_by_label("Your number").fill("2")
        strip.root.get_by_role("link", name="Next →").click()
        expect(strip.ask).to_contain_text("Scaled dot product")
        app.expect_in_link("right", "1")


def test_in_a_presentation_the_arrow_keys_go_through_the_lesson(browser: Browser, address: str) -> None:
    with opened(browser, address, 1920, 1080, kind=AppPage) as app:
        first = read_lesson(FOLDER / "01-dictionary.toml")
        strip = Strip(app)
        app.page.goto(f"{address}/{first.link(1, ('present', '1'))}")
        for step in first.steps[:3]:
            expect(strip.ask).to_have_text(step.ask)
            app.settled()
            app.page.keyboard.press("ArrowRight")
        expect(strip.ask).to_have_text(first.steps[3].ask)
        app.settled()
        app.page.keyboard.press("PageUp")
        expect(strip.ask).to_have_text(first.steps[2].ask)
        expect(app.page).to_have_url(re.compile("present=1"))


def test_on_a_phone_the_strip_fits_in_every_step_and_folds(browser: Browser, address: str) -> None:
    with opened(browser, address, 390, 844, touch=True, kind=AppPage) as app:
        strip, lesson = Strip(app), read_lesson(FOLDER / "06-one-head.toml")
        strip.begin(lesson.title)
        for number, step in enumerate(lesson.steps, 1):
            expect(strip.ask).to_have_text(step.ask)
            app.settled()
            strip.reveal()
            strip.fits(390)
            strip.go("Next →" if number < len(lesson.steps) else "Finish")
        expect(strip.ask).to_have_text("0 of 3 answers were right.")
        strip.fits(390)
        strip.root.locator("summary").click()
        expect(strip.ask).to_be_hidden()
        app.until("() => document.querySelector('.st-key-lesson-strip').getBoundingClientRect().height < 90")
