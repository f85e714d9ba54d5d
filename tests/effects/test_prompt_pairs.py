"""Pairs of prompts with their answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from attnviz.effects import LogitDifference, PromptPairs, patch
from attnviz.models.smollm2 import smollm2

TEXT = "Ann and Tom slept. {} told"
ROWS = [(TEXT.format("Tom"), TEXT.format("Ann"), "Ann", "Tom"), (TEXT.format("Ann"), TEXT.format("Tom"), "Tom", "Ann")]


def test_pairs_are_patched_one_after_the_other() -> None:
    model = smollm2()
    pairs = PromptPairs.read(model, ROWS)
    ann, tom = (model.text_inputs.word_ids(name)[0] for name in ("Ann", "Tom"))
    assert [*pairs.metric] == [LogitDifference(ann, tom), LogitDifference(tom, ann)]
    found = patch(model.model, *pairs, heads=[(23, 3)])
    alone = patch(model.model, *(model.encode(text).batch for text in ROWS[1][:2]), pairs.metric[1], heads=[(23, 3)])
    assert float(found[1].values[23, 3]) == pytest.approx(float(alone.values[23, 3]))
    assert found[0].clean == pytest.approx(found[1].corrupted * -1)


def test_pairs_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    named = dict(zip(("clean", "corrupted", "answer", "other"), ROWS[1], strict=True))
    path.write_text("\n".join(map(json.dumps, [ROWS[0], named])), "utf-8")
    read, given = PromptPairs.read(smollm2(), path), PromptPairs.read(smollm2(), ROWS)
    assert (read.clean.strings, read.corrupted.strings) == (given.clean.strings, given.corrupted.strings)
    assert read.metric.each == given.metric.each


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("a", "b", "Ann"), "Row 1 is not"),
        ({"clean": "a"}, "Row 1 is not"),
        ("abcd", "Row 1 is not"),
        (("a", "b", "Ann", "Ann"), "begin with the same token"),
    ],
)
def test_a_row_that_is_no_pair_is_refused(row: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PromptPairs.read(smollm2(), [row])
