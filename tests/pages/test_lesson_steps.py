"""Every step of every lesson without Streamlit: the state that it opens, the numbers that it holds, and its check."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from attnviz.lessons.checks import WEIGHT, NumberCheck, Tap
from attnviz.lessons.lesson_files import FOLDER, LESSON, STEP, read_lesson
from attnviz.pages.catalogue import read_state, view_of
from tests.support.shared_measurements import named_heads

# A translation has the same states and checks, as tests/lessons/test_lesson_files.py compares them.
ENGLISH = sorted(path for path in FOLDER.glob("*.toml") if not path.stem.startswith("de-"))


@pytest.fixture(scope="module", autouse=True)
def measured() -> Iterator[None]:
    with named_heads(map(read_lesson, ENGLISH)):
        yield


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.stem)
def test_steps_hold_what_their_file_says_and_take_the_right_answers(
    path: Path,
) -> None:
    lesson = read_lesson(path)
    for number, step in enumerate(lesson.steps, 1):
        address = urlsplit(lesson.link(number))
        assert address.path == step.page
        state = read_state(step.page, [one for one in parse_qsl(address.query) if one[0] not in (LESSON, STEP)])
        assert not state.refused
        computed = view_of(step.page, state).quantities
        assert all(one.is_right(None, computed) for one in step.holds), step.holds
        known = {one.quantity: one.other for one in reversed(step.holds)}
        match step.check:
            case NumberCheck(quantity=quantity) as check if quantity in known:
                assert check.is_right(float(known[quantity]), computed)
            case Tap(count=count) as check:
                words = [name.removeprefix(WEIGHT) for name in known if name.startswith(WEIGHT)][:count]
                assert not words or check.is_right(words, computed)
            case check:
                assert not check or not check.is_right(None, computed), "nobody has answered"
