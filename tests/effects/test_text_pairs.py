"""Texts that are patched into each other: their metrics, tokens that belong together, and what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnviz.effects import KL, Cosine, Logit, LogitDifference, Loss, Patching, Probability, patch, patch_paths
from tests.support.architectures import ZOO
from tests.support.attributions import first_example
from tests.support.output_projections import (
    CLEAN,
    HEADS,
    TARGET,
    by_head,
    changed_input,
    outputs,
    projections,
    tiny,
)
from tests.support.torch_architectures import TORCH_ZOO

LONGER = torch.tensor([[5, 44, 9, 21, 7, 30, 8, 12]])  # a token more, and another in the place of 11
ALIGNED = (0, 0), (1, 2), (3, 4), (4, 5), (5, 6), (6, 7)
CHANGED = torch.tensor([[5, 9, 21, 7, 30, 8, 12]])  # another token at position 2
METRIC = LogitDifference(5, 7)


@torch.no_grad()
def difference(name: str, ids: Tensor, position: int = -1) -> Tensor:
    logits = tiny(name)(input_ids=ids).logits[0, position].double()
    return logits[5] - logits[7]


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        *((name, METRIC) for name in ("GPT-2", "Llama", "Pythia", "Gemma 2", "Mixtral")),
        *(("Llama", metric) for metric in (Logit(5), Probability(5), KL(), KL(3), Loss(3))),
    ],
)
def test_the_stream_at_the_only_other_token_recovers_all(name: str, metric: Any) -> None:
    found = patch(tiny(name), CLEAN, CHANGED, metric, "residual")
    assert found.recovered[0, 2] == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(found.recovered[0, [0, 1, 3, 4, 5, 6]], torch.zeros(6).double(), atol=1e-4, rtol=0)


def test_all_that_a_decoder_reads_of_its_encoder_recovers_all() -> None:
    """The encoder's stream at the only other token, of a model whose decoder has written the same."""
    batches = [{"input_ids": ids, "decoder_input_ids": TARGET} for ids in (CLEAN, CHANGED)]
    found = patch(tiny("T5"), *batches, METRIC, "residual").recovered
    assert found[0, 2] == pytest.approx(1, abs=1e-4)
    assert bool(found[0, [0, 1, 3, 4, 5, 6]].abs().max() < 1e-4)
    assert bool(found[2:, : TARGET.shape[1]].abs().max() < 1)
    assert bool(found[2:, TARGET.shape[1] :].isnan().all())
    assert patch(tiny("T5"), *batches, METRIC, "residual").layers == (0, 1, 2, 4)  # a layer of the decoder has two


