"""Masks of finite numbers, against the softmax that torch computes with them: what it does not obey is not hidden."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import attnviz
from attnviz.layer import Fidelity
from attnviz.masks import Causal, Full, Padding
from attnviz.tracing import capturing, verification

LEAST = torch.finfo(torch.float32).min
SIZES = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}


class Attention(nn.Module):
    """Attention of queries and keys (sequences, heads, tokens, width) with a mask that is added, or of booleans."""

    def __init__(self, query, key, mask, scale=None):
        super().__init__()
        self.query, self.key, self.mask, self.scale = query, key, mask, scale

    def forward(self, value):
        return scaled_dot_product_attention(
            self.query, self.key, value, self.mask, scale=self.scale, enable_gqa=self.query.shape[1] != value.shape[1]
        )

    def weights(self):
        """The weights (heads, queries, keys) of the first sequence, computed in float64."""
        key = self.key.repeat_interleave(self.query.shape[1] // self.key.shape[1], 1)
        scale = self.query.shape[-1] ** -0.5 if self.scale is None else self.scale
        return ((self.query @ key.mT * scale).double() + self.mask.double()).softmax(-1).nan_to_num()[0]


def layer_of(module):
    key = module.key
    [layer] = attnviz.capture(module, torch.randn(*key.shape[:-1], 3))
    return layer


def check(module):
    """The layer of a module, after its weights are compared."""
    layer = layer_of(module)
    attention = layer.mechanism(layer.inputs)
    expected, scores = module.weights(), attention.scores.where(attention.allowed, 0).abs().amax(-1, keepdim=True)
    rounding = 1e-5 + 2 * torch.finfo(torch.float32).eps * scores.where(scores < 1e30, 0)
    assert layer.fidelity is Fidelity.VERIFIED
    assert ((attention.weights - expected).abs() <= rounding).all()
    return layer


def leak_in_one_row(tokens=9, row=1, key=5, score=3e4):
    query = torch.zeros(1, 1, tokens, 2)
    keys = query.clone()
    query[0, 0, row, 0], keys[0, 0, key, 0] = 1, score
    return Attention(query, keys, torch.full((tokens, tokens), -1e4).triu(1), scale=1.0)


def test_a_leak_in_one_row_is_shown_and_said():
    layer = check(leak_in_one_row())
    assert layer.leak == "“1” gives 1 to keys that its mask meant to forbid (head 0)."
    allowed = layer.mechanism(layer.inputs).allowed[0]
    assert torch.equal(allowed.all(-1).nonzero().flatten(), torch.tensor([1, 8]))  # all other rows stay causal


def test_a_leak_in_the_middle_of_a_long_text_is_shown():
    layer = check(leak_in_one_row(tokens=300, row=123, key=210))
    assert "of 300 queries" in layer.comparison
    assert layer.leak


@pytest.mark.parametrize(
    "number", [-1e4, -65504.0, -1e9, LEAST], ids=["ten thousand", "least of float16", "a billion", "least of float32"]
)
def test_a_mask_that_is_obeyed_is_recognized(number):
    mask = torch.full((6, 6), number).triu(1)
    layer = check(Attention(*torch.randn(2, 1, 2, 6, 4), mask))
    assert (layer.mechanism.mask, layer.mechanism.biases, layer.leak) == (Causal(), (), "")


@pytest.mark.parametrize("number", [-1e4, -1e9, LEAST])
def test_a_number_that_all_keys_get_forbids_none(number):
    layer = check(Attention(*torch.randn(2, 1, 2, 3, 4), torch.full((3, 3), number)))
    assert layer.mechanism.mask == Full()
    assert layer.leak == (
        "“0” attends as if it had no mask (3 queries are so): what is added to all of its keys changes no weight."
    )


def test_a_padded_query_of_an_outer_product_attends_to_all_keys():
    real = torch.tensor([1.0, 1, 0])
    layer = check(Attention(*torch.randn(2, 1, 2, 3, 4), (1 - real[:, None] * real) * -1e4))
    assert layer.mechanism(layer.inputs).allowed[0].tolist() == [[True, True, False]] * 2 + [[True] * 3]


def test_a_number_for_each_row_is_no_mask():
    layer = check(Attention(*torch.randn(2, 1, 2, 40, 4), -1000.0 * torch.arange(40.0)[:, None].expand(40, 40)))
    assert layer.mechanism.mask == Full()


def test_infinity_forbids_also_where_other_keys_leak():
    mask = torch.tensor([[-torch.inf, -1e4, -1e4], [0, -torch.inf, -1e4], [-torch.inf] * 3])
    layer = check(Attention(*torch.randn(2, 1, 2, 3, 4), mask))
    assert layer.mechanism(layer.inputs).allowed[0].tolist() == [
        [False, True, True],
        [True, False, False],
        [False] * 3,
    ]
    assert "1 of them has no allowed key in all heads" in layer.comparison


def test_a_padding_of_keys_that_one_head_does_not_obey():
    query, key = torch.randn(2, 1, 2, 5, 4)
    query[0, 1, 3], key[0, 1, 4] = 300.0, 300.0
    layer = check(Attention(query, key, torch.tensor([0, 0, 0, 0, -1e4])[None, None, None].expand(1, 1, 5, 5)))
    assert layer.leak == "“3” gives 1 to keys that its mask meant to forbid (head 1)."
    layer = check(Attention(query / 300, key / 300, torch.tensor([0, 0, 0, 0, -1e4])[None, None, None]))
    assert layer.mechanism.mask == Padding(4)


def test_heads_that_share_keys():
    query, key = torch.randn(1, 4, 5, 4), torch.randn(1, 2, 5, 4)
    query[0, 3, 2], key[0, 1, 4] = 300.0, 300.0
    assert "head 3" in check(Attention(query, key, torch.full((5, 5), -1e4).triu(1))).leak


NUMBERS = st.sampled_from([0.0, 0.0, 0.0, -3.0, 5e3, -9e3, -1e4, -1.1e4, -1e5, LEAST, -torch.inf])


@given(st.data(), st.integers(1, 5), st.integers(1, 5), st.sampled_from([0.1, 10.0, 100.0]))
def test_any_numbers_are_those_of_the_softmax(data, queries, keys, size):
    torch.manual_seed(data.draw(st.integers(0, 99)))
    rows = st.lists(NUMBERS, min_size=keys, max_size=keys)
    mask = torch.tensor(data.draw(st.lists(rows, min_size=queries, max_size=queries)))
    query, key = size * torch.randn(1, 2, queries, 4), size * torch.randn(1, 2, keys, 4)
    check(Attention(query, key, mask))


def llama(**more):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_attention_heads=4, num_key_value_heads=2, **more)).eval()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("observes", [False, True], ids=["capture", "capturing"])
def test_a_mask_that_a_transformers_model_is_given(implementation, observes):
    model = llama(attn_implementation=implementation)
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight *= 1e7
    ids, mask = torch.arange(6)[None], torch.full((1, 1, 6, 6), -1e4).triu(1)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        [own] = model(ids, attention_mask=mask, output_attentions=True).attentions
    model.set_attn_implementation(implementation)
    if observes:
        with capturing(model) as traces, torch.no_grad():
            model(ids, attention_mask=mask)
        [layer] = traces[0]
    else:
        [layer] = attnviz.capture(model, input_ids=ids, attention_mask=mask)
    assert own[0].triu(1).max() > 0.5
    assert "gives 1 to keys" in layer.leak
    torch.testing.assert_close(layer.mechanism(layer.inputs).weights, own[0], atol=1e-2, rtol=0)
    assert layer.fidelity is Fidelity.VERIFIED


def test_what_the_model_goes_on_with_is_what_its_softmax_gives():
    """The keys that no row of a block allows are not left out where they have weight."""
    model = llama()
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight *= 1e7
    ids, mask = torch.arange(6)[None], torch.zeros(1, 1, 6, 6)
    mask[..., 4:] = -1e4
    ends = []
    model.lm_head.register_forward_hook(lambda module, args, result: ends.append(result))
    attnviz.capture(model, input_ids=ids, attention_mask=mask)
    with torch.no_grad():
        model(ids, attention_mask=mask)
    torch.testing.assert_close(*ends, atol=1e-4, rtol=1e-3)


# Which rows are compared


class Odd(Attention):
    """Attention in which one row is not what its arguments say."""

    def forward(self, value):
        query = self.query.clone()
        query[:, :, self.row] += 1
        return Uncommon.attend(self.query, query, self.key, value)


class Uncommon(torch.Tensor):
    """Queries that torch's attention takes for others."""

    others: torch.Tensor

    @classmethod
    def attend(cls, query, others, key, value):
        query = query.as_subclass(cls)
        query.others = others
        return scaled_dot_product_attention(query, key, value)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is scaled_dot_product_attention:
            return function(args[0].others, *args[1:])
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("tokens", [9, 60])
def test_no_row_of_a_short_text_can_be_off(tokens):
    module = Odd(*torch.randn(2, 1, 2, tokens, 4), None)
    module.row = tokens // 3
    trace = attnviz.capture(module, torch.randn(1, 2, tokens, 3))
    assert not trace
    assert "its output is not what its queries, keys and values give" in trace.missing[0]


