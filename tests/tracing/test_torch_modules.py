"""Queries, keys, values and masks of plain modules of torch, against the weights that torch itself gives."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional

from attnviz.layer import Fidelity
from attnviz.masks import Causal, Full, Padding
from attnviz.tracing import capture

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

B, L, S, E, H = 3, 6, 4, 16, 4


def attention(**options):
    """An attention whose rows are far from uniform."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(E, H, **options).eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape) * (0.6 if weight.ndim == 2 else 1.0))
    return module


def states(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def own_weights(module, *args, **kwargs):
    with torch.no_grad():
        weights = module(*args, **kwargs | {"need_weights": True, "average_attn_weights": False})[1]
    return weights if weights.ndim == 4 else weights[None]


def assert_same(layer, weights):
    assert layer.fidelity is Fidelity.VERIFIED
    assert not layer.locked
    torch.testing.assert_close(layer.mechanism(layer.inputs).weights, weights, atol=1e-5, rtol=0)
    assert weights.amax(-1).mean() > 0.4, "rows near uniform would prove little"


def padding(keys=L):
    return torch.arange(keys).expand(B, -1) >= torch.tensor([keys, keys - 2, keys - 1])[:, None]


def causal(length=L):
    return torch.ones(length, length).triu(1).bool()


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("example", range(B))
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"bias": False}])
def test_multi_head_attention(need_weights, batch_first, example, options):
    module, x = attention(batch_first=batch_first, **options), states(B, L, E)
    x = x if batch_first else x.transpose(0, 1)
    given = {"attn_mask": causal(), "key_padding_mask": padding()}
    [layer] = capture(module, x, x, x, need_weights=need_weights, example=example, **given)
    assert_same(layer, own_weights(module, x, x, x, **given)[example])
    assert layer.kind == "causal"
    added = sum(name in options for name in ("add_bias_kv", "add_zero_attn"))
    assert layer.inputs.keys == L + added
    assert [name for name in layer.inputs.key_tokens if "[" in name] == [
        *(["[bias]"] if "add_bias_kv" in options else []),
        *(["[zero]"] if "add_zero_attn" in options else []),
    ]
    if not added:
        assert layer.mechanism.mask == (Causal() if example == 0 else Causal() & Padding([L, L - 2, L - 1][example]))


@pytest.mark.parametrize("need_weights", [True, False])
def test_cross_attention_of_other_widths(need_weights):
    module = attention(kdim=10, vdim=12, batch_first=True)
    given = states(B, L, E), states(B, S, 10), states(B, S, 12)
    [layer] = capture(module, *given, need_weights=need_weights, key_padding_mask=padding(S), example=1)
    assert (layer.kind, layer.inputs.queries, layer.inputs.keys) == ("cross", L, S)
    assert layer.mechanism.mask == Padding(S - 2)
    assert_same(layer, own_weights(module, *given, key_padding_mask=padding(S))[1])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", ["bool", "float", "heads", "hint"])
def test_masks_of_multi_head_attention(need_weights, mask):
    module, x, given = attention(batch_first=True), states(B, L, E), {"attn_mask": causal()}
    if mask == "float":
        given = {"attn_mask": torch.zeros(L, L).masked_fill(causal(), -torch.inf) + states(L, L)}
    if mask == "heads":
        cells = torch.rand(B * H, L, L, generator=torch.Generator().manual_seed(2)) < 0.4
        given = {"attn_mask": cells & ~torch.eye(L).bool()}
    if mask == "hint":
        given |= {"is_causal": True}
    [layer] = capture(module, x, x, x, need_weights=need_weights, example=2, **given)
    assert_same(layer, own_weights(module, x, x, x, **given)[2])
    assert mask == "heads" or layer.mechanism.mask == Causal()
    if mask == "heads":
        assert torch.equal(layer.mechanism(layer.inputs).allowed, ~given["attn_mask"].unflatten(0, (B, H))[2])
    assert len(layer.mechanism.biases) == (mask == "float")


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_without_examples(need_weights):
    module, x = attention(), states(L, E)
    [layer] = capture(module, x, x, x, need_weights=need_weights, example=0)
    assert_same(layer, own_weights(module, x, x, x)[0])
    assert layer.name == "layer 0"


