"""How sure a captured layer is, and what is done where nothing is."""

import threading

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.bert import modeling_bert

from attnviz.layer import Fidelity
from attnviz.tracing import capture, model_lock
from attnviz.tracing.memory_budget import MemoryBudget
from tests.support.architectures import (
    FALCON,
    LATENT,
    PICTURE,
    SMALL,
    Architecture,
    both,
    eager,
    left,
    picture,
    side_by_side,
    text,
)

BERT = Architecture("BERT", "BertConfig", SMALL)
SEES_NOTHING = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2}


def weights(layers):
    return [layer.maps().nan_to_num(0) for layer in layers]


@pytest.fixture
def odd(monkeypatch):
    """BERT's own attention, with something in it that no argument tells: keys count more, the later they are."""
    usual = modeling_bert.eager_attention_forward

    def eager_attention_forward(module, query, key, value, attention_mask, **more):
        _, weights = usual(module, query, key, value, attention_mask, **more)
        weights = weights * torch.linspace(0, 1, key.shape[2])
        return (weights @ value).transpose(1, 2), weights

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", eager_attention_forward)


@pytest.mark.parametrize("example", [0, 1])
def test_attention_that_is_not_understood_has_the_models_own_weights(odd, example):
    model = BERT.model()
    ends = []
    model.encoder.register_forward_hook(lambda module, given, result: ends.append(result[0]))
    layers, own = capture(model, text(), example=example), eager(model, text())
    assert [layer.fidelity for layer in layers] == [Fidelity.WEIGHTS_ONLY, Fidelity.WEIGHTS_ONLY]
    assert all("cannot be changed" in layer.locked_reason for layer in layers)
    for ours, expected in zip(weights(layers), own, strict=True):
        torch.testing.assert_close(ours, expected[example], atol=1e-6, rtol=0)
    torch.testing.assert_close(ends[0], ends[1])  # and the layers after it get what the model computes


def test_attention_that_is_not_understood_and_too_large_is_not_shown(odd, monkeypatch):
    monkeypatch.setattr(MemoryBudget, "__init__", lambda room: vars(room).update(most=5000, left=5000))
    layers = capture(BERT.model(), text(), example=0)
    assert [layer.name for layer in layers] == ["encoder 0"]
    assert list(layers.missing) == [
        "encoder 1 is not shown: its weights would take 3.06 KB, and 1.82 KB of 4.88 KB are left for all layers. "
        "Give it fewer tokens."
    ]


def test_attention_that_cannot_be_checked_says_so():
    model = BERT.model()
    model.config._attn_implementation_internal = "flex_attention"
    trace = capture(model, text(), example=0)
    assert {layer.fidelity for layer in trace} == {Fidelity.UNVERIFIED}
    assert "it was not compared with “flex_attention”" in trace[0].comparison
    assert model.config._attn_implementation == "flex_attention"


def test_a_scale_that_no_argument_tells_is_caught_by_the_check(monkeypatch):
    """The argument says one thing, the model's function does another."""
    usual = modeling_bert.eager_attention_forward

    def eager_attention_forward(*args, scaling, **more):
        return usual(*args, scaling=2 * scaling, **more)

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", eager_attention_forward)
    assert {layer.fidelity for layer in capture(BERT.model(), text(), example=0)} == {Fidelity.WEIGHTS_ONLY}


# Attention that torch itself computes


@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("example", [0, 1])
def test_queries_and_keys_given_to_torch_itself(alibi, example, monkeypatch):
    sizes = FALCON | {"alibi": alibi, "multi_query": not alibi, "new_decoder_architecture": False}
    model = Architecture("Falcon", "FalconConfig", sizes).model()
    model.config._attn_implementation = "sdpa"
    model.set_attn_implementation("sdpa")
    for layer in model.h:
        layer.self_attention.config._attn_implementation_internal = "sdpa"
    seen = []

    def spy(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        allowed = torch.ones_like(scores, dtype=torch.bool).tril() if is_causal else attn_mask
        seen.append(
            (scores.masked_fill(~allowed, -1e30) if allowed.dtype == torch.bool else scores + allowed).softmax(-1)
        )
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **more)

    layers = capture(model, left(), example=example)
    with monkeypatch.context() as patched, torch.no_grad():
        patched.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
        model(**left())
    assert {layer.fidelity for layer in layers} == {Fidelity.VERIFIED}
    real = left()["attention_mask"][example].bool()
    assert len(layers) == len(seen) == 2
    for ours, expected in zip(weights(layers), seen, strict=True):
        torch.testing.assert_close(ours[:, real], expected[example][:, real], atol=1e-5, rtol=0)


