"""What a model is called with for one example: which positions are read, and what is left out."""

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from attnviz import attribute
from attnviz.attribution import Logit
from attnviz.effects import Loss, ablations, knockout, logit_lens
from attnviz.tracing.forward_arguments import ForwardArguments, example_arguments
from tests.support.architectures import GPT, SMALL, SOUND, T5
from tests.support.seeded_models import IDS, SEEDED, drawn

N = 5
READ = torch.tensor([False, True, True, False, False])
CELLS = READ.expand(N, N)
LEAST = torch.finfo(torch.float32).min


def arguments(**given: Any) -> ForwardArguments:
    return ForwardArguments((), {}, given, False)


@pytest.mark.parametrize(
    "given",
    [
        {"attention_mask": READ[None].long()},
        {"attention_mask": READ[None].float()},
        {"attention_mask": READ},
        {"attention_mask": CELLS.tril()[None, None] | (torch.eye(N) * READ).bool()},
        {"attention_mask": torch.zeros(1, 1, N, N).masked_fill(~CELLS, LEAST)},
        {"attention_mask": torch.zeros(1, 1, 1, N).masked_fill(~READ, -10_000.0)},
        {"attention_mask": {"full": CELLS[None, None], "sliding": CELLS.tril()[None, None]}},
        {"src_key_padding_mask": ~READ[None]},
        {"src_key_padding_mask": torch.zeros(1, N).masked_fill(~READ, -torch.inf)},
        {"input_mask": (~READ[None]).float()},
    ],
    ids=lambda given: " ".join(f"{name} {getattr(mask, 'dtype', '')}" for name, mask in given.items()),
)
def test_what_a_mask_hides_is_not_read(given: dict[str, Any]) -> None:
    assert arguments(**given).read(N).tolist() == READ.tolist()
    assert bool(arguments(**given).read(N, of_decoder=True).all())
    with pytest.raises(ValueError, match="mask is of 5 positions, and the model computes 7"):
        arguments(**given).read(7)


@pytest.mark.parametrize("given", [{}, {"attention_mask": None}, {"attention_mask": torch.ones(1, 9)}])
def test_without_padding_all_is_read(given: dict[str, Any]) -> None:
    assert bool(arguments(**given).read(N).all())


def test_each_example_and_each_side_has_its_own_padding() -> None:
    both = torch.stack([READ, ~READ]).long()
    made = arguments(attention_mask=both, decoder_attention_mask=1 - both)
    assert [made.read(N, side, example).tolist() for side in (False, True) for example in (0, 1)] == [
        READ.tolist(),
        (~READ).tolist(),
        (~READ).tolist(),
        READ.tolist(),
    ]


def model() -> Any:
    return drawn(SEEDED["Llama"]())


