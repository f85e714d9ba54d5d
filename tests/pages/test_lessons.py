"""The Lessons page, predictions and presentation without a browser."""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from attnviz.analysis.downsampling import downsample_map
from attnviz.analysis.head_maps import head_map
from attnviz.figures.themes import MASKED_CODE
from attnviz.inputs import Inputs
from attnviz.lessons import lesson_files as library
from attnviz.lessons.checks import WEIGHT, Choice, NumberCheck, Quantities, Tap
from attnviz.lessons.lesson_files import FOLDER, LessonStep, read_lesson
from attnviz.lessons.prediction_distance import total_variation
from attnviz.mechanism import Mechanism
from attnviz.page.head_view import hide_thumbnail_rows
from attnviz.pages.catalogue import read_state, view_of
from attnviz.sources import Model
from attnviz.ui import quantities
from attnviz.ui.server import jobs
from tests.support.app import contents, healthy, linked, open_link
from tests.support.waiting import until

SHIPPED = sorted(FOLDER.glob("*.toml"))
IT, ANIMAL, STREET = 10, 2, 8


def page(name: str = "explore", link: Iterable[tuple[str, str]] = ()) -> AppTest:
    return healthy(open_link(name, link))


def html(app: AppTest) -> str:
    return unescape(" ".join(one.body for one in app.get("html")))


def weights(layer: int = 3, head: int = 1) -> torch.Tensor:
    return head_map(Model().layers()[layer].inputs, Mechanism(), head)


def lesson_links(app: AppTest) -> list[str]:
    return [link for link in re.findall(r"<a href='([^']*)'", html(app)) if "lesson=" in link]


# Lessons


def test_every_lesson_is_listed_with_its_link_and_its_questions() -> None:
    app = page("lessons")
    assert not app.error
    assert lesson_links(app) == [f"/{read_lesson(path).link()}" for path in SHIPPED]
    for path in SHIPPED:
        lesson = read_lesson(path)
        assert f">{lesson.title}</a><p>{lesson.about}</p>" in html(app)
        assert html(app).index(f">{lesson.title}</span></summary>") > html(app).index("For teachers")
        for step in lesson.steps:
            assert f"<summary>{step.ask}</summary><p>{step.answer}</p>" in html(app)