def test_a_text_has_nothing_to_recover_from_itself() -> None:
    found = patch(tiny("GPT-2"), CLEAN, CLEAN, METRIC)
    assert bool(found.recovered.isnan().all())
    torch.testing.assert_close(found.values, torch.full((2, HEADS), found.clean).double(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_kl_and_cosine_compare_with_the_clean_run() -> None:
    model = tiny("GPT-2")
    clean, corrupted = (model(ids).logits[0, -1].double().log_softmax(-1) for ids in (CLEAN, CHANGED))
    bits = float((clean.exp() * (clean - corrupted)).sum() / torch.tensor(2.0).log())
    found = patch(model, CLEAN, CHANGED, KL())
    assert (found.clean, found.corrupted) == (pytest.approx(0, abs=1e-9), pytest.approx(bits, rel=1e-5))
    body = model.transformer
    vectors = [body(ids).last_hidden_state[0].double().mean(0) for ids in (CLEAN, CHANGED)]
    found = patch(body, CLEAN, CHANGED, Cosine())
    assert (found.clean, found.corrupted) == (
        pytest.approx(1, abs=1e-9),
        pytest.approx(float(torch.cosine_similarity(*vectors, dim=0)), rel=1e-5),
    )


@pytest.mark.parametrize("by_position", [False, True])
@torch.no_grad()
def test_outputs_are_taken_at_aligned_tokens(by_position: bool) -> None:
    name = "Llama"
    written = outputs(name, {"input_ids": CLEAN})
    places = [[pair] for pair in ALIGNED] if by_position else [list(ALIGNED)]
    expected = torch.full((2, HEADS, LONGER.shape[1] if by_position else 1), torch.nan).double()
    for layer, projection in enumerate(projections(name)):
        for head in range(HEADS):
            for pairs in places:
                sources, targets = (list(positions) for positions in zip(*pairs, strict=True))

                def change(
                    states: Tensor, layer: int = layer, head: int = head, to: Any = targets, at: Any = sources
                ) -> None:
                    by_head(states)[:, to, head] = written[layer][:, at, head]

                with changed_input(projection, change):
                    expected[layer, head, targets[0]] = difference(name, LONGER)
    found = patch(tiny(name), CLEAN, LONGER, METRIC, aligned=ALIGNED, positions=by_position).values
    torch.testing.assert_close(found.view_as(expected), expected, atol=1e-4, rtol=0, equal_nan=True)


@pytest.mark.parametrize("what", ["query", "key", "value", "pattern"])
def test_what_is_read_at_each_position_is_patched_alone(what: Any) -> None:
    found = patch(tiny("Llama"), CLEAN, CHANGED, METRIC, what, positions=True, heads=[(1, 2), (0, 3)])
    assert found.values.shape == (2, HEADS, 7)
    assert bool(found.values[1, 2].isfinite().all())
    assert bool(found.values[0, [0, 1, 2]].isnan().all())
    same = found.values[0, 3, [0, 1, 3, 4, 5, 6]] if what != "pattern" else found.values[0, 3, [0, 1]]
    torch.testing.assert_close(same, torch.full_like(same, found.corrupted), atol=1e-5, rtol=0)


@torch.no_grad()
def test_weights_of_a_model_that_exposes_nothing_else_are_patched() -> None:
    name, model = "BLOOM", tiny("BLOOM")
    weights = model(CLEAN, output_attentions=True).attentions
    fused: list[Tensor] = []
    for block in model.transformer.h:
        with_values = block.self_attention.query_key_value
        with_values.register_forward_hook(lambda module, args, output: fused.append(output))
    model(CHANGED)
    for block in model.transformer.h:
        block.self_attention.query_key_value._forward_hooks.clear()
    expected = torch.zeros(2, HEADS).double()
    for layer, projection in enumerate(projections(name)):
        values = fused[layer].unflatten(-1, (HEADS, 3, -1))[..., 2, :]
        for head in range(HEADS):

            def change(states: Tensor, layer: int = layer, head: int = head, values: Tensor = values) -> None:
                by_head(states)[:, :, head] = weights[layer][:, head] @ values[:, :, head]

            with changed_input(projection, change):
                expected[layer, head] = difference(name, CHANGED)
    found = patch(model, CLEAN, CHANGED, METRIC, "pattern")
    torch.testing.assert_close(found.values, expected, atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="does not expose its queries and keys"):
        patch(model, CLEAN, CHANGED, METRIC, "value")


def test_positions_of_the_metric_are_those_of_the_clean_text() -> None:
    found = patch(tiny("GPT-2"), CLEAN, LONGER, LogitDifference(5, 7, position=3), aligned=ALIGNED)
    assert found.clean == pytest.approx(float(difference("GPT-2", CLEAN, 3)), rel=1e-5)
    assert found.corrupted == pytest.approx(float(difference("GPT-2", LONGER, 4)), rel=1e-5)
    found = patch(tiny("GPT-2"), CLEAN, LONGER, LogitDifference(5, 7, position=6), aligned=ALIGNED[:-1])
    assert found.corrupted == pytest.approx(float(difference("GPT-2", LONGER)), rel=1e-5)
    found = patch(tiny("GPT-2"), CLEAN, LONGER, Loss(3, 4), aligned=ALIGNED)
    logits = tiny("GPT-2")(LONGER).logits[0].detach().double().log_softmax(-1)
    losses = [-float(logits[position - 1, LONGER[0, position]]) for position in (4, 5)]
    assert found.corrupted == pytest.approx(sum(losses) / 2 / float(torch.tensor(2.0).log()), rel=1e-5)


@pytest.mark.parametrize(
    ("corrupted", "aligned", "what", "metric", "sentence"),
    [
        (LONGER, None, "output", METRIC, "The clean text has 7 tokens and the corrupted one 8"),
        (LONGER, (), "output", METRIC, "No token of the clean text belongs to one of the corrupted text"),
        (LONGER, ((0, 0), (0, 1)), "output", METRIC, "each from 0 to 6 and at most once; these are 0, 0"),
        (LONGER, ((0, 8),), "output", METRIC, "each from 0 to 7 and at most once; these are 8"),
        (LONGER, ALIGNED, "pattern", METRIC, "A pattern is taken from a text of the same number of tokens"),
        (CHANGED, ((0, 1),), "pattern", METRIC, "A pattern is taken from a text of the same number of tokens"),
        (LONGER, ALIGNED, "key", Logit(5, position=2), "The metric is of position 2 of the clean text"),
        (CHANGED, None, "score", METRIC, "What is patched is “output”, .* this is “score”"),
        (CHANGED, None, "output", Logit(999), "There is no token 999"),
    ],
)
def test_what_cannot_be_patched_is_refused(
    corrupted: Tensor, aligned: Any, what: Any, metric: Any, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        patch(tiny("GPT-2"), CLEAN, corrupted, metric, what, aligned=aligned)


@pytest.mark.parametrize("what", ["mlp", "residual"])
@pytest.mark.parametrize(
    ("architectures", "name", "sentence"),
    [
        (ZOO, "XLNet", "The examples of a batch are not the first axis of what"),  # its tokens are
        (TORCH_ZOO, "SDPA", "The layers of .* are not known, or have no MLP"),
    ],
)
def test_layers_that_cannot_be_patched_are_refused(architectures: Any, name: str, what: Any, sentence: str) -> None:
    first = first_example(next(one for one in architectures if one.name == name))
    batch = first.arguments.kwargs or first.arguments.args
    with pytest.raises(ValueError, match=sentence):
        patch(first.model, batch, batch, Cosine(), what)


def test_a_decoder_reads_as_many_tokens_in_both_texts() -> None:
    batches = [{"input_ids": CLEAN, "decoder_input_ids": ids} for ids in (TARGET, TARGET[:, :3])]
    with pytest.raises(ValueError, match="The clean text has 5 tokens and the corrupted one 3"):
        patch(tiny("T5"), *batches, METRIC)
    batches = [{"input_ids": ids, "decoder_input_ids": TARGET} for ids in (CLEAN, LONGER)]
    found: Patching = patch(tiny("T5"), *batches, METRIC, "key", positions=True, aligned=ALIGNED)
    assert bool(found.values[:2, :, [1, 3]].isnan().all())  # of the encoder, at tokens that belong to nothing
    assert bool(found.values[[3, 5]][..., [0, 2, 4, 5, 6, 7]].isfinite().all())  # of cross-attention


def test_a_patch_ends_where_nobody_wants_it() -> None:
    def stop(share: float, patching: Patching) -> None:
        raise InterruptedError

    for measured in (patch, patch_paths):
        arguments: Any = (tiny("GPT-2"), CLEAN, CHANGED, METRIC) + (((1, 0),) if measured is patch_paths else ())
        with pytest.raises(InterruptedError):
            measured(*arguments, on_progress=stop)
