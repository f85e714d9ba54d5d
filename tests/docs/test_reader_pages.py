"""The pages for each reader: their plans, numbers and versions are those of the code and of the programs on them."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnviz.effects import LogitDifference, group_effects, head_circuits, patch
from attnviz.models.smollm2 import smollm2
from tests.docs.test_examples import programs
from tests.support.effects_by_hand import MARY, OTHER

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("minutes", [45, 90])
def test_a_plan_for_teachers_has_lessons_that_fit_its_minutes(minutes: int) -> None:
    page = (DOCS / "for-teachers.md").read_text("utf-8")
    [section] = re.findall(rf"^## {minutes} minutes.*?(?=^## )", page, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", section, re.MULTILINE)
    assert sum(int(count) for count, _ in rows) == minutes
    planned = {title for _, what in rows for title in re.findall(r"\*\*(.+?)\*\*", what)}
    files = (ROOT / "assets" / "lessons").glob("[0-9]*.toml")
    assert planned
    assert planned <= {tomllib.loads(path.read_text("utf-8"))["title"] for path in files}


def test_numbers_of_what_maps_tell_are_those_of_its_program() -> None:
    page = DOCS / "what-maps-tell.md"
    [program] = programs(page)
    prose = page.read_text("utf-8").split("## The numbers")[0].replace("−", "-")
    prose = re.sub(r"\]\(.*?\)", "]", prose)  # without addresses
    names = set(re.findall(r"(?<=[Hh]ead )\d+\.\d+", prose))  # of heads
    numbers = set(re.findall(r"-?\d+\.\d+", prose)) - names
    assert len(numbers) > 20
    assert [number for number in numbers if number not in program] == []


def text_of(page: str) -> str:
    return " ".join((DOCS / page).read_text("utf-8").replace("−", "-").split())


def mary_or_john() -> tuple[Mapping[str, Tensor], Mapping[str, Tensor], LogitDifference]:
    """The text, that in which Mary gives, and the logit of “Mary” above that of “John”."""
    model = smollm2()
    mary, john = (model.text_inputs.word_ids(name)[0] for name in ("Mary", "John"))
    clean, corrupted = (model.encode(text).batch for text in (MARY, OTHER))
    return clean, corrupted, LogitDifference(mary, john)


@torch.no_grad()
def test_what_a_head_reads_recovers_what_the_page_on_patching_says() -> None:
    clean, corrupted, metric = mary_or_john()
    runs = smollm2().model, clean, corrupted, metric
    values = patch(*runs, "value", heads=[(23, 3)], positions=True).recovered[23, 3]
    query = float(patch(*runs, "query", heads=[(23, 3)]).recovered[23, 3])
    assert values.argmax() == 9  # the name that is said twice
    assert f"its value at this name recovers {values[9]:.2f}, its query {query:.2f}." in text_of("patching.md")


@torch.no_grad()
def test_the_effect_by_zeros_is_that_of_the_page_on_effects() -> None:
    batch, _, metric = mary_or_john()
    by_zeros = group_effects(smollm2().model, batch, metric, [[(0, 0)], [(1, 3)]], how="zero")
    page = text_of("effects.md")
    assert f"0.0 has {by_zeros[0]:.2f} by zero" in page
    assert f"has an effect of {by_zeros[1]:.2f} by zero" in page


def test_copying_scores_are_those_of_the_page_on_circuits() -> None:
    model, heads = smollm2().model, ((23, 3), (24, 4))
    embedded, later = head_circuits(model), head_circuits(model, tokens="first layer")
    scores = [float(embedded.copying[head]) for head in heads]
    page = text_of("circuits.md")
    assert f"have copying scores of {scores[0]:.2f} and {scores[1]:.2f} by embeddings" in page
    assert [round(float(later.copying[head]), 2) for head in heads] == [-0.98, -0.98]
    assert "and both -0.98 after the first layer: then 56 % and 60 % of the tokens" in page
    tokens = torch.randperm(49152, generator=torch.Generator().manual_seed(0))[:400]
    for head, share in zip(heads, (0.56, 0.60), strict=True):  # of all tokens; here of some
        lowest = (later.own_ranks(*head, tokens) >= 49152 - 10).float().mean()
        assert float(lowest) == pytest.approx(share, abs=0.075)  # three standard errors


def test_the_version_of_transformer_lens_is_that_of_the_oracles() -> None:
    [version] = re.findall(r"transformer-lens==(\S+)", (ROOT / "Makefile").read_text("utf-8"))
    assert f"TransformerLens {version} within" in (DOCS / "for-interpretability.md").read_text("utf-8")
