"""Random tokens that are repeated, as the literature of induction heads has them."""

import pytest
import torch

from attnviz.analysis.head_metrics import Induction, head_metrics
from attnviz.layer import Kind
from attnviz.models.random_tokens import REPEATED, repeated_random_tokens
from tests.support.tiny_models import TEXT


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "t5", "bart"])
def test_known_tokens_come_twice_between_the_special_ones_of_a_text(loaded, name):
    model = loaded[name]
    batch, tokens, _ = repeated_random_tokens(model.text_inputs, 0, decoder=False)
    text = model.encode(TEXT)
    ids, of_text = batch["input_ids"][0].tolist(), text.batch["input_ids"][0].tolist()
    special = [ids[i] for i in tokens.special]
    assert special == [of_text[i] for i in text.source.special]
    inner = [one for i, one in enumerate(ids) if i not in tokens.special]
    half = len(inner) // 2
    assert inner[:half] == inner[half:]
    assert len({*inner}) == half == min(REPEATED, (model.limit - len(special)) // 2)
    assert not {*special} & {*inner}
    assert None not in model.tokenizer.convert_ids_to_tokens(inner)
    assert len(tokens.tokens) == len(ids)
    assert torch.equal(batch["input_ids"], repeated_random_tokens(model.text_inputs, 0, decoder=False)[0]["input_ids"])
    other = repeated_random_tokens(model.text_inputs, 1, decoder=False)[0]["input_ids"]
    assert not torch.equal(batch["input_ids"], other)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_decoder_reads_the_same_after_its_start_token(loaded, name):
    model = loaded[name]
    batch, source, target = repeated_random_tokens(model.text_inputs, 0, decoder=True)
    start, *written = batch["decoder_input_ids"][0].tolist()
    assert start == model.model.config.decoder_start_token_id
    assert written == [one for i, one in enumerate(batch["input_ids"][0].tolist()) if i not in source.special]
    assert target.special == (0,)
    assert batch["decoder_input_ids"].shape[1] <= model.limit


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "t5", "bart"])
def test_every_layer_is_measured_on_half_of_the_tokens(loaded, name):
    trace = loaded[name].layers_of_random_tokens(0)
    table = head_metrics(trace, metrics=[Induction()])
    halves = {len(layer.inputs.key_tokens) // 2 for layer in trace}
    for layer, count in zip(table.layers, table.positions["Induction"], strict=True):
        assert count == 0 if trace[layer].kind is Kind.CROSS else min(abs(count - half) for half in halves) <= 1


def test_a_model_that_reads_three_tokens_refuses(loaded, monkeypatch):
    inputs = loaded["llama"].text_inputs
    monkeypatch.setitem(inputs.__dict__, "limit", 4)  # one of them is special
    with pytest.raises(ValueError, match="reads too few tokens to repeat random ones"):
        repeated_random_tokens(inputs, 0, decoder=False)