# Steps on each page, a lesson in German, and a sum over all answers; tests/pages/test_lesson_steps.py has all steps.
WALKED = {
    "01-dictionary": 4, "de-01-woerterbuch": 4, "05-scaling": 4, "07-several-heads": 4, "10-other-scores": 3,
    "13-forward-pass": 4, "14-one-word-at-a-time": 5, "16-how-it-repeats": 3, "17-why-mary": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", WALKED)
def test_a_lesson_from_step_to_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lesson, right = read_lesson(FOLDER / f"{name}.toml"), []
    published: list[Callable[[], Quantities]] = []
    publish = quantities.publish
    monkeypatch.setattr(
        quantities, "publish", lambda compute, *query: published.append(compute) or publish(compute, *query)
    )
    link = lesson.link()
    for number, step in enumerate(lesson.steps[: WALKED[name]], 1):
        address = urlsplit(link)
        assert address.path.strip("/") == step.page
        published.clear()
        app = page(step.page, parse_qsl(address.query))
        if step.page in ("write", "effects", "masks"):  # while a text is written or measured, it has no numbers
            until(partial(_has_numbers, app, published), pause=0.1)
        assert not app.error
        assert not app.warning
        assert not app.toast  # nothing in the link was refused
        assert [one.value for one in app.subheader] == [step.page.capitalize()]
        assert f"lang='{lesson.language}'>{step.ask}</p>" in html(app)
        assert "attnviz-solved" not in html(app)  # nobody has answered
        for parameter, value in lesson.steps[0].state if number == 1 else ():
            assert _shown(app.session_state[parameter]) == value
        computed = published[-1]() if published else {}
        if step.state is not None and ("part", "Why scale") not in step.state:
            view = view_of(step.page, read_state(step.page, step.state))
            assert view.quantities == pytest.approx(dict(computed), abs=1e-6)
        if solve(app, step, f"{lesson.name}-{number}"):
            assert "attnviz-solved" in html(app)
            right.append(number)
        assert f"<p class='attnviz-answer' lang='{lesson.language}'>{step.answer}</p>" in html(app)
        [link] = re.findall(r"<a href='([^']*)'[^>]*rel='next'", html(app))
    if WALKED[name] == len(lesson.steps):
        result = page(lesson.steps[-1].page, parse_qsl(urlsplit(link).query))
        checked = sum(step.check is not None for step in lesson.steps)
        assert f"{len(right)} of {checked} answers were right." in html(result)


def _has_numbers(app: AppTest, published: list[Callable[[], Quantities]]) -> bool:
    """Runs the page again, and returns whether it has numbers."""
    return bool(published or (app.run() and published))


def solve(app: AppTest, step: LessonStep, key: str) -> bool:
    """Answers a step as its file says, or reveals the answer that has to be found in the picture; returns whether it
    was answered."""
    known = {one.quantity: one.other for one in reversed(step.holds)}
    match step.check:
        case Choice(right=right):
            app.pills(key=f"choice-{key}").set_value(right).run()
        case NumberCheck(quantity=quantity) if quantity in known:
            app.number_input(key=f"number-{key}").set_value(float(known[quantity])).run()
        case Tap(count=count):
            words = [name.removeprefix(WEIGHT) for name in known if name.startswith(WEIGHT)][:count]
            app.pills(key=f"tap-{key}").set_value(words if count > 1 else words[0]).run()
        case _:
            app.toggle(key=f"reveal-{key}").set_value(True).run()
            return False
    return True


def test_without_a_lesson_no_quantities_are_computed_or_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr("attnviz.pages.lookup.blocks.row_quantities", fail)
    app = page("lookup")
    healthy(app.run())
    assert "quantities" not in app.session_state


def test_a_tapped_word_that_is_no_longer_there_is_no_exception() -> None:
    app = opened("one-head", 1)
    app.pills(key="tap-06-one-head-1").set_value("street").run()
    assert "attnviz-unsolved" in html(app)
    app.pills(key="tap-06-one-head-1").set_value("animal").run()  # one word replaces the other
    assert "attnviz-solved" in html(app)
    app.text_input(key="text").set_value("Another text.").run()
    assert "attnviz-solved" not in html(healthy(app))


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def opened(name: str, number: int) -> AppTest:
    lesson = read_lesson(next(path for path in SHIPPED if name in path.stem))
    return page(lesson.steps[number - 1].page, parse_qsl(urlsplit(lesson.link(number)).query))


def test_controls_that_a_step_does_not_name_are_folded() -> None:
    app = opened("causal", 3)  # “Write into B …”
    [folded] = [one for one in app.expander if one.label == "More"]
    keys = {one.key for one in (*folded.text_input, *folded.selectbox)}
    assert {"mask-a", "layer", "pinned"} <= keys
    assert "mask-b" not in keys
    app.text_input(key="mask-b").set_value("k < q").run()
    assert "attnviz-solved" in html(healthy(app))


def test_no_place_is_kept_for_columns_of_folded_controls() -> None:
    columns = [opened("one-sentence", step).columns for step in (2, 3)]
    assert [len(each) for each in columns] == [2 + 2, 2 + 2]  # of the lesson, and of the table and the head


def test_what_takes_time_of_the_next_step_begins_while_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    request = jobs.request

    def requested(compute: Callable[..., Any], *key: object, **options: Any) -> jobs.Job[Any]:
        begun.append(key)
        return request(compute, *key, **options)

    monkeypatch.setattr(jobs, "request", requested)
    app = opened("several-heads", 2)  # before the effects of the next step, on another page
    until(lambda: any(key[0] != "measurements" for key in begun) or not app.run(), pause=1)
    ahead = {repr(key) for key in begun if key[0] != "measurements"}
    begun.clear()
    opened("several-heads", 3)
    assert ahead & {*map(repr, begun)}


def test_a_right_answer_is_in_the_link_and_shows_why() -> None:
    app = opened("dictionary", 1)
    answer = app.number_input(key="number-01-dictionary-1")
    answer.set_value(4.0).run()
    assert "attnviz-unsolved" in html(app)
    assert app.query_params.get("right") is None
    assert "5, the value of" not in html(app)
    app.number_input(key="number-01-dictionary-1").set_value(5.0).run()
    assert "attnviz-solved" in html(app)
    assert "5, the value of" in html(app)
    assert linked(app, "right") == ["1"]
    assert "lesson-step=2&right=1" in html(healthy(app))


def test_words_with_the_largest_weights_are_tapped_in_any_order() -> None:
    app = opened("soft", 1)
    words = app.pills(key="tap-02-soft-1")
    assert words.options == ["cat", "hen", "snake", "ant", "spider"]
    words.set_value(["hen", "ant"]).run()
    assert "attnviz-unsolved" in html(app)
    app.pills(key="tap-02-soft-1").set_value(["hen", "cat"]).run()
    assert "attnviz-solved" in html(healthy(app))


def test_a_state_is_reached_by_changing_the_page() -> None:
    app = opened("soft", 3)
    assert "Not there yet." not in html(app), "nothing has been done"
    app.select_slider(key="softness").set_value("hard").run()
    assert "Not there yet." in html(app)
    app.select_slider(key="softness").set_value("uniform").run()
    assert "you are there" in html(app)
    assert linked(app, "right") == ["3"]


def test_the_page_hides_its_sentence_while_a_number_or_words_are_asked_for() -> None:
    app = opened("soft", 1)
    assert "attnviz-open-question" in html(app)
    app.pills(key="tap-02-soft-1").set_value(["hen", "cat"]).run()
    assert "attnviz-open-question" not in html(app)
    choice = html(opened("causal", 2))
    assert "attnviz-open-question" not in choice, "the page does not say which text is right"
    assert "attnviz-open-choice" in choice


def test_one_of_several_texts_is_chosen_and_the_answer_can_be_revealed() -> None:
    app = opened("causal", 2)
    app.toggle(key="reveal-08-causal-2").set_value(True).run()
    assert "Softmax shares it out" in html(app)
    assert app.query_params.get("right") is None
    app.pills(key="choice-08-causal-2").set_value("It goes to the keys that stay").run()
    assert linked(healthy(app), "right") == ["2"]


def test_the_last_step_leads_to_a_result_that_the_link_has() -> None:
    lesson = read_lesson(SHIPPED[0])
    app = page("lookup", [("lesson", lesson.name), ("lesson-step", str(len(lesson.steps) + 1)), ("right", "1.3")])
    assert "2 of 4 answers were right." in html(app)
    assert f"<a href='/{read_lesson(SHIPPED[1]).link()}'" in html(app)


def test_a_handout_has_the_questions_and_the_answers_after_them() -> None:
    lesson = read_lesson(SHIPPED[0])
    paper = html(page("lessons", [("handout", lesson.name)]))
    assert "attnviz-handout" in paper
    questions, answers = paper.split("<section>")
    for step in lesson.steps:
        assert step.ask in questions
        assert step.answer not in questions
        assert step.answer in answers


def test_the_step_before_opens_in_its_own_state() -> None:
    lesson = read_lesson(next(path for path in SHIPPED if "other-scores" in path.stem))
    before = re.search(r"<a href='([^']*)'[^>]*rel='prev'", html(opened("other-scores", 3)))
    assert before
    assert before[1] == f"/{lesson.link(2)}"


def test_another_page_leads_back_to_the_step() -> None:
    app = page("masks", [("lesson", "01-dictionary"), ("lesson-step", "2"), ("right", "1")])
    assert "This step is on the page Lookup." in html(app)
    assert f"<a href='/{read_lesson(SHIPPED[0]).link(2, ('right', '1'))}'" in html(app)


@pytest.mark.parametrize(
    ("name", "step", "right"),
    [
        ("01-dictionary", "9" * 5000, "1." + "9" * 5000),
        ("nothing", "1", ""),
        ("01-dictionary", "x", "9.x.-1"),
        ("01-dictionary", "0", "1e9"),
    ],
)
def test_junk_in_the_link_of_a_lesson_is_no_exception(name: str, step: str, right: str) -> None:
    app = page("lookup", [("lesson", name), ("lesson-step", step), ("right", right)])
    assert ("There is no lesson" in str([one.value for one in app.error])) == (name == "nothing")
    assert ("attnviz-ask" in html(app)) == (name != "nothing")


def test_a_broken_file_is_named_and_shown_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text('title = "<b>**A**</b>"\nabout = "<script>"\npage = "masks"', encoding="utf-8")
    (tmp_path / "b *x*.toml").write_text("title = 3", encoding="utf-8")
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    app = page("lessons")
    [error] = app.error
    assert error.value.replace("\\", "") == "b *x*.toml is left out. Line 1: The lesson has no about and page."
    assert r"\*x\*" in error.value
    [listed] = [one.body for one in app.get("html") if one.body.startswith("<div class='attnviz-lessons'")]
    assert (
        "<a href='/masks?lesson=a&amp;lesson-step=1' target='_self'>&lt;b&gt;**A**&lt;/b&gt;</a><p>&lt;script&gt;</p>"
        in listed
    )


# Presentation


@pytest.mark.parametrize("name", ["explore", "masks"])
def test_a_presentation_is_the_same_page_and_there_is_a_way_back(name: str) -> None:
    usual, app = page(name), page(name, [("present", "1")])
    assert app.button(key="present-switch").label == "Leave"

    def without_class(app: AppTest) -> str:
        return re.sub("<form.*?</form>", "", html(app)).strip()

    assert without_class(app).replace("&present=1", "").replace("?present=1", "") == without_class(usual)
    app.button(key="present-switch").click()
    healthy(app.run())
    assert app.button(key="present-switch").label == "Present"
    assert "present" not in app.query_params
    assert html(app) == html(usual)


def test_a_presentation_lasts_on_other_pages_and_after_changes() -> None:
    app = page("explore", [("present", "1"), ("head", "Head 3")])
    app.selectbox(key="layer").select("encoder 5").run()
    assert linked(app, "present") == ["1"]
    app.switch_page("../../pages/lessons.py").run()
    assert healthy(app).button(key="present-switch").label == "Leave"
    links = lesson_links(app)
    assert links
    assert all(link.endswith("present=1") for link in links)


def test_a_class_that_is_started_in_a_presentation_goes_on_in_it() -> None:
    app = page("explore")
    app.button(key="present-switch").click().run()
    assert "value='explore?present=1'" in html(app)


@pytest.mark.parametrize("value", ["", "true"])
def test_junk_is_no_presentation(value: str) -> None:
    assert page("lessons", [("present", value)]).button(key="present-switch").label == "Present"


# Predict, then reveal


def sent(app: AppTest) -> bytes:
    """Everything that went to the browser: of a chart, the numbers in their raw bytes."""
    protos = (getattr(one, "proto", None) for one in _all(app._tree.children.values()))
    return b"".join(proto.SerializeToString() for proto in protos if proto is not None)


def _all(blocks):
    for block in blocks:
        yield block
        yield from _all(getattr(block, "children", {}).values())


def holds(app: AppTest, number: float) -> bool:
    """Whether a weight was sent, as bytes of a chart or a table, or as text."""
    one = np.float32(number)
    raw = [one.tobytes(), one.astype("f8").tobytes(), np.float64(round(float(one), 4)).tobytes()]
    return any(part in sent(app) for part in (*raw, f"{number:.2f} of its attention".encode()))


@pytest.fixture
def predicting() -> AppTest:
    return page("explore", [("predict", "true"), ("table", "true")])


def empty_rows(app: AppTest) -> list[int]:
    """The rows of the table of weights that have none."""
    rows = re.findall(r"<tr[^>]*><th[^>]*>(?:(?!</tr>).)*</tr>", html(app).split("<tbody>")[-1], re.DOTALL)
    return [i for i, row in enumerate(rows) if not any(re.findall(r"<td[^>]*>([^<]*)</td>", row))]


def test_what_is_to_be_predicted_is_sent_nowhere_until_it_is_revealed(predicting: AppTest) -> None:
    row, other = weights()[IT], weights()[IT + 1]
    assert not any(holds(predicting, float(weight)) for weight in row)
    assert holds(predicting, float(other.max()))
    assert "it gives" not in html(predicting)
    assert b"0.68" not in sent(predicting)
    assert empty_rows(predicting) == [IT]
    predicting.pills(key="head-0-picked").select("animal").run()
    assert not any(holds(predicting, float(weight)) for weight in row)
    predicting.button(key="head-reveal").click().run()
    assert all(holds(healthy(predicting), float(weight)) for weight in row)
    assert empty_rows(predicting) == []
    assert "it gives 0.68 of its attention to animal." in html(predicting)


def mosaic(app: AppTest) -> tuple[np.ndarray, dict]:
    """The cells of the mosaic as they were sent, and its measures."""
    for chart in app.get("bidi_component"):
        size = int.from_bytes(chart.proto.bytes[:8], "little")
        header = json.loads(chart.proto.bytes[8 : 8 + size])
        if header["name"] == "attention heads":
            shape = header["figure"]["data"][0]["z"]["shape"]
            cells = np.frombuffer(chart.proto.bytes, "u1", shape[0] * shape[1], 8 + size)
            return cells.reshape(shape), header["spec"]
    raise AssertionError("no mosaic")


@pytest.mark.parametrize("layers", ["One layer", "All layers"])
def test_the_small_maps_do_not_tell_it_either(layers: str) -> None:
    hidden = 0
    cells, spec = mosaic(page("explore", [("predict", "true"), ("mosaic", layers)]))
    for tile in range(len(spec["names"])):
        bottom, left = (tile // spec["columns"] + 1) * spec["tileHeight"], tile % spec["columns"] * spec["tileWidth"]
        rows = cells[bottom - spec["height"] : bottom, left : left + spec["width"]]
        each = rows.reshape(16, -1)  # a row of cells for each query
        assert (each[IT] == MASKED_CODE).all()
        assert (np.delete(each, IT, axis=0) != MASKED_CODE).all()
        hidden += 1
    assert hidden == (72 if layers == "All layers" else 12)


@given(data=st.data())
def test_a_small_map_without_a_row_is_the_same_whatever_was_in_it(data: st.DataObject) -> None:
    queries, size = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 12))
    row = data.draw(st.integers(0, queries - 1))
    generator = torch.Generator().manual_seed(queries)
    one = torch.rand(queries, 5, generator=generator)
    other = one.clone()
    other[row] = torch.rand(5, generator=generator)
    small = min(size, queries), min(size, 5)
    tokens = tuple(map(str, range(queries))), tuple("abcde")
    inputs = Inputs(torch.zeros(1, queries, 1), *torch.zeros(2, 1, 5, 1), *tokens)
    maps = [downsample_map(each.__getitem__, inputs, cells=small).maximum[None].numpy() for each in (one, other)]
    seen = [hide_thumbnail_rows(each, queries, row) for each in maps]
    np.testing.assert_array_equal(*seen)
    for small, shown in zip(maps, seen, strict=True):
        kept = ~np.isnan(shown)
        np.testing.assert_array_equal(shown[kept], small[kept])


