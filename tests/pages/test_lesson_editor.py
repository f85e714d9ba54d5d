"""The lesson editor: what is written in the form is in the file, in the link and in the lesson that readers open."""

import base64
import random
import re
import zlib

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.lessons.checks import Choice, NumberCheck, Tap
from attnviz.lessons.lesson_files import FOLDER, MOST_FILE_BYTES, Lesson, parse_lesson, read_lesson
from attnviz.lessons.lesson_text import IN_LINK, lesson_text, name_in_link
from attnviz.ui import lesson_draft
from attnviz.ui.lesson_draft import IN_SESSION, TEXT
from tests.support.app import contents, errors, healthy, linked, open_page

LESSON = read_lesson(FOLDER / "06-one-head.toml")
MARKUP = '<img src=x onerror=alert(1)> **bold** $x$ :material/home: [a](b) "quoted" \\'


def editor(text: str = "new") -> AppTest:
    return healthy(open_page("lessons", write=text))


def written(app: AppTest) -> str:
    """The text of the file, which is the same in the link."""
    assert not app.exception
    text = app.text_area(key=TEXT).value
    assert linked_name(app) == (name_in_link(text) or IN_SESSION)
    return text


def linked_name(app: AppTest) -> str:
    """The lesson in the link, after the run that has opened it."""
    [name] = linked(app.run(), "write")
    return name


def lesson(app: AppTest) -> Lesson:
    return parse_lesson("one", written(app))


def field(app: AppTest, label: str, nth: int = 0, kind: str = "text_area"):
    return [one for one in getattr(app, kind) if one.label.startswith(label)][nth]


def press(app: AppTest, about: str, nth: int = 0) -> AppTest:
    """Presses a button by its label or its help."""
    buttons = [one for one in app.button if about in (one.label, one.proto.help)]
    return healthy(buttons[nth].click().run())


def test_a_lesson_is_written_from_its_first_word() -> None:
    app = editor()
    assert "Line 1: The lesson has an empty title." in contents(app)
    field(app, "Title", kind="text_input").input("Ein Kopf").run()
    field(app, "Language", kind="text_input").input("de").run()
    field(app, "In one sentence", kind="text_input").input("Wohin ein Kopf sieht.").run()
    field(app, "Question").input("Wohin sieht „it“?").run()
    assert "Step 1 has an empty answer." in contents(app)
    field(app, "Answer").input("Zu animal.").run()
    field(app, "How the answer", kind="selectbox").select("tap").run()
    field(app, "The answer relies on").input("weight of animal = 0.68\nlargest weight < 0.9").run()
    press(app, "Add a step")
    field(app, "Question", 1).input("Und unter einer Maske?").run()
    field(app, "Answer", 1).input("0.70").run()
    app.checkbox[0].uncheck().run()
    address = "http://localhost:8501/masks?mask-b=causal&pinned=10+%C2%B7+it&lesson=x&right=1"
    field(app, "Address", 1, "text_input").input(address).run()
    field(app, "How the answer", 1, "selectbox").select("number").run()
    field(app, "Quantity", kind="selectbox").select("weight of animal under B").run()
    one = lesson(app)
    assert (one.title, one.about, one.language) == ("Ein Kopf", "Wohin ein Kopf sieht.", "de")
    assert [step.check for step in one.steps] == [Tap(1), NumberCheck("weight of animal under B")]
    assert [step.page for step in one.steps] == ["explore", "masks"]
    assert one.steps[1].state == (("mask-b", "causal"), ("pinned", "10 · it"))
    assert "A whole lesson, with 2 questions." in contents(app)
    assert "✓ All of this holds where the step opens." in contents(app)
    assert not app.warning


def test_what_is_typed_before_the_browser_has_the_new_link_is_kept() -> None:
    app = editor()
    field(app, "Title", kind="text_input").input("One").run()
    before = linked_name(app)
    field(app, "In one sentence", kind="text_input").input("A sentence.").run()
    app.text_input(key="write").set_value(before)  # as a browser sends it that has not drawn the last run yet
    field(app, "Question").input("Where?").run()
    assert [text in written(app) for text in ("One", "A sentence.", "Where?")] == [True, True, True]


@pytest.mark.parametrize("name", ["02-soft", "11-three-uses", "de-01-woerterbuch"])
def test_a_copy_of_a_shipped_lesson_is_the_same_lesson_and_has_no_mistakes(name: str) -> None:
    app = editor(name)
    assert parse_lesson(name, written(app)) == read_lesson(FOLDER / f"{name}.toml")
    assert not app.warning
    assert not app.error


