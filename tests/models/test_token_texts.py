"""The texts of tokens that models have."""

import pytest
import torch

from attnviz.analysis.head_metrics import DuplicateToken, Induction, head_metrics
from attnviz.base.formatting import visible
from attnviz.effects.intervention_run import likeliest_tokens
from attnviz.tracing import capture


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("gpt2", ["The", "␣fox", "␣stop", ".", "fox"]),
        ("t5", ["␣The", "␣fox", "␣sto", "p.", "fox"]),
    ],
)
def test_tokens_with_and_without_a_space_are_told_apart(loaded, name, tokens) -> None:
    source = loaded[name].encode("The fox stop.fox").source
    shown = [visible(token) for i, token in enumerate(source.tokens) if i not in source.special]
    assert "".join(shown) == "".join(tokens)
    assert shown[:3] == tokens[:3]


def test_a_piece_inside_a_word_has_its_sign(loaded) -> None:
    first, *inside = loaded["bert"].encode("Foxes").source.tokens[1:-1]
    assert inside
    assert not first.startswith("##")
    assert all(token.startswith("##") for token in inside)
    assert "".join([first, *(token[2:] for token in inside)]) == "Foxes"


def test_next_tokens_have_their_spaces_and_bytes_their_numbers(loaded) -> None:
    model = loaded["gpt2"]
    names = model.tokenizer.convert_ids_to_tokens(list(range(300)))
    ids = names.index("Ġfox"), names.index("»")
    logits = torch.full((300,), -50.0)
    logits[ids[0]], logits[ids[1]] = 2.0, 1.0
    tokens = [visible(one.text) for one in likeliest_tokens(model, logits, logits, count=2)]
    assert tokens == ["␣fox", "byte 0xBB"]


@pytest.mark.parametrize(
    ("name", "text", "same"),
    [
        ("gpt2", "fox fox the dog fox dog", 2),  # “fox” at the start is another token than “ fox”
        ("bert", "Fox fox FOX", 2),  # one token in three cases
    ],
)
def test_tokens_are_the_same_by_their_ids(loaded, name, text, same) -> None:
    model = loaded[name]
    trace, inputs = model.layers(text), model.encode(text)
    ids = inputs.batch["input_ids"][0].tolist()
    assert trace[0].inputs.key_ids == tuple(ids)
    assert len(ids) - len(set(ids)) == same
    metrics = [DuplicateToken(), Induction()]
    ours = head_metrics(trace, metrics=metrics).values
    by_capture = head_metrics(capture(model.model.base_model, inputs.batch), metrics=metrics).values
    for metric in metrics:
        torch.testing.assert_close(torch.tensor(ours[metric.name]), torch.tensor(by_capture[metric.name]))
        weights = torch.cat([layer.mechanism(layer.inputs).weights for layer in trace])
        pairs = [(q, k) for q in range(len(ids)) for k in range(q) if ids[k] == ids[q]]
        shift = 0 if metric.name == DuplicateToken.name else 1
        pairs = [(q, k + shift) for q, k in pairs if k + shift < q]
        expected = sum(weights[:, q, k] for q, k in pairs) / len({q for q, _ in pairs}) if pairs else torch.nan
        torch.testing.assert_close(
            torch.tensor(ours[metric.name]).float(), torch.zeros(len(weights)) + expected, equal_nan=True
        )
