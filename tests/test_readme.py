"""The programs in README run, and draw what it says."""

import re
from pathlib import Path

import numpy as np
import pytest

from attnviz import figures

README = (Path(__file__).parents[1] / "README.md").read_text()
PROGRAMS = [one for one in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if one.startswith("from attnviz")]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_run(program: str) -> None:
    exec(program, {})


def test_what_the_mask_forbids_has_no_weight_in_the_heatmap(monkeypatch) -> None:
    drawn = []
    heatmap = figures.heatmap
    monkeypatch.setattr(figures, "heatmap", lambda *args: drawn.append(heatmap(*args)))
    [program] = [one for one in PROGRAMS if "figures.heatmap" in one]
    exec(program, {})
    [chart] = drawn
    count = len(chart.spec.query_tokens)
    distance = np.arange(count)[:, None] - np.arange(count)
    np.testing.assert_array_equal(np.isnan(chart.figure.data[0].z), (distance < 0) | (distance >= 4))
