"""The five questions over many texts: the programs run, and are as long as the page says."""

import re
from pathlib import Path

import pytest
import torch

from attnviz import Texts
from attnviz.effects import LogitDifference, ModelPart, ablations
from tests.beside import five_questions
from tests.support.browser import ROOT
from tests.support.seeded_models import HEADS, LAYERS, OTHER, PAIRS, TEXTS, TOKEN, seeded_model

METRIC = LogitDifference(TOKEN, OTHER)
PAGE = (ROOT / "docs/five-questions.md").read_text()
CLEAN, CORRUPTED, NEUTRAL = (
    Texts(None, [{"input_ids": ids} for ids in several]) for several in (*zip(*PAIRS, strict=True), TEXTS)
)


def lines(program: str, file: str) -> int:
    """The lines of a program that are neither empty nor a mark."""
    text = (ROOT / f"tests/beside/{file}.py").read_text()
    [code] = re.findall(rf"\[start:{program}\]\n(.*?)\n# --8<-- \[end:{program}\]", text, re.DOTALL)
    return len([line for line in code.splitlines() if line.strip()])


@pytest.mark.parametrize("program", re.findall(r"\]\(#(\w+)\)", PAGE))
def test_programs_are_as_long_as_the_page_says(program: str) -> None:
    [row] = re.findall(rf"\(#{program}\) \| (\d+) \| (\d+) \|", PAGE)
    files = "five_questions", "five_questions_transformer_lens"
    assert (*map(int, row),) == (*(lines(program, file) for file in files),)
    assert all(f'"tests/beside/{file}.py:{program}"' in PAGE for file in files)


@torch.no_grad()
def test_programs_run(tmp_path: Path) -> None:
    model = seeded_model("GPT-2")
    mean, error = five_questions.mean_effects(model, CLEAN, METRIC, NEUTRAL)
    each = torch.stack([ablations(model, batch, METRIC, texts=NEUTRAL) for batch in CLEAN])
    torch.testing.assert_close(mean, each.mean(0))
    torch.testing.assert_close(error, each.std(0) / len(CLEAN) ** 0.5)
    assert five_questions.effects_on_tokens(model, CLEAN, [3, 9]).shape == (LAYERS, HEADS)
    assert five_questions.recovered_by_parts(model, CLEAN, CORRUPTED, METRIC, LAYERS).shape == (2, LAYERS)
    order = [ModelPart("output", layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    sizes, faithfulness, completeness = five_questions.circuit(model, CLEAN, METRIC, NEUTRAL, order)
    assert (sizes[-1], faithfulness[-1], completeness[-1]) == (len(order), 1, 0)
    frame, metric = five_questions.kept(model, CLEAN, METRIC, tmp_path / "effects.safetensors")
    assert (len(frame), metric) == (len(CLEAN) * LAYERS * HEADS, METRIC)
