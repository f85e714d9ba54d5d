"""What people have in a notebook, as layers of maps."""

from collections import OrderedDict, deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    Blip2QFormerConfig,
    Blip2QFormerModel,
    GPT2Config,
    GPT2Model,
)

import attnviz
from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, Kind
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.notebook.layer_maps import apply, layer_maps
from attnviz.sources import Toy

ALL = slice(None)
IDS = torch.tensor([[3, 4, 5]])
WEIGHTS = torch.rand(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))


class OtherArray:
    """An array of another library, which NumPy can read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(WEIGHTS[0], dtype)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (WEIGHTS[0, 0], WEIGHTS[:1, :1]),
        (WEIGHTS[0, 0].numpy(), WEIGHTS[:1, :1]),
        (WEIGHTS[0, 0].tolist(), WEIGHTS[:1, :1]),
        (WEIGHTS[0], WEIGHTS[:1]),
        (OtherArray(), WEIGHTS[:1]),
        (WEIGHTS, WEIGHTS),
        (WEIGHTS[None], WEIGHTS),
        (WEIGHTS[:, None], WEIGHTS),
        (WEIGHTS[:, None].numpy(), WEIGHTS),
        (WEIGHTS[:1, None], WEIGHTS[:1]),
        (WEIGHTS[None, :, None], WEIGHTS),
        (pd.DataFrame(WEIGHTS[0, 0].numpy()), WEIGHTS[:1, :1]),
        ({"attentions": WEIGHTS[:, None]}, WEIGHTS),
        (WEIGHTS[:1, :1, :1], WEIGHTS[:1, :1, :1]),
        (WEIGHTS.double().requires_grad_(), WEIGHTS),
        (tuple(one[None] for one in WEIGHTS), WEIGHTS),
        ([one.numpy() for one in WEIGHTS], WEIGHTS),
        (OrderedDict(attentions=tuple(one[None] for one in WEIGHTS), logits=None), WEIGHTS),
        ({f"blocks.{i}.attn.hook_pattern": one[None] for i, one in enumerate(WEIGHTS)}, WEIGHTS),
    ],
)
def test_weights_of_every_shape(source: Any, expected: torch.Tensor) -> None:
    layers = layer_maps(source)
    assert len(layers) == len(expected)
    for layer, weights in zip(layers, expected, strict=True):
        for head, one in enumerate(weights):
            torch.testing.assert_close(layer.maps(head)[0], one, check_dtype=False)
            torch.testing.assert_close(layer.maps(head, slice(-2, None))[0], one[-2:], check_dtype=False)


def test_large_arrays_are_not_copied() -> None:
    array = np.zeros((12, 1, 4, 4), "f4")
    layers = layer_maps(array)
    assert layer_maps(WEIGHTS)[2].inputs.weights.data_ptr() == WEIGHTS[2].data_ptr()
    array[:] = 0.25
    assert all(bool((layer.weights == 0.25).all()) for layer in layers)
    assert {layer.fidelity for layer in layers} == {Fidelity.WEIGHTS_ONLY}


def test_half_precision_and_masked_cells() -> None:
    weights = torch.tensor([[1.0, torch.nan], [0.5, 0.5]], dtype=torch.bfloat16)
    [layer] = layer_maps(weights, ["a", "b"])
    torch.testing.assert_close(layer.maps(0)[0], weights.float(), equal_nan=True)


def test_tokens_name_queries_and_keys() -> None:
    [own] = layer_maps(WEIGHTS[0], list("abcd"))
    assert own.inputs.query_tokens == own.inputs.key_tokens == tuple("abcd")
    assert own.kind is Kind.SELF
    [cross] = layer_maps(WEIGHTS[0, :, :2], list("xy"), list("abcd"))
    assert (cross.inputs.query_tokens, cross.inputs.key_tokens) == (tuple("xy"), tuple("abcd"))
    assert cross.kind is Kind.CROSS


def test_a_trace_a_layer_and_inputs_with_a_mechanism() -> None:
    inputs = Inputs(*torch.randn(3, 2, 4, 8), tuple("abcd"), tuple("abcd"))
    mechanism = Mechanism(mask=Causal())
    layer = apply(mechanism, inputs)
    expected = mechanism(inputs).maps
    for source in (layer, [layer], mechanism(inputs)):
        [maps] = layer_maps(source)
        torch.testing.assert_close(maps.maps(1)[0], expected[1], equal_nan=True)
        assert maps.inputs.key_tokens == tuple("abcd")
    assert len(layer_maps(Toy("a b"))) == 1
    [renamed] = layer_maps(layer, list("wxyz"))
    assert renamed.inputs.key_tokens == tuple("wxyz")


def test_a_trace_of_a_model_and_the_same_models_own_output() -> None:
    config = BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8)
    model, ids = BertModel(config).eval(), torch.tensor([[1, 2, 3]])
    trace = attnviz.capture(model, ids)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(ids, output_attentions=True)
    for captured, own in zip(layer_maps(trace), layer_maps(output), strict=True):
        torch.testing.assert_close(captured.maps(1)[0], own.maps(1)[0], atol=1e-6, rtol=1e-5)


def test_an_encoder_decoder_has_three_kinds() -> None:
    config = BartConfig(
        vocab_size=30, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=16,
    )  # fmt: skip
    model, ids = BartModel(config).eval(), torch.tensor([[1, 2, 3]])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(ids, decoder_input_ids=torch.tensor([[4, 5]]), output_attentions=True)
    layers = layer_maps(output, list("xy"), list("abc"))
    assert [(str(one.id), *map(len, (one.inputs.query_tokens, one.inputs.key_tokens))) for one in layers] == [
        ("encoder 0", 3, 3),
        ("decoder 0", 2, 2),
        ("decoder 0 cross", 2, 3),
    ]
    assert layers[2].inputs.key_tokens == tuple("abc")
    torch.testing.assert_close(layers[2].maps(1)[0], output.cross_attentions[0][0, 1])


def q_former() -> Any:
    config = Blip2QFormerConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=16,
        encoder_hidden_size=16, cross_attention_frequency=2,
    )  # fmt: skip
    return Blip2QFormerModel(config).eval()


def gpt2() -> Any:
    return GPT2Model(GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=2, add_cross_attention=True)).eval()


@pytest.mark.parametrize(("model", "tokens"), [(q_former(), 4), (q_former(), 3), (gpt2(), 4), (gpt2(), 3)])
def test_self_and_cross_attention_are_those_that_capture_finds(model: Any, tokens: int) -> None:
    others = torch.randn(1, tokens, 16)
    inputs = {"query_embeds": torch.randn(1, 3, 16)} if "QFormer" in type(model).__name__ else {"input_ids": IDS}
    trace = attnviz.capture(model, **inputs, encoder_hidden_states=others)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, encoder_hidden_states=others, output_attentions=True)
    found = {(one.id.index, one.id.cross): one for one in layer_maps(output, list("xyz"), list("abcd")[:tokens])}
    assert len(found) == len(trace)
    for captured, layer in zip(layer_maps(trace), trace, strict=True):
        own = found[layer.id.index, layer.id.cross]
        assert (own.kind is Kind.CROSS) == layer.id.cross
        assert own.inputs.key_tokens == tuple("abcd"[:tokens] if layer.id.cross else "xyz")
        own_weights, weights = own.maps(1)[0], captured.maps(1)[0]
        torch.testing.assert_close(own_weights, weights.nan_to_num(0), atol=1e-6, rtol=1e-5)


def test_a_tuple_of_both_kinds_is_refused() -> None:
    model = q_former()
    model.set_attn_implementation("eager")
    inputs = {"query_embeds": torch.randn(1, 3, 16), "encoder_hidden_states": torch.randn(1, 4, 16)}
    with torch.no_grad():
        both = model(**inputs, output_attentions=True).attentions
    for source in (both, both[:2], both[1:], {"attentions": both}):
        with pytest.raises(ValueError, match=r"they may be self- and cross-attention.*attnviz\.capturing\(model\)"):
            layer_maps(source)


def test_maps_of_one_kind_may_differ_in_size() -> None:
    sizes = [(16, 4), (16, 4), (4, 4), (2, 1)]  # of a pyramid of pictures
    layers = layer_maps([torch.full((1, 2, *size), 1 / size[1]) for size in sizes])
    assert [(layer.inputs.queries, layer.inputs.keys) for layer in layers] == sizes


def test_layers_of_a_hybrid_model_keep_their_numbers() -> None:
    layers = layer_maps({"attentions": (None, WEIGHTS[:1], None, WEIGHTS[1:2])})
    assert [str(layer.id) for layer in layers] == ["layer 1", "layer 3"]
    torch.testing.assert_close(layers[1].maps(1)[0], WEIGHTS[1, 1])


@pytest.mark.parametrize(
    "texts",
    [
        [*"abcd"], tuple("abcd"), np.array([*"abcd"]), np.array([*"abcd"], dtype=object), tuple(np.array([*"abcd"])),
        pd.Index([*"abcd"]), pd.Series([*"abcd"], index=[3, 1, 0, 2]), pd.Categorical([*"abcd"]), deque("abcd"),
    ],
    ids=lambda texts: type(texts).__name__,
)  # fmt: skip
def test_tokens_in_any_list(texts: Any) -> None:
    for pictures in (
        attnviz.show(WEIGHTS[0], texts), attnviz.show(WEIGHTS[0], tokens=texts), attnviz.show(WEIGHTS, texts, head=1),
    ):  # fmt: skip
        assert pictures.layers[0].inputs.key_tokens == tuple("abcd")
    [cross] = layer_maps(WEIGHTS[0], texts, texts)
    assert cross.inputs.query_tokens == cross.inputs.key_tokens == tuple("abcd")


@pytest.mark.parametrize(
    ("source", "tokens", "message"),
    [
        (WEIGHTS[0], np.array([["a", "b"], ["c", "d"]]), "tokens must be a list of texts.*an array of 2 axes"),
        (torch.ones(2, 3, 2, 4, 4), None, r"If their second axis is that of the examples, choose one: weights\[:, 0\]"),
        (
            {"language_attentions": (WEIGHTS[:1],), "loss": None},
            None,
            r"Show a part of it: output\.language_attentions\.",
        ),
        ({"qformer_outputs": {"attentions": (WEIGHTS[:1],)}}, None, r"Show a part of it: output\.qformer_outputs\."),
        (WEIGHTS[0], list("abc"), "tokens names 3 tokens, but the map has 4"),
        (WEIGHTS[0], "abcd", "tokens must be a list of texts"),
        (torch.ones(2, 3, 2, 4, 4), None, "have the shape 2 × 3 × 2 × 4 × 4"),
        (torch.ones(4), None, "have the shape 4"),
        (torch.full((2, 2), torch.inf), None, "Apply softmax"),
        (torch.ones(0, 2), None, "empty"),
        (torch.ones(2, 2) * 1j, None, "complex"),
        ("weights", None, "holds no weights"),
        (SimpleNamespace(), None, "holds no weights"),
        (np.array([["a"]]), None, "holds no weights"),
        ((None, None), None, "output_attentions=True"),
        ((), None, "no layer"),
        (torch.nn.Linear(2, 2), None, "Linear is a model"),
        ({"logits": WEIGHTS}, None, "No attention is in this output; it has 'logits'"),
        ((torch.ones(2, 2, 3, 3),), None, "weights of 2 examples"),
    ],
)
def test_what_is_refused_in_a_sentence(source: Any, tokens: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer_maps(source, tokens)