def test_steps_are_moved_copied_and_removed_with_what_they_have() -> None:
    app = editor(LESSON.name)
    asks = [step.ask for step in LESSON.steps]
    press(app, "Move down")
    assert [step.ask for step in lesson(app).steps] == [asks[1], asks[0], *asks[2:]]
    assert lesson(app).steps[1].state == LESSON.steps[0].state
    assert [one.value for one in app.text_area if one.label == "Question"] == [asks[1], asks[0], *asks[2:]]
    press(app, "Duplicate", 3)
    assert [step.ask for step in lesson(app).steps] == [asks[1], asks[0], *asks[2:], asks[3]]
    press(app, "Remove")
    press(app, "Move up", 1)
    assert [step.ask for step in lesson(app).steps] == [asks[2], asks[0], asks[3], asks[3]]
    field(app, "Question", 1).input("Another?").run()
    assert [step.ask for step in lesson(app).steps] == [asks[2], "Another?", asks[3], asks[3]]


def test_a_lesson_has_at_most_twelve_steps_and_may_have_none() -> None:
    app = editor(LESSON.name)
    for _ in range(8):
        press(app, "Duplicate")
    assert len(lesson(app).steps) == 12
    for about in ("Add a step", "Duplicate"):
        assert all(one.disabled for one in app.button if about in (one.label, one.proto.help))
    for _ in range(12):
        press(app, "Remove")
    assert [step.ask for step in lesson(app).steps] == [""]


def test_the_text_of_the_file_is_changed_and_the_form_follows() -> None:
    app = editor(LESSON.name)
    app.text_area(key=TEXT).input(written(app).replace(LESSON.title, "Another title")).run()
    assert field(app, "Title", kind="text_input").value == "Another title"
    assert lesson(app).title == "Another title"


def test_an_earlier_text_counts_if_typed_again_not_if_the_browser_is_late() -> None:
    app = editor(LESSON.name)
    first = written(app)
    field(app, "Title", kind="text_input").input("One").run()
    app.text_area(key=TEXT).set_value(first)  # as a browser sends it that has not drawn the last run yet
    field(app, "In one sentence", kind="text_input").input("A sentence.").run()
    assert (lesson(app).title, lesson(app).about) == ("One", "A sentence.")
    app.text_area(key=TEXT).input(first).run()
    assert written(app) == first
    assert field(app, "Title", kind="text_input").value == LESSON.title


def test_a_mistake_in_the_text_stays_and_is_named_with_its_line() -> None:
    app = editor(LESSON.name)
    broken = written(app).replace('about = "', "about = ")
    app.text_area(key=TEXT).input(broken).run()
    assert written(app) == broken
    assert "It is not TOML" in contents(app)
    assert "2  about = A trained model" in contents(app)
    assert "The text of the file has a mistake" in contents(app)
    again = editor(linked_name(app))  # after a reload
    assert written(again) == broken
    app.text_area(key=TEXT).input(broken.replace("tap = 1", "tipp = 1").replace("about = ", 'about = "')).run()
    assert "Step 1 has “tipp”; the known ones are" in contents(app)
    field(app, "Title", kind="text_input").input("New").run()
    assert "tipp = 1" in written(app)
    assert 'title = "New"' in written(app)


@pytest.mark.parametrize("address", ["nowhere", "https://example.org/lessons", "http://["])
def test_an_address_that_is_none_is_refused_and_the_step_keeps_its_page(address: str) -> None:
    app = editor(LESSON.name)
    field(app, "Address", kind="text_input").input(address).run()
    assert "The step still opens Explore." in errors(app)
    assert lesson(app).steps == LESSON.steps


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("weight of animal = 0.68", "weight of animal = 0.5", "“weight of animal = 0.5” does not hold"),
        ("weight of animal = 0.68", "weight of dog = 0.5", "This page has no “weight of dog”; it has weight of [CLS]"),
        ("tap = 1", 'number = "result"', "This page has no “result”"),
        ("tap = 1", 'reach = "largest weight > 0.1"', "This holds already when the step opens"),
        ('pinned = "10 · it"', 'pinned = "none"', "This page has 0 words with a weight to tap"),
    ],
)
def test_what_the_page_does_not_bear_out_is_said(old: str, new: str, mistake: str) -> None:
    app = editor(LESSON.name)
    assert old in written(app)
    app.text_area(key=TEXT).input(written(app).replace(old, new, 1)).run()
    assert mistake in errors(app)


def test_what_is_typed_is_text_everywhere() -> None:
    app = editor(LESSON.name)
    for label, kind in (("Title", "text_input"), ("In one sentence", "text_input"), ("Question", "text_area")):
        field(app, label, kind=kind).input(MARKUP).run()
    field(app, "How the answer", kind="selectbox").select("choose").run()
    field(app, "Texts to choose").input(f"{MARKUP}\nB").run()
    one = lesson(app)
    assert (one.title, one.about, one.steps[0].ask) == (MARKUP, MARKUP, MARKUP)
    assert one.steps[0].check == Choice((MARKUP, "B"), MARKUP)
    name = linked_name(app)
    for page, link in (("lessons", {"write": name}), ("lessons", {"handout": name}), ("explore", {"lesson": name})):
        shown = healthy(open_page(page, **link))
        assert all("<img src=x" not in one.body for one in shown.get("html"))
        assert all("**bold**" not in one.value for one in (*shown.markdown, *shown.error, *shown.info))
        assert all("**bold**" not in one.label for one in shown.expander)


