"""Every activation is the one that the model computed in a forward pass of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from attnviz.masks import Causal, Full, SlidingWindow
from attnviz.models.interventions import Intervention
from attnviz.models.minilm import minilm
from attnviz.path.activation import ActivationRecord
from attnviz.path.model_activations import MOST_TOKENS, model_activations
from attnviz.path.sampling import NextWord
from attnviz.path.translator_activations import translator_activations
from attnviz.tracing import capture
from attnviz.translator import EXAMPLES, Translation, load
from attnviz.translator.encoder_decoder import USE_LAYERS

TEXT = "The animal was too tired."


@contextmanager
def outputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """The output of each module in its latest call, without the axis of the batch."""
    seen: dict[str, Tensor] = {}

    def keep(name: str):
        def hook(module: nn.Module, args: object, result: object) -> None:
            first = result[0] if isinstance(result, tuple) else result
            if isinstance(first, Tensor):
                seen[name] = first[0]

        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)


def joined(values: Tensor) -> Tensor:
    return values.transpose(0, 1).flatten(1)


def check_sources(record: ActivationRecord) -> None:
    """Each activation follows from its sources alone."""
    for one in record.values():
        sources = [source.values for source in one.sources]
        if one.operation == "add":
            close(one.values, torch.stack(sources).sum(0))
        elif one.operation == "softmax":
            close(one.values, torch.softmax(sources[0], -1))
        elif one.operation == "weighted sum":
            close(one.values, sources[0] @ sources[1])
        elif one.operation == "concat":
            close(one.values, joined(sources[0]))
        elif one.operation == "scores":
            dots = sources[0] @ sources[1].transpose(-1, -2) / sources[0].shape[-1] ** 0.5
            close(one.values, torch.where(one.values.isneginf(), one.values, dots))
        elif one.operation == "norm":
            centered = sources[0] - sources[0].mean(-1, keepdim=True)
            spread = sources[0].var(-1, unbiased=False, keepdim=True).sqrt()
            close(one.values, centered / spread * one.weight + one.bias)
        elif one.operation == "linear":
            product = sources[0] @ one.weight + (0 if one.bias is None else one.bias.unsqueeze(-2))
            if one.part == "hidden":
                product = nn.functional.gelu(product) if "GELU" in one.formula else product.relu()
            close(one.values, product[-len(one.rows) :] if one.part == "logits" else product)
        else:
            assert one.operation == "input"
            assert not one.sources


@pytest.mark.parametrize("changed", [None, Full(), SlidingWindow(2) & Causal()])
@pytest.mark.parametrize("english", [EXAMPLES[0], EXAMPLES[5]])
def test_the_translators_activations_are_those_of_its_forward_pass(english: str, changed: object) -> None:
    translator = load()
    model = translator.model
    interventions = (Intervention(changed, layers=USE_LAYERS["decoder"]),) if changed else ()
    with outputs(model) as seen:
        translation = translator.translate(english, interventions)
    step = len(translation.steps) - 1  # the latest call
    record = translator_activations(translator, translation.english, translation.french[:step], interventions)
    check_sources(record)
    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for i in range(len(layers)):
            parts = {"attention": "attention", "cross": "cross"} if stack == "decoder" else {"attention": "attention"}
            for number, (kind, module) in enumerate(parts.items()):
                ours, theirs = f"{stack} {i} {kind}", f"{stack}.{i}.{module}"
                close(record[f"{ours} norm"].values, seen[f"{stack}.{i}.norms.{number}"])
                for part, name in (("queries", "query"), ("keys", "key"), ("values", "value")):
                    close(joined(record[f"{ours} {part}"].values), seen[f"{theirs}.{name}"])
                close(record[f"{ours} output"].values, seen[theirs])
            close(record[f"{stack} {i} network norm"].values, seen[f"{stack}.{i}.norms.{len(parts)}"])
            close(record[f"{stack} {i} network hidden"].values, seen[f"{stack}.{i}.inner.1"])
            close(record[f"{stack} {i} network output"].values, seen[f"{stack}.{i}.inner"])
            close(record[f"{stack} {i} network sum"].values, seen[f"{stack}.{i}"])
    close(record["memory vectors"].values, seen["norms.0"])
    close(record["output norm"].values, seen["norms.1"])
    check_attention(record, translation, step)
    probabilities = record["output logits"].values[0].softmax(-1)
    close(probabilities, translation.steps[step].probabilities)


def check_attention(record: ActivationRecord, translation: Translation, step: int) -> None:
    for one in translation.steps[step].records:
        name = f"{one.id.stack} {one.id.index} {'cross' if one.id.cross else 'attention'}"
        close(record[f"{name} weights"].values, one.weights[0])


def test_each_word_is_written_by_the_activations_of_its_step() -> None:
    translation = load().translate(EXAMPLES[1])
    for i, step in enumerate(translation.steps):
        logits = translator_activations(load(), translation.english, translation.french[:i])["output logits"]
        assert logits.columns[int(logits.values.argmax())] == step.word


def test_the_encoders_activations_are_those_of_its_forward_pass() -> None:
    model = minilm()
    record = model_activations(model, TEXT)
    check_sources(record)
    batch = model.encode(TEXT).batch
    with outputs(model.model) as seen, torch.no_grad():
        result = model.model(**batch, output_hidden_states=True)
    states = [one[0] for one in result.hidden_states]
    close(record["encoder embedding norm"].values, states[0])
    for i, layer in enumerate(capture(model.model, batch)):
        ours, theirs = f"encoder {i}", f"encoder.layer.{i}"
        close(record[f"{ours} network norm"].values, states[i + 1])
        for part, name in (("queries", "query"), ("keys", "key"), ("values", "value")):
            close(joined(record[f"{ours} attention {part}"].values), seen[f"{theirs}.attention.self.{name}"])
        close(record[f"{ours} attention weights"].values, layer.mechanism(layer.inputs).weights)
        close(record[f"{ours} attention concat"].values, seen[f"{theirs}.attention.self"])
        close(record[f"{ours} attention output"].values, seen[f"{theirs}.attention.output.dense"])
        close(record[f"{ours} attention norm"].values, seen[f"{theirs}.attention.output"])
        close(record[f"{ours} network hidden"].values, seen[f"{theirs}.intermediate"])
        close(record[f"{ours} network output"].values, seen[f"{theirs}.output.dense"])


def test_a_text_that_is_too_long_to_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=f"At most {MOST_TOKENS} tokens"):
        model_activations(minilm(), "cat " * MOST_TOKENS)


def test_the_drawn_word_follows_from_the_seed_and_the_probabilities() -> None:
    logits = torch.tensor([0.0, 3.0, 1.0, -1.0])
    words = ("a", "b", "c", "d")
    assert {NextWord(words, logits, 0.0, seed).drawn for seed in range(20)} == {1}
    counts = [[NextWord(words, logits, 2.0, seed).drawn for seed in range(2000)].count(i) for i in range(4)]
    expected = (logits / 2).softmax(-1)
    for count, probability in zip(counts, expected.tolist(), strict=True):
        assert abs(count / 2000 - probability) < 0.04
    assert NextWord(words, logits, 2.0, 7).drawn == NextWord(words, logits, 2.0, 7).drawn
    assert NextWord(words, logits, 0.0).likeliest(2) == [1, 2]
    last = next(word for seed in range(99) if (word := NextWord(words, logits, 3.0, seed)).drawn == 3)
    assert last.likeliest(2) == [1, 3]  # the drawn word is always shown
    with pytest.raises(ValueError, match="0 or more"):
        NextWord(words, logits, -1.0)