def test_the_overlap_of_the_prediction_is_said(predicting: AppTest) -> None:
    row = weights()[IT].numpy()
    for token in ("animal", "street"):
        predicting.pills(key="head-0-picked").select(token).run()
    for slider, points in zip(predicting.slider, (6, 2), strict=True):
        slider.set_value(points)
    predicting.button(key="head-reveal").click().run()
    prediction = np.zeros(len(row))
    prediction[[ANIMAL, STREET]] = 0.75, 0.25
    text = html(healthy(predicting))
    assert "The most important key is animal, with 0.68: as you predicted." in text
    overlap = 1 - total_variation(prediction, row)
    assert f"Your prediction and the attention overlap by {overlap:.2f}: 0.68 on animal and 0.050 on street" in text
    predicting.button(key="head-again").click().run()
    assert predicting.button(key="head-reveal").disabled
    assert not any(holds(healthy(predicting), float(weight)) for weight in row)


def test_another_head_or_query_is_another_question(predicting: AppTest) -> None:
    predicting.pills(key="head-0-picked").select("street").run()
    predicting.button(key="head-reveal").click().run()
    assert "street, which you predicted, gets 0.050." in html(predicting)
    predicting.selectbox(key="head").select("Head 4").run()
    assert predicting.button(key="head-reveal").disabled
    assert not any(holds(healthy(predicting), float(weight)) for weight in weights(head=4)[IT])
    predicting.selectbox(key="pinned").select("6 · cross").run()
    assert not any(holds(healthy(predicting), float(weight)) for weight in weights(head=4)[6])
    predicting.selectbox(key="pinned").select("none").run()
    assert "Pin a query to predict where it looks." in contents(healthy(predicting))