def test_the_result_is_what_the_module_gives():
    class Keeper(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.results = attention(batch_first=True), []

        def forward(self, x, **options):
            self.results.append(self.attention(x, x, x, **options))

    model, x = Keeper(), states(B, L, E)
    for options in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        capture(model, x, **options, example=0)
        with torch.no_grad():
            model(x, **options)
        seen, alone = model.results[-2:]
        torch.testing.assert_close(seen, alone)


def transformer(kind, **options):
    torch.manual_seed(0)
    layer = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}.get(kind)
    if layer is None:
        model = nn.Transformer(E, H, 2, 2, 24, **options)
    else:
        whole = {"encoder": nn.TransformerEncoder, "decoder": nn.TransformerDecoder}[kind]
        model = whole(layer(E, H, 24, **options), 2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "in_proj_weight" in name:
                weight *= 4
    return model.eval()


def weights_inside(model, *args, **kwargs):
    """The weights of every attention, by functions of torch that compute them one after the other."""
    seen, modules = [], [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]

    def spy(module, args, kwargs):
        own = {name: value for name, value in kwargs.items() if name not in ("need_weights", "is_causal")}
        module._forward_pre_hooks.clear()
        seen.append(own_weights(module, *args, **own))
        module.register_forward_pre_hook(spy, with_kwargs=True)

    for module in modules:
        module.register_forward_pre_hook(spy, with_kwargs=True)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for module in modules:
            module._forward_pre_hooks.clear()
    return seen


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("example", range(B))
@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder(batch_first, example, norm_first):
    model, x = transformer("encoder", batch_first=batch_first, norm_first=norm_first), states(B, L, E)
    x = x if batch_first else x.transpose(0, 1)
    given = {"src_key_padding_mask": padding()}
    layers = capture(model, x, example=example, tokens=tuple("abcdef"), **given)
    assert [layer.name for layer in layers] == ["layer 0", "layer 1"]
    assert layers[0].inputs.key_tokens == tuple("abcdef")
    for layer, weights in zip(layers, weights_inside(model, x, **given), strict=True):
        assert_same(layer, weights[example])
        assert layer.kind == "self"
        assert layer.mechanism.mask == [Full(), Padding(L - 2), Padding(L - 1)][example]


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_transformer_has_attention_of_three_kinds(batch_first):
    model = transformer("both", batch_first=batch_first)
    source, target = states(B, L, E), states(B, L, E) + 1
    if not batch_first:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    given = {"tgt_mask": causal(), "src_key_padding_mask": padding(), "memory_key_padding_mask": padding()}
    names = {"tokens": tuple("abcdef"), "decoder_tokens": tuple("uvwxyz")}
    layers = capture(model, source, target, example=1, **names, **given)
    assert [(layer.name, layer.kind) for layer in layers] == [
        *(("encoder 0", "self"), ("encoder 1", "self"), ("decoder 0", "causal"), ("decoder 0 cross", "cross")),
        *(("decoder 1", "causal"), ("decoder 1 cross", "cross")),
    ]
    for layer, weights in zip(layers, weights_inside(model, source, target, **given), strict=True):
        assert_same(layer, weights[1])
    assert layers[3].inputs.query_tokens == tuple("uvwxyz")
    assert layers[3].inputs.key_tokens == tuple("abcdef")


# The model's own arguments


class Options(nn.Module):
    """A model whose own arguments have the names of options."""

    def __init__(self):
        super().__init__()
        self.attention, self.seen = attention(batch_first=True), []

    def forward(self, x, tokens=None, example=0, **more):
        self.seen.append((tokens, example, more))
        return self.attention(x, x, x)


def test_a_models_own_arguments_that_have_the_names_of_options():
    model, x = Options(), states(B, L, E)
    capture(model, x, tokens=tuple("abcdef"), example=2, scale=3)
    assert model.seen.pop() == (None, 0, {"scale": 3})
    [layer] = capture(model, {"x": x, "tokens": 7, "example": 5}, tokens=tuple("abcdef"), example=0, scale=4)
    assert model.seen.pop() == (7, 5, {"scale": 4})
    assert layer.inputs.query_tokens == tuple("abcdef")


def test_a_model_that_takes_a_mapping():
    class Taker(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention(batch_first=True)

        def forward(self, batch):
            return self.attention(batch["x"], batch["x"], batch["x"])

    assert len(capture(Taker(), batch={"x": states(B, L, E)}, example=2)) == 1


@pytest.mark.parametrize("given", [("a text",), ([1, 2],), (), (None, 3)])
def test_arguments_without_tensors_are_refused(given):
    with pytest.raises(ValueError, match=r"as tensors, and this is|holds no tensor"):
        capture(attention(), *given)


# Modules of one's own


class Own(nn.Module):
    """Attention of one's own with axes of one's own."""

    def __init__(self, arrange, heads=H, known=True, **options):
        super().__init__()
        torch.manual_seed(0)
        self.project, self.arrange, self.options = nn.Linear(E, 3 * E), arrange, options
        nn.init.normal_(self.project.weight, std=0.6)
        if known:
            self.num_heads = heads

    def forward(self, x):
        query, key, value = (self.arrange(part) for part in self.project(x).chunk(3, dim=-1))
        self.seen = query.detach(), key.detach()
        return functional.scaled_dot_product_attention(query, key, value, **self.options)


def expected(model, index):
    query, key = (tensor[index] for tensor in model.seen)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if model.options.get("is_causal"):
        scores = scores.masked_fill(causal(scores.shape[-1]), -torch.inf)
    return scores.softmax(-1)


def heads_apart(x):
    return x.unflatten(-1, (H, -1)).transpose(-2, -3)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_queries_of_three_axes_are_one_head_or_all_heads_of_all_examples(is_causal, known):
    x = states(B, L, E)
    single = Own(lambda x: x, heads=1, known=known, is_causal=is_causal)
    [layer] = capture(single, x, example=1)
    assert_same(layer, expected(single, slice(1, 2)))
    together = Own(lambda x: heads_apart(x).flatten(0, 1), known=known, is_causal=is_causal)
    [layer] = capture(together, x, example=1)
    assert_same(layer, expected(together, slice(H, 2 * H)))
    assert layer.mechanism.mask == (Causal() if is_causal else Full())


def test_queries_without_examples_or_without_heads():
    model = Own(heads_apart)
    [layer] = capture(model, states(L, E))
    assert_same(layer, expected(model, slice(None)))
    single = Own(lambda x: x)
    [layer] = capture(single, states(L, E))
    assert_same(layer, expected(single, None))


def test_more_axes_are_several_sequences_of_an_example():
    model = Own(lambda x: heads_apart(x.unflatten(1, (2, -1))), is_causal=True)
    [layer] = capture(model, states(B, L, E), example=2)
    windows = expected(model, 2)
    whole = torch.stack([torch.block_diag(*head) for head in windows.transpose(0, 1)])
    assert_same(layer, whole)


def test_axes_that_may_be_examples_or_heads_are_not_guessed():
    model = Own(lambda x: x.repeat(5, 1, 1), known=False)
    layers = capture(model, states(B, L, E), example=0)
    assert not layers
    assert "in which heads cannot be told apart" in layers.missing[0]


def test_what_looks_like_attention_is_named():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj = self.k_proj = nn.Linear(E, E)

        def forward(self, x):
            return torch.sigmoid(self.q_proj(x) @ self.k_proj(x).mT) @ x

    model = nn.Sequential(nn.Linear(E, E), Block(), Block())
    with pytest.raises(ValueError, match=r"What looks like attention here is “1” \(Block\) and “2” \(Block\)\."):
        capture(model, states(B, L, E), example=0)


# Types of numbers


@pytest.mark.parametrize(("kind", "largest"), [(torch.float32, 0.01), (torch.bfloat16, 40), (torch.float16, 5)])
@pytest.mark.parametrize("need_weights", [True, False])
def test_the_tolerance_follows_from_the_type_and_is_said(kind, largest, need_weights):
    module, x = attention(batch_first=True).to(kind), states(B, L, E).to(kind)
    [layer] = capture(module, x, x, x, need_weights=need_weights, attn_mask=causal(), example=0)
    assert layer.fidelity is Fidelity.VERIFIED
    name = str(kind).removeprefix("torch.")
    said = re.fullmatch(
        rf"The weights and outputs of all {L} queries were compared with the model's own, computed in {name}: "
        r"they differ by at most (\S+)% of the largest\.",
        layer.comparison,
    )
    limit = float(said[1])
    assert 100 * torch.finfo(kind).eps <= limit <= largest or kind is torch.float32
    own = own_weights(module, x, x, x, attn_mask=causal())[0].float()
    ours = layer.mechanism(layer.inputs).weights
    assert ((ours - own).abs() <= limit / 100 * own.amax(-1, keepdim=True)).all()
    assert layer.inputs.query.dtype == torch.float32


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_a_rule_that_nothing_tells_of_is_seen_in_every_type(kind):
    """Attention whose result is not what its arguments say."""

    class Odd(Own):
        def forward(self, x):
            query, key, value = (heads_apart(part) for part in self.project(x).chunk(3, dim=-1))
            return functional.scaled_dot_product_attention(OddTensor(query), key, value)

    class OddTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            args = [one.as_subclass(torch.Tensor) if isinstance(one, cls) else one for one in args]
            result = function(*args, **(kwargs or {}))
            return result * 1.5 if function is functional.scaled_dot_product_attention else result

    model = Odd(None).to(kind)
    layers = capture(model, states(B, L, E).to(kind), example=0)
    assert not layers
    assert "its output is not what its queries, keys and values give here" in layers.missing[0]


# Interventions


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_intervention_changes_the_output_of_its_example_alone(need_weights, batch_first):
    class Keeper(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.results = attention(batch_first=batch_first), []

        def forward(self, x):
            self.results.append(self.attention(x, x, x, need_weights=need_weights)[0])

    model, x = Keeper(), states(B, L, E) if batch_first else states(L, B, E)
    capture(model, x, example=0)
    capture(model, x, example=1, intervene=lambda i, inputs, mechanism: (mechanism, mechanism(inputs).output))
    capture(model, x, example=1, intervene=lambda i, inputs, mechanism: (mechanism, 0 * mechanism(inputs).output))
    plain, same, ablated = (one if batch_first else one.transpose(0, 1) for one in model.results)
    torch.testing.assert_close(same, plain, atol=1e-5, rtol=1e-5)
    assert torch.equal(ablated[[0, 2]], plain[[0, 2]])
    torch.testing.assert_close(ablated[1], model.attention.out_proj.bias.detach().expand(L, E))


def test_an_intervention_in_attention_of_ones_own():
    model = Own(lambda x: heads_apart(x).flatten(0, 1), known=False)
    results = []
    model.register_forward_hook(lambda module, args, result: results.append(result))
    capture(model, states(B, L, E), example=0)
    capture(
        model, states(B, L, E), example=1, intervene=lambda i, inputs, mechanism: (mechanism, -mechanism(inputs).output)
    )
    plain, changed = (result.unflatten(0, (B, H)) for result in results)
    torch.testing.assert_close(changed[1], -plain[1], atol=1e-5, rtol=0)
    assert torch.equal(changed[[0, 2]], plain[[0, 2]])


def test_a_compiled_module_is_seen():
    model = transformer("encoder", batch_first=True)
    layers = capture(torch.compile(model, backend="eager"), states(B, L, E), example=1)
    for layer, weights in zip(layers, weights_inside(model, states(B, L, E)), strict=True):
        assert_same(layer, weights[1])