@pytest.mark.parametrize(
    "more",
    [
        {"logits_to_keep": 1},
        {"logits_to_keep": torch.tensor([0, 1])},
        {"num_logits_to_keep": 1},
        {"labels": IDS},
        {"return_dict": False},
        {"past_key_values": hf.DynamicCache()},
        {"output_hidden_states": True, "output_attentions": True, "use_cache": True},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_changes_only_the_output_changes_no_number(more: dict[str, Any]) -> None:
    read, batch = model(), {"input_ids": IDS}
    own = float(read(IDS).logits[0, 2, 5])
    assert attribute(read, batch | more, Logit(5, 2)).total == pytest.approx(own, abs=1e-4)
    for function in (ablations, knockout):
        torch.testing.assert_close(
            function(read, batch | more, Logit(5, 2)), function(read, batch, Logit(5, 2)), atol=1e-5, rtol=0
        )
    torch.testing.assert_close(logit_lens(read, batch | more)[-1], read(IDS).logits[0])


def test_several_examples_and_filled_caches_are_refused() -> None:
    read = model()
    with pytest.raises(ValueError, match="for one example, and the batch holds 2"):
        ablations(read, {"input_ids": IDS.repeat(2, 1)}, Logit(5))
    filled = read(IDS, use_cache=True).past_key_values
    with pytest.raises(ValueError, match="continues the text of a cache"):
        ablations(read, {"input_ids": IDS[:, :1], "past_key_values": filled}, Logit(5))


def test_labels_are_what_a_decoder_reads() -> None:
    read, labels = drawn(hf.T5ForConditionalGeneration(hf.T5Config(**T5))), torch.tensor([[7, 8, 9]])
    shifted = {"input_ids": IDS, "decoder_input_ids": torch.tensor([[0, 7, 8]])}
    torch.testing.assert_close(
        ablations(read, {"input_ids": IDS, "labels": labels}, Loss()), ablations(read, shifted, Loss())
    )
    assert "labels" not in example_arguments(read, {"input_ids": IDS, "labels": labels}).by_name
    without = drawn(hf.BartForConditionalGeneration(hf.BartConfig(**BART)))
    with pytest.raises(ValueError, match="Give decoder_input_ids with the batch"):  # it shifts the source
        ablations(without, {"input_ids": IDS}, Loss())


BART = {
    "vocab_size": 97,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "decoder_start_token_id": 0,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "forced_eos_token_id": None,
}


def test_a_mask_of_samples_is_that_of_the_positions_made_of_them() -> None:
    read = drawn(hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**SOUND | {"do_stable_layer_norm": True})))
    sound = torch.randn(1, 600, generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(600) < 400).long()[None]
    short, padded = {"input_values": sound[:, :400]}, {"input_values": sound * mask, "attention_mask": mask}
    assert attribute(read, padded, Logit(3)).total == pytest.approx(attribute(read, short, Logit(3)).total, abs=1e-4)
    torch.testing.assert_close(ablations(read, padded, Logit(3)), ablations(read, short, Logit(3)), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("kind", "logits"),
    [("BertForPreTraining", "prediction_logits"), ("AlbertForPreTraining", "prediction_logits")],
)
def test_logits_of_tokens_beside_others_are_read(kind: str, logits: str) -> None:
    read = tiny_head(kind)
    own = float(getattr(read(IDS), logits)[0, -1, 5])
    assert attribute(read, {"input_ids": IDS}, Logit(5)).total == pytest.approx(own, abs=1e-4)
    torch.testing.assert_close(logit_lens(read, {"input_ids": IDS})[-1], getattr(read(IDS), logits)[0])


def test_logits_that_are_not_measured_are_named() -> None:
    for ask in (attribute, ablations):
        with pytest.raises(ValueError, match="but start_logits and end_logits, which are not measured"):
            ask(tiny_head("BertForQuestionAnswering"), {"input_ids": IDS}, Logit(1))


def test_a_model_that_returns_tuples_is_asked_for_names() -> None:
    read = tiny_head("BertForMaskedLM", return_dict=False)
    own = float(read(IDS)[0][0, -1, 5])
    assert attribute(read, {"input_ids": IDS}, Logit(5)).total == pytest.approx(own, abs=1e-4)


def tiny_head(kind: str, **more: Any) -> nn.Module:
    made: Any = getattr(hf, kind)
    return drawn(made(made.config_class(**SMALL | {"embedding_size": 32} | more)))


def test_loss_is_of_tokens_that_are_read_after_one_that_is() -> None:
    read = drawn(hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)))
    mask = torch.tensor([[0, 1, 1, 0, 1, 1, 1, 0]])
    from attnviz.effects.metrics import Measurement

    batch = {"input_ids": IDS, "attention_mask": mask}
    output: Any = read(**batch)
    logs: Tensor = output.logits[0].log_softmax(-1)
    expected = -torch.stack([logs[place - 1, IDS[0, place]] for place in (2, 5, 6)]).mean() / torch.tensor(2.0).log()
    found = Measurement(Loss(), read, example_arguments(read, batch)).values(output)
    assert float(found) == pytest.approx(float(expected), abs=1e-5)
    with pytest.raises(ValueError, match="All these tokens are padding, or follow it"):
        Measurement(Loss(3, 4), read, example_arguments(read, batch)).values(output)
