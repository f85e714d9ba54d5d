"""The Needle tab of Models without a browser: the mass on a hidden fact, in a table and in words."""

import numpy as np
import pytest
import torch

from attnviz.models.minilm import minilm
from attnviz.sources.haystack import FACT, QUESTION, Haystack
from attnviz.ui.models import needle
from tests.support.app import contents, healthy, ok, open_page

TOKENS = len(FACT.replace(".", " .").split())  # of the fact: MiniLM has a token for each of its words


def whole_weights(text: str) -> tuple[np.ndarray, list[str]]:
    """The weights of all layers and heads, as the model itself computes them, and the tokens."""
    kept = minilm()
    inputs = kept.encode(text)
    with kept.lock, torch.no_grad():
        attentions = kept.model(**inputs.batch, output_attentions=True).attentions
    return torch.cat(attentions).numpy(), list(inputs.source.tokens)


@pytest.mark.parametrize("depth", [0, 40])
def test_the_table_has_the_mass_of_every_head(drawn, depth: int) -> None:
    page = ok(open_page("models", inspect="Needle", **{"needle-words": 100, "needle-depth": depth}))
    weights, tokens = whole_weights(Haystack(100, depth).text)
    first = tokens.index("secret") - 1  # the fact comes before the question
    question = slice(len(tokens) - 1 - len(QUESTION.replace("?", " ?").split()), len(tokens) - 1)
    expected = weights[:, :, question, first : first + TOKENS].sum(-1).mean(-1)
    frame = page.dataframe[0].value
    assert len(frame) == expected.size
    assert (frame[needle.MASS].diff().dropna() <= 0).all()
    for layer, head, mass, ratio in frame.itertuples(index=False):
        place = int(layer.removeprefix("encoder ")), head
        assert mass == pytest.approx(expected[place], abs=1e-5)
        assert ratio == pytest.approx(expected[place] * len(tokens) / TOKENS, rel=1e-3)
    bands = [(one.x0, one.x1, one.y0, one.y1) for one in drawn["needle-map"].figure.layout.shapes]
    last = len(tokens) - 0.5
    assert bands == [
        (-0.5, last, first - 0.5, first + TOKENS - 0.5),
        (-0.5, last, question.start - 0.5, question.stop - 0.5),
        (first - 0.5, first + TOKENS - 0.5, -0.5, last),
    ]


@pytest.mark.parametrize("special", ["Hidden", "Shown"])
@pytest.mark.parametrize("head", ["Head 3", "Mean of heads"])
def test_it_opens_for_one_head_and_for_several(head: str, special: str) -> None:
    page = open_page("models", inspect="Needle", layer="encoder 2", head=head, **{"special-tokens": special})
    text = contents(healthy(page))
    assert ("the question gives 0." in text) == (head == "Head 3")


@pytest.mark.parametrize("link", [{"needle-words": 5_000}, {"needle-words": "many"}, {"needle-depth": -4}])
def test_a_link_with_nonsense_opens(link: dict[str, object]) -> None:
    healthy(open_page("models", inspect="Needle", **link))


def test_a_model_that_reads_too_little_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.models.model.LoadedModel.limit", 48)
    page = open_page("models", inspect="Needle")
    assert "reads at most 48 tokens" in page.info[0].value
