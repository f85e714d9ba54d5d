"""The start page plays what its model has written."""

import json

import pytest

from assets.start.make import FILE, recording


def test_the_recording_is_what_the_model_gives() -> None:
    recorded, computed = json.loads(FILE.read_text(encoding="utf-8")), recording()
    for name in ("link", "head", "tokens", "read"):
        assert recorded[name] == computed[name]
    for name in ("weights", "candidates"):
        assert len(recorded[name]) == len(computed[name])
    for before, after in zip(recorded["weights"], computed["weights"], strict=True):
        assert before == pytest.approx(after, abs=0.01)
    for before, after in zip(recorded["candidates"], computed["candidates"], strict=True):
        assert [token for token, _probability in before] == [token for token, _probability in after]
        assert [number for _token, number in before] == pytest.approx([number for _token, number in after], abs=0.01)