def test_attention_of_torchs_own_module():
    model = Architecture("SigLIP", "SiglipVisionConfig", PICTURE).model()
    head, given = model.head, []
    head.attention.register_forward_pre_hook(lambda module, args: given.append(args))
    *_, last = capture(model, picture(), example=1)
    assert (last.name, last.kind, last.fidelity) == ("layer head", "cross", Fidelity.VERIFIED)
    query, key, value = given[0]
    with torch.no_grad():
        _, expected = head.attention(query, key, value, average_attn_weights=False)
    torch.testing.assert_close(weights([last])[0], expected[1], atol=1e-6, rtol=0)


# What is not available


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        ("FNetConfig", SMALL),
        ("Mamba2Config", SEES_NOTHING | {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 2}),
        ("RwkvConfig", SEES_NOTHING),
    ],
)
def test_a_model_without_attention_is_refused_in_words(config, sizes):
    with pytest.raises(ValueError, match=r"has no attention that can be shown\. Attention is seen in transformers"):
        capture(Architecture("", config, sizes).model(), {"input_ids": text()["input_ids"][:1]})


@pytest.mark.parametrize(
    ("config", "more"),
    [
        ("LongformerConfig", {"attention_window": 8, "pad_token_id": 1}),
        ("BigBirdConfig", {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}),
    ],
)
def test_weights_for_pieces_of_the_text_are_not_shown_as_for_all_of_it(config, more):
    given = {name: torch.cat([tensor] * 2, dim=1) for name, tensor in text().items()}
    layers = capture(Architecture("", config, SMALL | more).model(), given, example=0)
    assert not layers
    assert [sentence.split(":")[0] for sentence in layers.missing] == [
        "encoder 0 is not shown",
        "encoder 1 is not shown",
    ]


def test_what_is_there_beside_it_is_shown():
    sizes = {
        "vocab_size": 97,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 1,
        "num_heads": 4,
        "local_radius": 3,
        "decoder_start_token_id": 0,
    }
    layers = capture(Architecture("", "LongT5Config", sizes).model(), both(), example=0)
    assert [layer.name for layer in layers] == ["decoder 0", "decoder 0 cross"]
    assert {layer.fidelity for layer in layers} == {Fidelity.VERIFIED}
    assert "encoder 0 is not shown" in layers.missing[0]


def test_a_layer_that_is_shown_is_not_said_to_be_missing():
    """DeepSeek-V4 weighs its streams of states by a softmax too, in each layer."""
    sizes = SMALL | LATENT | {"layer_types": ["sliding_attention"] * 2, "o_groups": 2, "o_lora_rank": 8}
    layers = capture(Architecture("", "DeepseekV4Config", sizes).model(), left(), example=0)
    assert [layer.name for layer in layers] == ["layer 0", "layer 1"]
    assert {sentence.split(":")[0] for sentence in layers.missing} == {
        "A part of layer 0 is not shown",
        "A part of layer 1 is not shown",
    }


def test_pictures_that_cannot_be_told_apart_by_example_are_not_shown():
    model = Architecture("CLIP", "CLIPConfig", {"text_config": SMALL, "vision_config": PICTURE}).model()
    given = text() | {"pixel_values": torch.randn(3, 3, 32, 32)}
    layers = capture(model, given, example=0)
    assert [layer.name for layer in layers] == ["text 0", "text 1"]
    assert "its 3 sequences cannot be told apart by example" in layers.missing[0]


# One forward at a time


def test_two_who_capture_the_same_model_get_what_each_would_get_alone():
    model, results = BERT.model(), {}

    def run(example):
        results[example] = [weights(capture(model, text(), example=example)) for _ in range(4)]

    expected = {example: weights(capture(model, text(), example=example)) for example in (0, 1)}
    threads = [threading.Thread(target=run, args=(example,)) for example in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for example, several in results.items():
        for layers in several:
            for ours, alone_ones in zip(layers, expected[example], strict=True):
                assert torch.equal(ours, alone_ones)


def test_a_forward_in_another_thread_waits_or_else_computes_what_it_should():
    """A forward that does not ask for its turn meets the capture's attention, and gets the model's own."""
    model, outputs = BERT.model(), []
    with torch.no_grad():
        expected = model(**text()).last_hidden_state

    @torch.no_grad()
    def run():
        outputs.append(model(**text()).last_hidden_state)

    def start(module, given):
        hook.remove()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    hook = model.encoder.layer[0].register_forward_pre_hook(start)
    layers = capture(model, text(), example=0)
    assert len(layers) == 2
    torch.testing.assert_close(outputs[0], expected, atol=1e-5, rtol=0)


def test_alone_lets_one_in_at_a_time_and_the_same_one_again():
    model, order = BERT.model(), []

    def wait():
        with model_lock(model):
            order.append("second")

    with model_lock(model), model_lock(model):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(timeout=0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_windows_of_a_picture_do_not_see_each_other():
    expected = torch.tensor([[1.0, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]])
    windows = torch.arange(1.0, 17).reshape(4, 1, 2, 2)
    assert torch.equal(side_by_side(windows, 0)[0], expected)