def test_a_long_text_says_how_many_rows_were_compared():
    [layer] = attnviz.capture(Attention(*torch.randn(2, 1, 2, 400, 4), None), torch.randn(1, 2, 400, 3))
    number = verification.ALWAYS_COMPARED // (2 * 400)
    assert layer.comparison.startswith(f"The outputs of {number} of 400 queries were compared with the model's own")


def test_large_values_elsewhere_hide_no_difference():
    """The rounding that is allowed is that of what the row adds up, not that of the largest number."""
    module = Odd(*torch.randn(2, 1, 2, 9, 4), None)
    module.row, value = 8, torch.randn(1, 2, 9, 3)
    value[:, 0] *= 1e6
    assert not attnviz.capture(module, value)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("empty", [[(2, None)], [(0, 1), (1, 3)], [(0, None), (1, None), (2, None)]])
def test_heads_and_queries_without_keys_take_no_others_with_them(need_weights, empty):
    module, x = nn.MultiheadAttention(6, 3, batch_first=True), torch.randn(1, 5, 6)
    mask = torch.zeros(3, 5, 5, dtype=torch.bool)
    for head, row in empty:
        mask[head, slice(None) if row is None else row] = True
    [layer] = attnviz.capture(module, x, x, x, attn_mask=mask, need_weights=need_weights)
    assert layer.fidelity is Fidelity.VERIFIED
    assert "allowed key" in layer.comparison
    query, key, _ = nn.functional.linear(x, module.in_proj_weight, module.in_proj_bias)[0].chunk(3, -1)
    scores = torch.einsum("qhd,khd->hqk", *(part.unflatten(-1, (3, 2)) for part in (query, key))) / 2**0.5
    expected = scores.masked_fill(mask, -torch.inf).softmax(-1).nan_to_num()
    torch.testing.assert_close(layer.mechanism(layer.inputs).weights, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("need_weights", [True, False])
def test_torchs_multi_head_attention_does_not_obey_a_finite_mask(need_weights):
    module, x = nn.MultiheadAttention(6, 3, batch_first=True), 100 * torch.randn(1, 5, 6)
    mask = torch.full((5, 5), -1e4).triu(1)
    with torch.no_grad():
        module.in_proj_weight *= 10
        _, expected = module(x, x, x, attn_mask=mask, average_attn_weights=False)
    [layer] = attnviz.capture(module, x, x, x, attn_mask=mask, need_weights=need_weights)
    assert expected.triu(1).max() > 0.5
    assert layer.leak
    torch.testing.assert_close(layer.mechanism(layer.inputs).weights, expected[0], atol=1e-2, rtol=0)


@pytest.mark.parametrize("number_type", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_whose_scores_are_lost_in_rounding_is_not_shown_as_another(number_type):
    """Beside −65,504, float16 has steps of 32 for scores."""
    model = llama(attn_implementation="eager").to(number_type)
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight *= 1e3
    ids, mask = torch.arange(6)[None], torch.full((1, 1, 6, 6), torch.finfo(number_type).min, dtype=number_type)
    with torch.no_grad():
        [own] = model(ids, attention_mask=mask, output_attentions=True).attentions
    [layer] = attnviz.capture(model, input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(layer.mechanism(layer.inputs).weights, own[0].float(), atol=1e-2, rtol=0)


def test_an_example_without_any_allowed_key_says_so():
    [layer] = attnviz.capture(Attention(*torch.randn(2, 1, 2, 3, 4), torch.zeros(3, 3).bool()), torch.randn(1, 2, 3, 3))
    assert layer.comparison.startswith("None of all 3 queries has an allowed key")
    assert not layer.mechanism(layer.inputs).weights.any()
