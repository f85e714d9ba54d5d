"""The tables of the documentation are those that the code has today, and its numbers those of the tests."""

import re
import tomllib
from pathlib import Path

import pytest
from PIL import Image

from attnviz.base import settings
from attnviz.masks import MASKS
from attnviz.mechanism import BLOCK
from attnviz.models import gguf_keys
from docs.tools.cluster_plan import Rates, cluster_plan
from docs.tools.film import FILMS, SIZE
from docs.tools.hooks import CATALOGUE, COSTS, GGUF_KEYS, LESSONS, PLAN, SHARED_GGUF_KEYS
from docs.tools.pictures import FILM, NAMES
from docs.tools.pictures import FOLDER as PICTURES
from docs.tools.tables import (
    ARCHITECTURES,
    COST_TOKENS,
    README,
    SUPPORT,
    architectures,
    gguf_own_keys,
    gguf_shared_keys,
    lessons,
    mask_costs,
    masks,
    support,
)
from tests.support.image_models import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"
LESSON_FILES = DOCS.parent / "assets" / "lessons"


def test_the_table_of_architectures_is_that_of_the_tests() -> None:
    assert ARCHITECTURES.read_text("utf-8") == architectures(), "run python -m docs.tools.tables"


def test_the_table_of_readme_has_the_numbers_of_the_tests() -> None:
    assert SUPPORT.findall(README.read_text("utf-8")) == [support()], "run python -m docs.tools.tables"


def test_the_table_of_masks_has_them_all_with_their_rules() -> None:
    assert all(f"| `{mask()}` | {mask().describe()} |" in masks() for mask in MASKS)
    assert CATALOGUE in (DOCS / "masks.md").read_text("utf-8")


def test_the_table_of_layouts_has_the_families_of_the_tests() -> None:
    table = (DOCS / "images.md").read_text("utf-8").split("| family |")[1]
    assert re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE) == [family.name for family in FAMILIES]


def test_the_tables_of_gguf_have_each_key_of_each_architecture() -> None:
    rows = {row.split("`")[1]: row for row in gguf_own_keys().splitlines()[2:]}
    for kind, architecture in gguf_keys.ARCHITECTURES.items():
        assert {*rows} >= {*architecture.keys}
        for key, row in rows.items():
            role = gguf_keys.key_class(f"{kind}.{key}", kind)
            role = "only " if role == gguf_keys.ONE_VALUE else role
            [said] = [part for part in row.split("; ") if kind in re.split(r"[ ,:|]+", part)] or [row.split("; ")[0]]
            assert f"{role}" in said, (key, kind)
    shared = gguf_shared_keys()
    assert all(f"`{key}`" in shared for key in (*gguf_keys.READ, *gguf_keys.SHARED_ONLY, *gguf_keys.SHARED_NO_EFFECT))
    text = (DOCS / "gguf.md").read_text("utf-8")
    assert GGUF_KEYS in text
    assert SHARED_GGUF_KEYS in text
    assert all(kind in text for kind in gguf_keys.ARCHITECTURES)


def test_the_table_of_lessons_has_them_all_with_their_languages() -> None:
    files = [(path.stem, tomllib.loads(path.read_text("utf-8"))) for path in LESSON_FILES.glob("*.toml")]
    english = [(name, lesson) for name, lesson in files if "language" not in lesson]
    rows = {row[2:4]: row for row in lessons().splitlines()[2:]}
    assert {*rows} == {name[:2] for name, _ in english}
    for name, lesson in english:
        is_translated = any(other.startswith(f"de-{name[:2]}") for other, _ in files)
        assert f" {lesson['about']}{' *Deutsch*' * is_translated} | " in rows[name[:2]]
        assert f"**{lesson['title']}" in rows[name[:2]]
        assert rows[name[:2]].endswith(f" | {len(lesson['steps'])} |")
    assert LESSONS in (DOCS / "for-teachers.md").read_text("utf-8")


def test_the_table_of_costs_says_what_its_page_says() -> None:
    rows = [[cell.strip("` \u00a0%") for cell in row.strip("| ").split(" | ")] for row in mask_costs().splitlines()[2:]]
    costs = {mask: (float(pairs), float(blocks), cached) for mask, pairs, blocks, _, cached in rows}
    window = costs["sliding_window(4096)"]
    assert window[0] == pytest.approx(100 * (4096 * COST_TOKENS - 4096 * 4095 / 2) / COST_TOKENS**2, rel=1e-2)
    pairs, blocks, _ = costs["causal & dilated_window(4096, 4)"]
    assert (pairs, blocks) == (pytest.approx(window[0] / 4, rel=1e-2), pytest.approx(window[1], rel=1e-2))
    stride = costs["causal & (q - k) % 8 == 0"]
    assert stride[1] == costs["causal"][1]
    assert int(stride[2].replace(",", "")) > 0.99 * COST_TOKENS
    assert COSTS in (DOCS / "for-kernel-engineers.md").read_text("utf-8")


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
    assert files == {*NAMES, *FILMS.values()} - {FILM}
    pages = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    assert [name for name in files if f"pictures/{name}.webp" not in pages] == []


def test_pictures_stay_small() -> None:
    sizes = {path.stem: path.stat().st_size for path in PICTURES.iterdir()}
    assert all(sizes.pop(name) <= 2_000_000 for name in FILMS.values())
    assert sum(sizes.values()) <= 3_000_000


@pytest.mark.parametrize("name", FILMS.values())
def test_a_film_of_a_few_seconds_begins_again(name: str) -> None:
    with Image.open(PICTURES / f"{name}.webp") as film:
        frames = film.n_frames
        film.seek(frames - 1)
        film.load()
        assert (film.size, film.info["loop"]) == (SIZE, 0)
        assert 8_000 <= film.info["timestamp"] + film.info["duration"] <= 14_000
        assert frames >= 40
