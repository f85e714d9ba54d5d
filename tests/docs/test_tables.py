"""The tables of the documentation are those that the code has today, and its numbers those of the tests."""

from pathlib import Path

import pytest

from attnviz import settings
from attnviz.masks import MASKS
from attnviz.mechanism import BLOCK
from docs.tools.cluster_plan import Rates, cluster_plan
from docs.tools.hooks import CATALOGUE, PLAN
from docs.tools.pictures import FOLDER as PICTURES
from docs.tools.pictures import NAMES
from docs.tools.tables import ARCHITECTURES, README, SUPPORT, architectures, masks, support

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_architectures_is_that_of_the_tests() -> None:
    assert ARCHITECTURES.read_text("utf-8") == architectures(), "run python -m docs.tools.tables"


def test_the_table_of_readme_has_the_numbers_of_the_tests() -> None:
    assert SUPPORT.findall(README.read_text("utf-8")) == [support()], "run python -m docs.tools.tables"


def test_the_table_of_masks_has_them_all_with_their_rules() -> None:
    assert all(f"| `{mask()}` | {mask().describe()} |" in masks() for mask in MASKS)
    assert CATALOGUE in (DOCS / "masks.md").read_text("utf-8")


def test_the_plan_for_clusters_follows_from_its_rates() -> None:
    rates = Rates(pairs=1e9, task=0.001, cores=2, bytes=1e30)
    assert rates.seconds(1 << 20, nodes=1) == pytest.approx((1 << 39) / 2e9)
    assert rates.seconds(1 << 20, nodes=64) == pytest.approx((1 << 39) / 128e9)
    assert Rates(task=1, cores=10**9).seconds(1 << 20, nodes=64) == pytest.approx(2048, rel=0.01)
    assert rates.seconds(1 << 10, nodes=64) == pytest.approx(0.002)  # two blocks, one after the other
    slow = Rates(pairs=1e30, task=0, bytes=1024)
    assert slow.seconds(1024, nodes=4) == pytest.approx(3 * 2 * 64 * 4)  # to the first, and twice as many each time
    assert "| 64 | 1024 | " in cluster_plan()
    page = (DOCS / "cluster.md").read_text("utf-8")
    assert PLAN in page
    assert f"{Rates().pairs / 1e6:.0f} million" in page
    assert f"{1000 * Rates().task:.0f} ms for each task of {BLOCK} queries" in " ".join(page.split())


def test_every_setting_is_on_the_page_for_hosts() -> None:
    page = (DOCS / "hosting.md").read_text("utf-8")
    assert [name for name in settings.NAMES if f"| `{name}` |" not in page] == []


def test_every_picture_is_of_a_state_and_on_a_page() -> None:
    files = {path.stem for path in PICTURES.iterdir()}
    assert files == {*NAMES}
    pages = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    assert [name for name in files if f"pictures/{name}.webp" not in pages] == []


def test_pictures_stay_small() -> None:
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) <= 3_000_000
