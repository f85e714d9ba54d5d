"""The logit lens: against models' own logits, and against what follows their layers, written out here."""

import threading
from collections.abc import Callable
from dataclasses import replace
from math import log2
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from attnviz.effects import LayerPredictions, layer_predictions, logit_lens
from attnviz.models.smollm2 import smollm2
from attnviz.tracing.forward_arguments import forward_arguments
from attnviz.tracing.residual_stream import residual_stream
from tests.support.architectures import BOTH, GROUPED, SLIDING, SMALL, T5, WORDS, ZOO, Architecture, both, text
from tests.support.seeded_models import IDS, seeded_model

HEADS = [
    auto
    for auto in ("AutoModelForSeq2SeqLM", "AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForImageTextToText")
    for auto in [getattr(hf, auto)]
]
MARY = "When Mary and John went to the store, John gave the ball to"


def first(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value[:1] for name, value in batch.items()}


def drawn(model: Any) -> Any:
    """The model with all its parameters drawn, those of norms too."""
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.3, 0.3, generator=generator)
    return model.eval()


def llama() -> Any:
    return drawn(hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)))


def head_of_bert(model: Any, state: Tensor) -> Tensor:
    transform = model.cls.predictions.transform
    return model.cls.predictions.decoder(transform.LayerNorm(nn.functional.gelu(transform.dense(state))))


def head_of_gemma2(model: Any, state: Tensor) -> Tensor:
    return 30 * torch.tanh(model.lm_head(model.model.norm(state)) / 30)


# What follows the layers of a model, as its paper has it.
BY_HAND: dict[str, tuple[Callable[[], Any], Callable[[Any, Tensor], Tensor]]] = {
    "GPT-2": (
        lambda: seeded_model("GPT-2"),
        lambda model, state: model.transformer.ln_f(state) @ model.transformer.wte.weight.T,
    ),
    "Llama": (lambda: seeded_model("Llama"), lambda model, state: model.lm_head(model.model.norm(state))),
    "Pythia": (
        lambda: seeded_model("Pythia"),
        lambda model, state: model.get_output_embeddings()(model.gpt_neox.final_layer_norm(state)),
    ),
    "Gemma 2": (
        lambda: drawn(hf.Gemma2ForCausalLM(hf.Gemma2Config(**SLIDING, head_dim=16, final_logit_softcapping=30.0))),
        head_of_gemma2,
    ),
    "Cohere": (
        lambda: drawn(hf.CohereForCausalLM(hf.CohereConfig(**GROUPED, logit_scale=0.25))),
        lambda model, state: model.lm_head(model.model.norm(state)) / 4,
    ),
    "Granite": (
        lambda: drawn(hf.GraniteForCausalLM(hf.GraniteConfig(**GROUPED, logits_scaling=8.0))),
        lambda model, state: model.lm_head(model.model.norm(state)) / 8,
    ),
    "T5": (
        lambda: drawn(hf.T5ForConditionalGeneration(hf.T5Config(**T5, tie_word_embeddings=True))),
        lambda model, state: model.decoder.final_layer_norm(state) * 32**-0.5 @ model.shared.weight.T,
    ),
    "BART": (
        lambda: drawn(hf.BartForConditionalGeneration(hf.BartConfig(**BOTH))),
        lambda model, state: model.lm_head(state) + model.final_logits_bias,
    ),
    "BERT": (lambda: drawn(hf.BertForMaskedLM(hf.BertConfig(**SMALL))), head_of_bert),
}


def batch_of(model: Any) -> dict[str, Tensor]:
    return first(both()) if model.config.is_encoder_decoder else {"input_ids": IDS}


