"""Caches of TransformerLens and nnsight, and what modules returned, against the attentions that the model returns."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn

import attnviz
from attnviz.layer import Layer
from attnviz.notebook.layer_maps import layer_maps
from tests.support.seeded_models import IDS, drawn, seeded_model

SOURCE, TARGET = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[0, 7, 8]])
TOKENS = [*"abcdefgh"]


class CacheView:
    """What nnsight has cached: modules by their paths, which is not a mapping; other names are looked up in a model."""

    def __init__(self, calls: dict[str, list[Any]]) -> None:
        self._calls = calls

    def keys(self) -> list[str]:
        return [*self._calls]

    def __getitem__(self, path: str) -> Any:
        calls = self._calls[path]
        return SimpleNamespace(output=calls[0] if len(calls) == 1 else calls)


class ActivationCache:
    """The cache of TransformerLens, which has the model."""

    def __init__(self, entries: dict[str, Tensor], tokenizer: Any = None) -> None:
        self.entries, self.model = entries, SimpleNamespace(tokenizer=tokenizer)

    def keys(self) -> Any:
        return self.entries.keys()

    def __getitem__(self, name: str) -> Tensor:
        return self.entries[name]


def tokenizer() -> Any:
    """A tokenizer whose tokens are named after their ids."""
    return hf.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({f"w{id}": id for id in range(61)})))


def t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return drawn(hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=61, decoder_start_token_id=0, **sizes)))


def small(name: str) -> Any:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    return drawn(getattr(hf, f"{name}Model")(getattr(hf, f"{name}Config")(vocab_size=61, **sizes)))


@torch.no_grad()
def run(model: Any, implementation: str = "eager", **arguments: Any) -> tuple[Any, dict[str, list[Any]]]:
    """Returns the output of a model, and what each of its modules returned in each call."""
    model.set_attn_implementation(implementation)
    calls: dict[str, list[Any]] = {}

    def record(path: str, returned: Any) -> None:
        calls.setdefault(path, []).append(returned)

    def hook(path: str) -> Any:
        return lambda _module, _arguments, returned: record(path, returned)

    handles = [module.register_forward_hook(hook(f"model.{path}")) for path, module in model.named_modules() if path]
    try:
        return (model.generate if "max_new_tokens" in arguments else model)(**arguments), calls
    finally:
        for handle in handles:
            handle.remove()


def expect(layers: tuple[Layer, ...], expected: dict[str, Tensor]) -> None:
    assert [layer.name for layer in layers] == [*expected]
    for layer, weights in zip(layers, expected.values(), strict=True):
        torch.testing.assert_close(layer.maps().nan_to_num(0), weights[0], atol=0, rtol=0)


def attentions(output: Any) -> Iterator[tuple[str, Tensor]]:
    """Yields the names and weights of an encoder–decoder's layers, in the order in which they ran."""
    yield from ((f"encoder {i}", weights) for i, weights in enumerate(output.encoder_attentions))
    for i, (own, cross) in enumerate(zip(output.decoder_attentions, output.cross_attentions, strict=True)):
        yield f"decoder {i}", own
        yield f"decoder {i} cross", cross


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia"])
def test_modules_of_a_decoder(name: str) -> None:
    output, calls = run(seeded_model(name), input_ids=IDS, output_attentions=True)
    expected = {f"layer {i}": weights for i, weights in enumerate(output.attentions)}
    returned = {path: call[0] for path, call in calls.items() if path.endswith((".attn", ".self_attn", ".attention"))}
    assert len(returned) == len(expected)
    weights = {path: pair[1] for path, pair in returned.items()}
    sources = [CacheView(calls), returned, weights, dict(enumerate(weights.values())), [*returned.values()]]
    for source in sources:
        layers = layer_maps(source, TOKENS)
        expect(layers, expected)
        assert layers[0].inputs.query_tokens == layers[0].inputs.key_tokens == tuple(TOKENS)
    [first] = layer_maps(next(iter(returned.values())))
    torch.testing.assert_close(first.maps(), output.attentions[0][0])
    [last] = layer_maps(dict([[*returned.items()][-1]]))
    assert last.name == f"layer {len(expected) - 1}"