def test_more_than_five_keys_are_no_prediction(predicting: AppTest) -> None:
    for token in ("[CLS]", "The", "animal", "didn", "cross", "street"):
        predicting.pills(key="head-0-picked").select(token).run()
    assert "At most 5 keys: take one back." in [one.value for one in predicting.caption]
    assert predicting.button(key="head-reveal").disabled


@pytest.mark.parametrize(
    "link",
    [
        [("text", "the same word the same word the"), ("pinned", "2 · same")],
        [("text", "*stars* `ticks` $math$ :material/home: [a](b) <b>"), ("pinned", "1 · *")],
        [("text", " ".join(["long"] * 60)), ("pinned", "30 · long")],
        [("mask", "Causal"), ("pinned", "0 · [CLS]")],
        [("head", "Maximum of heads")],
        [("special-tokens", "Hidden")],
        [("normalizer", "Differential")],
        [("mask", "Padding"), ("mask.keys", "0")],
    ],
)
def test_whatever_is_predicted_can_be_revealed(link: list[tuple[str, str]]) -> None:
    app = page("explore", [("predict", "true"), *link])
    picks = [*app.pills, *app.multiselect]
    picks = [one for one in picks if "picked" in str(one.key)]
    if not picks:
        assert "There is nothing to predict" in json.dumps([one.value for one in app.info])
        return
    picks[0].select(re.sub(r"\\(.)", r"\1", picks[0].options[0])).run()
    app.button(key="head-reveal").click().run()
    assert not healthy(app).error
    assert "The most important key is" in html(app)


def test_a_step_of_a_lesson_is_not_the_step_of_a_training() -> None:
    app = page(
        "transformer", [("tab", "How attention forms"), ("step", "200"), ("lesson", read_lesson(SHIPPED[0]).name)]
    )
    assert not app.error
    assert linked(app, "step") == ["200"]
