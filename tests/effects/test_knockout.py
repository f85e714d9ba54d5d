"""Keys that are hidden: against masks, of the model's own and of interventions."""

import pytest
import torch

from attnviz import Intervention, run
from attnviz.effects import LogitDifference, knockout
from attnviz.masks import parse
from tests.support.output_projections import CLEAN, TINY, tiny

METRIC = LogitDifference(5, 7)
TOKENS = CLEAN.shape[1]


def difference(output: object) -> float:
    logits = output.logits if hasattr(output, "logits") else output["logits"]  # type: ignore[index]
    return float(logits[0, -1, 5].double() - logits[0, -1, 7].double())


@pytest.mark.parametrize("name", ["BERT", "T5", "BART"])
@torch.no_grad()
def test_a_hidden_word_is_a_padded_one_where_all_words_see_all(name: str) -> None:
    model, batch = tiny(name), TINY[name].batch()
    before, expected = difference(model(**batch)), []
    for key in range(TOKENS):
        mask = torch.ones_like(CLEAN)
        mask[0, key] = 0
        expected.append(difference(model(**batch, attention_mask=mask)) - before)
    torch.testing.assert_close(knockout(model, batch, METRIC), torch.tensor(expected).double(), atol=2e-5, rtol=0)


@torch.no_grad()
def test_in_the_self_attention_of_a_decoder_its_own_words_are_hidden() -> None:
    model, batch = tiny("BART"), TINY["BART"].batch()
    written, layer = batch["decoder_input_ids"].shape[1], 2  # after the two layers of the encoder
    before, expected = difference(model(**batch)), []
    for key in range(written):
        change = Intervention(parse(f"((h != 1) | (k != {key})) & causal"), layers=(layer,))
        expected.append(difference(run(model, batch, change)) - before)
    assert written != TOKENS
    effects = knockout(model, batch, METRIC, layer=layer, head=1)
    torch.testing.assert_close(effects, torch.tensor(expected).double(), atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("layer", "head", "mask"), [(None, None, "k != {}"), (1, None, "k != {}"), (0, 2, "(h != 2) | (k != {})")]
)
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2"])
@torch.no_grad()
def test_a_hidden_word_is_one_that_a_mask_forbids(name: str, layer: int | None, head: int | None, mask: str) -> None:
    model, batch = tiny(name), TINY[name].batch()
    before, expected = difference(model(**batch)), []
    for key in range(TOKENS):
        hidden = Intervention(sparse=parse(mask.format(key)), layers=None if layer is None else (layer,))
        expected.append(difference(run(model, batch, hidden)) - before)
    found = knockout(model, batch, METRIC, layer=layer, head=head)
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=2e-5, rtol=0)
    assert float(found.abs().max()) > 0.01