def test_modules_of_an_encoder_and_a_decoder() -> None:
    output, calls = run(t5(), input_ids=SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    layers = layer_maps(CacheView(calls), [*"xyz"], [*"abcd"])
    expect(layers, dict(attentions(output)))
    sides = {layer.name: (*layer.inputs.query_tokens, "·", *layer.inputs.key_tokens) for layer in layers}
    assert [sides[name] for name in ("encoder 1", "decoder 1", "decoder 1 cross")] == [
        tuple("abcd·abcd"),
        tuple("xyz·xyz"),
        tuple("xyz·abcd"),
    ]


def test_an_interface_of_attention_returns_heads_before_the_weights() -> None:
    output, _ = run(seeded_model("GPT-2"), input_ids=IDS, output_attentions=True)
    pairs = [(torch.randn(1, 8, 4, 16), weights) for weights in output.attentions]
    expect(layer_maps(pairs), {f"layer {i}": weights for i, weights in enumerate(output.attentions)})


def test_layers_that_share_a_module_are_apart() -> None:
    output, calls = run(small("Albert"), input_ids=IDS, output_attentions=True)
    expect(layer_maps(CacheView(calls)), {f"encoder 0 · {i}": weights for i, weights in enumerate(output.attentions)})


@pytest.mark.parametrize("options", [{}, {"cache_implementation": "static"}])
def test_calls_of_a_generation_are_joined(options: dict[str, Any]) -> None:
    model = seeded_model("Llama")
    options = {"max_new_tokens": 3, "do_sample": False, "eos_token_id": None, "pad_token_id": 0, **options}
    ids, calls = run(model, input_ids=IDS, **options)
    whole, _ = run(model, input_ids=ids[:, :-1], output_attentions=True)
    for layer, weights in zip(layer_maps(CacheView(calls)), whole.attentions, strict=True):
        torch.testing.assert_close(layer.maps().nan_to_num(0), weights[0], atol=1e-6, rtol=1e-5)


def test_tokens_of_a_text_do_not_name_what_an_image_has() -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    text = {"vocab_size": 61, "bos_token_id": 1, "eos_token_id": 2}
    config = hf.CLIPConfig(text_config=sizes | text, vision_config=sizes | {"image_size": 16, "patch_size": 8})
    image = torch.randn(1, 3, 16, 16)
    _, calls = run(drawn(hf.CLIPModel(config)), input_ids=SOURCE, pixel_values=image, output_attentions=True)
    layers = {layer.name: layer for layer in layer_maps(CacheView(calls), [*"abcd"])}
    assert layers["text 0"].inputs.query_tokens == tuple("abcd")
    assert layers["vision 0"].inputs.query_tokens == tuple("01234")


def test_a_cache_of_transformer_lens_has_its_numbers_and_tokens() -> None:
    output, _ = run(seeded_model("GPT-2"), input_ids=IDS, output_attentions=True)
    entries = {f"blocks.{i}.attn.hook_pattern": weights for i, weights in enumerate(output.attentions)}
    entries |= {"embed.hook_in": IDS, "blocks.0.attn.hook_z": torch.rand(1, 8, 4, 8) / 8}
    layers = layer_maps(ActivationCache(entries, tokenizer()))
    expect(layers, {f"layer {i}": weights for i, weights in enumerate(output.attentions)})
    assert layers[2].inputs.query_tokens == layers[2].inputs.key_tokens == tuple(f"w{id}" for id in IDS[0].tolist())
    assert layer_maps(ActivationCache(entries, tokenizer()), TOKENS)[0].inputs.key_tokens == tuple(TOKENS)
    assert layer_maps(ActivationCache(entries))[0].inputs.key_tokens == tuple("01234567")
    without = {name: entry[0] for name, entry in entries.items() if ".0." not in name}  # without an axis of examples
    assert [layer.name for layer in layer_maps(ActivationCache(without, tokenizer()))] == ["layer 1", "layer 2"]


def test_a_cache_of_transformer_lens_of_an_encoder_and_a_decoder() -> None:
    output, _ = run(t5(), input_ids=SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    entries = {}
    for name, weights in attentions(output):
        stack, index, *cross = name.split()
        module = "attn" if stack == "encoder" else "cross_attn" if cross else "self_attn"
        entries[f"{stack}_blocks.{index}.{module}.hook_pattern"] = weights
    layers = layer_maps(
        ActivationCache(entries | {"embed.hook_in": SOURCE, "decoder_embed.hook_in": TARGET}, tokenizer())
    )
    expect(layers, dict(attentions(output)))
    assert layers[0].inputs.query_tokens == layers[-1].inputs.key_tokens == ("w3", "w4", "w5", "w6")
    assert layers[-1].inputs.query_tokens == layers[-2].inputs.key_tokens == ("w0", "w7", "w8")


def test_what_a_tokenizer_makes_of_a_text_names_the_tokens() -> None:
    [layer] = attnviz.show(torch.eye(1), tokenizer()("w3")).layers
    assert layer.inputs.key_tokens == ("w3",)


def sdpa() -> dict[str, list[Any]]:
    return run(seeded_model("Llama"), "sdpa", input_ids=IDS)[1]


def two_texts() -> dict[str, list[Any]]:
    return run(seeded_model("Llama"), input_ids=torch.cat([IDS, IDS]))[1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: CacheView(sdpa()), r"it has 'model\.model\.embed_tokens', .*, …\. Call .*eager"),
        (lambda: [sdpa()[f"model.model.layers.{i}.self_attn"][0] for i in range(3)], 'no weights.*"eager"'),
        (lambda: sdpa()["model.model.layers.0.self_attn"][0], 'no weights.*"eager"'),
        (lambda: CacheView(two_texts()), "self_attn has weights of 2 examples.*trace one text"),
        (lambda: {"blocks.0.attn.hook_z": torch.rand(1, 8, 4, 8) / 8}, "keeps hook_pattern"),
        (lambda: {"blocks.0.attn.hook_pattern": torch.rand(2, 4, 8, 8)}, "apply_slice_to_batch_dim"),
        (lambda: {"layers.0": torch.randn(1, 8, 32)}, "No attention is in this output; it has 'layers.0'"),
        (lambda: {0: torch.arange(9).view(1, 3, 3)}, "No attention is in this output; it has 0"),
        (lambda: nn.Linear(2, 2).state_dict(), "No attention is in this output"),
        (lambda: seeded_model("Llama")(IDS, return_dict=False), "return_dict=True"),
        (lambda: seeded_model("Llama")(IDS, output_attentions=True), 'No attention .*"eager"'),
        (lambda: IDS, "whole numbers up to 42, as token ids are"),
    ],
)
def test_what_has_no_weights_is_refused_in_a_sentence(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer_maps(source())
