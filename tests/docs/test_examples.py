"""The programs in README and on the pages of the documentation run, and draw what they say."""

import re
from pathlib import Path

import numpy as np
import pytest

from attnviz import figures

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def programs(page: Path) -> list[str]:
    """The programs of a page, each of which may use what those before it have made."""
    text = page.read_text("utf-8")
    found = FENCE.findall(text)
    assert text.count("```python") == len(found)
    return [re.sub(rf"^{indent}", "", program, flags=re.MULTILINE) for indent, program in found]


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if programs(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_of_a_page_run_one_after_the_other(page: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attnviz.notebook.page_viewer.MOST_STATES", 20)  # of a file, which takes a minute else
    names: dict[str, object] = {"__name__": "__main__"}
    for program in programs(page):
        exec(compile(program, page.name, "exec"), names)


def test_what_the_mask_forbids_has_no_weight_in_the_heatmap(monkeypatch) -> None:
    drawn = []
    heatmap = figures.heatmap
    monkeypatch.setattr(figures, "heatmap", lambda *args: drawn.append(heatmap(*args)))
    exec(programs(ROOT / "docs" / "library.md")[0], {})
    [chart] = drawn
    count = len(chart.spec.query_tokens)
    distance = np.arange(count)[:, None] - np.arange(count)
    np.testing.assert_array_equal(np.isnan(chart.figure.data[0].z), (distance < 0) | (distance >= 4))