def test_a_reader_opens_the_lesson_from_its_link_alone() -> None:
    name = name_in_link(lesson_text(LESSON))
    assert name
    reader = healthy(open_page("explore", lesson=name, layer="encoder 3", head="Head 1", pinned="10 · it"))
    assert LESSON.steps[0].ask in contents(reader)
    assert not reader.error
    [tap] = [one for one in reader.pills if one.label == "Tap one word."]
    tap.select("animal").run()
    assert "Right." in contents(reader)
    assert "Edit" not in re.findall(">([^<]*)</a>", " ".join(one.body for one in reader.get("html")))
    last = healthy(open_page("explore", lesson=name, lesson_step=5, right="1"))
    assert "1 of 3 answers were right." in contents(last)


def test_the_writer_comes_back_from_the_preview() -> None:
    app = editor(LESSON.name)
    name = linked_name(app)
    app.switch_page("../../pages/explore.py")
    app.session_state["lesson"] = name
    app.run()
    links = dict(re.findall("<a href='([^']*)'[^>]*>([^<]*)</a>", " ".join(one.body for one in app.get("html"))))
    assert links[f"/lessons?write={name}"] == "Edit"


@pytest.mark.parametrize(
    "name",
    [
        f"{IN_LINK}broken",
        IN_LINK + base64.urlsafe_b64encode(zlib.compress(bytes(5_000_000), 9)).decode(),
        "nothing",
        IN_SESSION,
    ],
    ids=["broken", "bomb", "nothing", "another's"],
)
def test_a_link_without_a_lesson_says_so_and_an_empty_one_begins(name: str) -> None:
    app = editor(name)
    assert len(app.error) == 1
    assert "empty title" in contents(app)
    reader = open_page("explore", lesson=name)
    assert not reader.exception
    assert len(reader.error) == 1


def test_a_lesson_that_is_too_long_for_a_link_stays_in_the_session() -> None:
    app = editor(LESSON.name)
    noise = "".join(chr(33 + i * i * 7919 % 9973 % 90) for i in range(15_000)).replace("'", "")
    app.text_area(key=TEXT).input(
        written(app) + "".join(f"\n# {noise[i : i + 99]}" for i in range(0, len(noise), 99))
    ).run()
    assert linked_name(app) == IN_SESSION
    assert "too long for a link" in contents(app)
    assert lesson(app).steps == LESSON.steps
    app.switch_page("../../pages/explore.py")
    app.session_state["lesson"] = IN_SESSION
    app.run()
    assert LESSON.steps[0].ask in contents(app)


def test_a_lesson_too_long_for_a_link_can_be_continued_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    app = editor()
    long = lesson_text(LESSON).replace(LESSON.about, f"{random.Random(1).randbytes(20_000).hex()}")
    app.text_area(key=TEXT).input(long).run()
    app.query_params["write"] = app.session_state["write"] = "new"
    with monkeypatch.context() as patch:
        patch.setattr(lesson_draft, "opens_in_place", lambda: True)
        healthy(app.run())
    assert written(app) != long
    press(app, "Continue it")
    assert written(app) == long
    assert "Continue it" not in [button.label for button in app.button]


def test_a_new_lesson_is_in_the_language_of_the_visitor() -> None:
    app = healthy(open_page("lessons", write="new", lang="de"))
    assert 'language = "de"' in app.text_area(key=TEXT).value


def test_a_field_shows_all_that_the_file_has() -> None:
    app = editor(LESSON.name)
    answer = "One word and another. " * 300
    app.text_area(key=TEXT).input(written(app).replace(LESSON.steps[0].answer, answer.strip())).run()
    field(app, "Title", kind="text_input").input("Another title").run()
    assert lesson(app).title == "Another title"
    assert lesson(app).steps[0].answer == answer.strip()


def upload(app: AppTest, content: bytes, name: str = "mine.toml") -> AppTest:
    app.file_uploader(key="lesson-upload").upload(name, content, "application/toml")
    return healthy(app.run())


def test_a_file_is_uploaded_and_a_bad_one_leaves_the_draft() -> None:
    app = editor()
    upload(app, b"\xef\xbb\xbf" + lesson_text(LESSON).encode())
    assert lesson(app).steps == LESSON.steps
    for content, reason in (
        (lesson_text(LESSON).replace("tap = 1", "tap = 9").encode(), "mine.toml is not accepted. Line 9: tap is 9"),
        (b"#" * (MOST_FILE_BYTES + 1), "A lesson has at most 64 KB."),
        (b"\xff", "It is not valid UTF-8"),
    ):
        upload(app, content)
        assert reason in errors(app)
        assert lesson(app).steps == LESSON.steps
    assert field(app, "Title", kind="text_input").value == LESSON.title
