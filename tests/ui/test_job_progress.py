"""What is said of the time that a computation takes."""

import pytest

from attnviz.ui.job_progress import JUST_BEGUN, _duration


@pytest.mark.parametrize(
    ("past", "left", "sentence"),
    [
        (0, None, "It has just begun."),
        (JUST_BEGUN, None, "How long it will take is not known yet."),
        (3, 0.2, "About 1 s are left."),
        (3, 89, "About 89 s are left."),
        (3, 118, "About 2 minutes are left."),
    ],
)
def test_the_time_that_is_left(past: float, left: float | None, sentence: str) -> None:
    assert _duration(past, left) == sentence