@torch.no_grad()
def states_of(model: Any, batch: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """The states between layers, as transformers returns them; the last one has the final norm, where there is one."""
    output = model(**batch, output_hidden_states=True)
    states = output.decoder_hidden_states if model.config.is_encoder_decoder else output.hidden_states
    return tuple(states)


@torch.no_grad()
@pytest.mark.parametrize("name", BY_HAND)
def test_logits_are_those_of_the_norm_and_the_head_by_hand(name: str) -> None:
    make, after_layers = BY_HAND[name]
    model = make()
    batch = batch_of(model)
    logits, states = logit_lens(model, batch), states_of(model, batch)
    assert logits.shape == (len(states), states[0].shape[1], model.config.vocab_size)
    for row, state in zip(logits[:-1], states[:-1], strict=True):
        torch.testing.assert_close(row, after_layers(model, state)[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits[-1], model(**batch).logits[0], atol=0, rtol=0)
    assert (logits[1] - logits[0]).abs().max() > 0.01


def language_models() -> list[Architecture]:
    """The architectures of texts with a head that predicts tokens."""
    models = []
    for architecture in ZOO:
        config = getattr(hf, architecture.config)
        auto = next((head for head in HEADS if config in head._model_mapping), None)
        if auto is not None and "input_features" not in architecture.given():
            models.append(replace(architecture, auto=auto.__name__))
    return models


@torch.no_grad()
@pytest.mark.parametrize("architecture", language_models(), ids=lambda architecture: architecture.name)
def test_the_stream_of_an_architecture_leads_to_its_own_logits(architecture: Architecture) -> None:
    model, batch = architecture.model(), first(architecture.given())
    stream = residual_stream(model, forward_arguments(model, (batch,), {}))
    own = model(**batch).logits
    torch.testing.assert_close(stream.output_of(stream.states[-1]).logits, own, atol=1e-6, rtol=0)
    output = model(**batch, output_hidden_states=True)
    states = getattr(output, "decoder_hidden_states", None) or output.hidden_states
    for state, other in zip(stream.states[1:-1], states[1:-1], strict=True):
        torch.testing.assert_close(state.flatten(), other.flatten(), atol=1e-6, rtol=0)
    logits = logit_lens(model, batch)
    for row, state in zip(logits, stream.states, strict=True):  # of several states at once
        torch.testing.assert_close(row, stream.output_of(state).logits[0], atol=1e-5, rtol=1e-5)
    assert (logits[0] - own).abs().max() > 1e-3


def test_layers_that_end_with_a_norm_are_noticed() -> None:
    batch = {"input_ids": IDS}
    assert layer_predictions(drawn(hf.BertForMaskedLM(hf.BertConfig(**SMALL))), batch).is_normalized
    assert not layer_predictions(llama(), batch).is_normalized


@torch.no_grad()
def test_a_layer_that_runs_again_and_again_has_a_row_for_each_time() -> None:
    model = hf.AlbertForMaskedLM(hf.AlbertConfig(**SMALL | {"num_hidden_layers": 5}, embedding_size=16)).eval()
    logits, states = logit_lens(model, {"input_ids": IDS}), states_of(model, {"input_ids": IDS})
    assert len(logits) == len(states) == 6
    for row, state in zip(logits, states, strict=True):
        torch.testing.assert_close(row, model.predictions(state)[0], atol=1e-6, rtol=0)
    assert not torch.allclose(states[4], states[5])


class Decoder(nn.Module):
    """A language model of torch alone."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = nn.Linear(16, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.layers(self.embedding(ids), mask=mask, is_causal=True))


@torch.no_grad()
def test_a_model_of_torch_alone_is_read() -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    logits, state = logit_lens(model, IDS), model.embedding(IDS)
    mask = nn.Transformer.generate_square_subsequent_mask(IDS.shape[1])
    for row, layer in zip(logits, [None, *model.layers.layers], strict=True):
        state = state if layer is None else layer(state, mask, is_causal=True)
        torch.testing.assert_close(row, model.head(model.layers.norm(state))[0], atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def predicted() -> tuple[Tensor, LayerPredictions]:
    model, batch = llama(), {"input_ids": torch.arange(40)[None]}
    return logit_lens(model, batch), layer_predictions(model, batch, token=5, count=3)


def test_predictions_are_those_of_the_logits(predicted: tuple[Tensor, LayerPredictions]) -> None:
    logits, shown = predicted
    for layer in range(len(logits)):
        for position in (0, 23, 24, 39):
            probabilities = logits[layer, position].double().softmax(-1).tolist()
            order = sorted(range(WORDS), key=lambda token: -probabilities[token])
            assert shown.tokens[layer, position].tolist() == order[:3]
            expected = torch.tensor([probabilities[token] for token in order[:3]])
            torch.testing.assert_close(shown.probabilities[layer, position], expected)
            entropy = -sum(p * log2(p) for p in probabilities)
            assert float(shown.entropy[layer, position]) == pytest.approx(entropy, abs=1e-5)
            assert float(shown.logit[layer, position]) == float(logits[layer, position, 5])
            assert float(shown.probability[layer, position]) == pytest.approx(probabilities[5], abs=1e-7)
            assert int(shown.rank[layer, position]) == order.index(5) + 1


def test_the_entropy_is_known_where_tokens_are_ruled_out() -> None:
    class Ruled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = llama()

        def forward(self, input_ids: Tensor) -> Tensor:
            logits = torch.full((*input_ids.shape, WORDS), -torch.inf)
            logits[..., :2] = self.model(input_ids).logits[..., :1]
            return logits

    shown = layer_predictions(Ruled(), {"input_ids": IDS})
    torch.testing.assert_close(shown.entropy, torch.ones_like(shown.entropy))


def test_the_model_runs_as_before_afterwards() -> None:
    model = llama().train()
    layer_predictions(model, {"input_ids": IDS})
    assert model.training
    assert not any("forward" in vars(module) or module._forward_hooks for module in model.modules())


def test_two_threads_read_one_model() -> None:
    model, found = llama(), []
    batches = [{"input_ids": IDS}, {"input_ids": IDS.flip(-1)}]
    expected = [logit_lens(model, batch) for batch in batches]
    threads = [
        threading.Thread(target=lambda one=one: found.append((one, logit_lens(model, batches[one])))) for one in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, logits in found:
        assert torch.equal(logits, expected[place])
    assert len(found) == 2


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (lambda: hf.LlamaModel(hf.LlamaConfig(**GROUPED)), "reads logits at each position, and this model gives none"),
        (lambda: hf.BertForSequenceClassification(hf.BertConfig(**SMALL)), "Choose a language model"),
        (lambda: nn.Embedding(WORDS, 4), "no attention"),
    ],
)
def test_a_model_that_predicts_no_tokens_is_refused(model: Callable[[], nn.Module], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        logit_lens(model().eval(), IDS if isinstance(model(), nn.Embedding) else {"input_ids": IDS})


def test_attention_outside_of_a_list_of_layers_is_refused() -> None:
    class Single(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.attention = nn.Embedding(WORDS, 16), nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, ids: Tensor) -> Tensor:
            states = self.embedding(ids)
            return self.attention(states, states, states)[0]

    with pytest.raises(ValueError, match="The layers of Single are not known"):
        logit_lens(Single().eval(), IDS)


def test_layers_that_change_the_shape_of_the_stream_are_refused() -> None:
    class Halving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, states: Tensor) -> Tensor:
            return self.attention(states, states, states)[0][:, ::2]

    class Pyramid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.layers = nn.Embedding(WORDS, 16), nn.Sequential(Halving(), Halving())

        def forward(self, ids: Tensor) -> Tensor:
            return self.layers(self.embedding(ids))

    with pytest.raises(ValueError, match="a layer does not return it in the shape in which it gets it"):
        logit_lens(Pyramid().eval(), IDS)


def test_one_example_is_read_at_a_time() -> None:
    with pytest.raises(ValueError, match="for one example, and the batch holds 2"):
        logit_lens(llama(), text())


def test_a_token_that_is_not_one_is_refused() -> None:
    with pytest.raises(ValueError, match=f"There is no token {WORDS}: there are {WORDS}"):
        layer_predictions(llama(), {"input_ids": IDS}, token=WORDS)


def test_logits_that_take_too_much_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="Give a shorter text, or take layer_predictions"):
        logit_lens(llama(), {"input_ids": IDS}, most_bytes=1000)
    assert layer_predictions(llama(), {"input_ids": IDS}).tokens.shape == (3, IDS.shape[1], 5)


@torch.no_grad()
def test_smollm2_says_mary_in_its_last_layers() -> None:
    loaded = smollm2()
    model, batch = loaded.model, dict(loaded.encode(MARY).batch)
    mary = loaded.tokenizer(" Mary")["input_ids"][0]
    shown, states = layer_predictions(model, batch, mary), model(**batch, output_hidden_states=True).hidden_states
    for layer in (0, 12, 24, 29):
        logits = model.lm_head(model.model.norm(states[layer]))[0, -1]
        assert int(shown.tokens[layer, -1, 0]) == int(logits.argmax())
        assert float(shown.logit[layer, -1]) == pytest.approx(float(logits[mary]), abs=1e-3)
    assert int(shown.tokens[-1, -1, 0]) == mary
    assert int(shown.rank[10, -1]) > 1000
    assert int(shown.rank[-2, -1]) > 1  # the last layer alone brings it to the first place
    assert float(shown.probability[-1, -1]) == pytest.approx(0.956, abs=0.002)
