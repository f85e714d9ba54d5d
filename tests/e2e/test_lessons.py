"""Lessons with every kind of check from their first step to their result, by clicks, as a person goes through them;
tests/pages/test_lesson_steps.py goes through all lessons."""

import re

from playwright.sync_api import Locator, expect

from attnviz.lessons.checks import WEIGHT, Choice, Tap
from attnviz.lessons.lesson_files import FOLDER, LessonStep, read_lesson
from tests.support.browser import AppPage, Browser, Explore, opened, place_of, shared

LESSONS = [read_lesson(path) for path in sorted(FOLDER.glob("*.toml"))]


def solve(strip: "Strip", step: LessonStep) -> None:
    """Answers a step as its file says; one that has to be found in the picture is revealed."""
    known = [one.quantity for one in step.holds]
    match step.check:
        case Choice(right=right):
            strip.pill(right).click()
        case Tap(count=count):
            words = [name.removeprefix(WEIGHT) for name in known if name.startswith(WEIGHT)]
            for word in words[:count]:
                strip.pill(word).click()
                strip.app.settled()
        case _:
            strip.reveal()
            return
    expect(strip.verdict).to_have_text("Right.")


class Strip:
    """The strip of a lesson."""

    def __init__(self, app: AppPage) -> None:
        self.app = app
        self.root = app.page.locator(".st-key-lesson-strip")
        self.ask = self.root.locator(".attnviz-ask").first
        self.verdict = self.root.locator(
            ".attnviz-verdict"
        ).first  # for a moment that of the step before stands after it

    def pill(self, text: str) -> Locator:
        return self.root.locator(".stButtonGroup button").filter(has_text=re.compile(f"^{re.escape(text)}$"))

    def reveal(self) -> None:
        self.root.get_by_text("Reveal", exact=True).click()
        expect(self.root.locator(".attnviz-answer")).to_be_visible()

    def go(self, name: str) -> None:
        self.root.get_by_role("link", name=name).click()


def test_a_lesson_from_its_first_step_to_its_result(browser: Browser, address: str) -> None:
    [lesson] = [one for one in LESSONS if one.name == "06-one-head"]
    with shared(browser, address, kind=AppPage) as app:
        strip = Strip(app)
        app.go("lessons")
        app.page.get_by_role("link", name=lesson.title, exact=True).click()
        # The answer is not on the page before it is given.
        summary = app.page.locator(".attnviz-summary").first
        expect(strip.ask).to_have_text(lesson.steps[0].ask)
        app.page.mouse.move(1, 1)
        explore = Explore(app.page, app.address).painted()
        expect(explore.sentence).to_be_hidden()
        expect(summary).to_be_hidden()
        explore.stage.hover()
        expect(explore.sentence).to_be_visible()
        solved = 0
        for number, step in enumerate(lesson.steps, 1):
            expect(strip.ask).to_have_text(step.ask)
            app.settled()
            solve(strip, step)
            solved += strip.verdict.inner_text().startswith("Right")
            app.settled()
            # Nothing of it is too wide, and on a phone it leads on, too.
            for width, height in ((1280, 800), (390, 844)):
                app.page.set_viewport_size({"width": width, "height": height})
                box = place_of(strip.root)
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                expect(strip.root.locator(".attnviz-ways .attnviz-main")).to_be_in_viewport(ratio=1)
            strip.go("Next →" if number < len(lesson.steps) else "Finish")
            app.page.set_viewport_size({"width": 1280, "height": 800})
        checks = sum(step.check is not None for step in lesson.steps)
        expect(strip.ask).to_have_text(f"{solved} of {checks} answers were right.")
        expect(app.page.get_by_test_id("stException")).to_have_count(0)
        app.go("lessons")
        card = app.page.locator(".attnviz-lesson").filter(
            has=app.page.get_by_role("link", name=lesson.title, exact=True)
        )
        expect(card.get_by_role("img", name="Finished in this browser")).to_be_visible()


def test_a_typed_number_counts_if_the_next_step_is_chosen_at_once(browser: Browser, address: str) -> None:
    with shared(browser, address, kind=AppPage) as app:
        strip = Strip(app)
        app.go("lessons")
        app.page.get_by_role("link", name="The four similarities", exact=True).click()
        app.page.get_by_label("Your number").fill("2")
        place = place_of(strip.root.get_by_role("link", name="Next →"))
        app.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        app.page.mouse.down()
        # A hand holds the button for longer than a run takes, in which the link would be replaced.
        app.until("then => performance.now() > then + 1000", app.page.evaluate("performance.now()"))
        app.page.mouse.up()
        expect(strip.ask).to_contain_text("Scaled dot product")
        app.expect_in_link("right", "1")


def test_words_are_tapped_and_a_state_is_reached(browser: Browser, address: str) -> None:
    with opened(browser, address, kind=AppPage) as app:
        strip = Strip(app)
        app.page.goto(f"{address}/lessons")
        app.page.get_by_role("link", name="From exact to soft", exact=True).click()
        for word in ("hen", "cat"):
            strip.pill(word).click()
        expect(strip.verdict).to_have_text("Right.")
        app.expect_in_link("right", "1")
        strip.go("Next →")
        expect(strip.verdict).to_have_text("")
        slider = app.page.locator(".st-key-softness input[type=range]")
        slider.press("Home")  # the dictionary, in which no key has this query
        expect(strip.verdict).to_have_text("Not there yet.")
        app.expect_in_link("softness", None)
        slider.press("ArrowRight")
        expect(strip.verdict).to_have_text("Right: you are there.")
        app.expect_in_link("right", "1.2")
        app.page.reload()
        expect(strip.verdict).to_have_text("Right: you are there.")
        app.settled()
        app.page.go_back()
        expect(strip.verdict).to_have_text("Not there yet.")


def test_in_a_presentation_the_arrow_keys_go_through_the_lesson(browser: Browser, address: str) -> None:
    with shared(browser, address, 1920, 1080, kind=AppPage) as app:
        first = LESSONS[0]
        strip = Strip(app)
        app.go(first.link(1, ("present", "1")))
        for step in first.steps[:3]:
            expect(strip.ask).to_have_text(step.ask)
            app.settled()
            app.page.keyboard.press("ArrowRight")
        expect(strip.ask).to_have_text(first.steps[3].ask)
        app.settled()
        app.page.keyboard.press("PageUp")
        expect(strip.ask).to_have_text(first.steps[2].ask)
        expect(app.page).to_have_url(re.compile("present=1"))


def test_on_a_phone_the_strip_folds(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, touch=True, kind=AppPage) as app:
        strip = Strip(app)
        app.go(LESSONS[0].link())
        expect(strip.ask).to_be_visible()
        app.settled()
        strip.root.locator("summary").click()
        expect(strip.ask).to_be_hidden()
        app.until("() => document.querySelector('.st-key-lesson-strip').getBoundingClientRect().height < 90")


def test_a_sum_is_opened_by_the_reader(browser: Browser, address: str) -> None:
    [lesson] = [each for each in LESSONS if each.name == "18-how-the-copy-is-found"]
    with shared(browser, address, kind=AppPage) as app:
        strip = Strip(app)
        for number, way in ((3, "by the query"), (5, "by the key")):
            app.go(lesson.link(number))
            expect(strip.ask).to_have_text(lesson.steps[number - 1].ask)
            app.settled()
            row = app.page.locator(".attnviz-shares tr").filter(has=app.page.get_by_role("link", name=way))
            row.filter(has_text="Baker").get_by_role("link", name=way).click()
            expect(strip.verdict).to_have_text("Right: you are there.")
