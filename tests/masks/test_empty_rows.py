import math
import re
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import MarkupLMConfig, MarkupLMModel, masking_utils
from transformers.models.llama import modeling_llama
from transformers.models.openai import modeling_openai
from transformers.models.swin import modeling_swin

from attnviz import Mechanism
from attnviz.masks import Causal, Mask, Padding
from attnviz.masks.empty_rows import EMPTY_ROW_CONVENTIONS, masked_softmax

NAMES = [each.name for each in EMPTY_ROW_CONVENTIONS]
EMPTY = 2  # the query that sees nothing


@dataclass(frozen=True)
class AllButOne(Mask):
    """Causal, save that one query sees nothing."""

    def __call__(self, b, h, q, k):
        return (k <= q) & (q != EMPTY)


@pytest.fixture
def query_key():
    return torch.randn(2, 1, 1, 5, 4)


@pytest.fixture
def allowed():
    return torch.ones(5, 5, dtype=torch.bool).tril().index_fill(0, torch.tensor(EMPTY), False)


def scores_of(query_key):
    query, key = query_key
    return (query @ key.mT / 2)[0, 0]


def slow_softmax(scores):
    exps = [math.exp(score - max(scores)) for score in scores]
    return [each / math.fsum(exps) for each in exps]


def test_zeros_as_torch_gives_them(query_key, allowed):
    """A value that is 1 for one key alone takes out that key's weight."""
    expected = scaled_dot_product_attention(*query_key, torch.eye(5)[None, None], attn_mask=allowed)[0, 0]
    assert expected[EMPTY].tolist() == [0] * 5
    torch.testing.assert_close(masked_softmax(scores_of(query_key), allowed, "zeros"), expected)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_zeros_as_flex_attention_gives_them(query_key, allowed):
    block_mask = create_block_mask(AllButOne(), None, None, 5, 5, device="cpu")
    expected = flex_attention(*query_key, torch.eye(5)[None, None], block_mask=block_mask)[0, 0]
    assert expected[EMPTY].tolist() == [0] * 5
    torch.testing.assert_close(masked_softmax(scores_of(query_key), allowed, "zeros"), expected)


@pytest.mark.parametrize("mask", [AllButOne(), Causal(), ~Causal(), Padding(0)], ids=repr)
def test_zeros_is_what_attnviz_does(random_inputs, mask):
    attention = Mechanism(mask=mask)(random_inputs(queries=5, keys=5))
    torch.testing.assert_close(masked_softmax(attention.raw, attention.allowed, "zeros"), attention.weights)


def test_nan_as_softmax_gives_it(query_key, allowed):
    expected = torch.softmax(scores_of(query_key).masked_fill(~allowed, -torch.inf), -1)
    assert expected[EMPTY].isnan().all()
    torch.testing.assert_close(masked_softmax(scores_of(query_key), allowed, "NaN"), expected, equal_nan=True)


def test_torchs_module_gives_nan_with_weights_and_zeros_without():
    module, x = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.randn(1, 3, 4)
    blocked = torch.ones(1, 3, dtype=torch.bool)
    assert module(x, x, x, key_padding_mask=blocked)[1].isnan().all()
    out = module(x, x, x, key_padding_mask=blocked, need_weights=False)[0]
    torch.testing.assert_close(out, module.out_proj.bias.expand(1, 3, 4))


def test_uniform_as_transformers_eager_attention_gives_it(query_key, allowed):
    mask = masking_utils.eager_mask(1, 5, 5, mask_function=AllButOne())
    assert mask.min() == torch.finfo(torch.float32).min
    module = SimpleNamespace(num_key_value_groups=1, training=False)
    query, key = query_key
    _, expected = modeling_llama.eager_attention_forward(module, query, key, key, mask, scaling=0.5)
    torch.testing.assert_close(expected[0, 0, EMPTY], torch.full((5,), 0.2), rtol=0, atol=0)
    torch.testing.assert_close(
        masked_softmax(scores_of(query_key), allowed, "uniform"), expected[0, 0], rtol=0, atol=1e-7
    )


def test_uniform_as_the_first_gpt_gives_it(query_key):
    """It sets masked scores to −1e4; an attention mask on top of that leaves a row with nothing."""
    query, key = query_key
    attention = SimpleNamespace(scale=True, bias=torch.zeros(1, 1, 5, 5), attn_dropout=torch.nn.Identity())
    _, expected = modeling_openai.Attention._attn(attention, query, key.mT, key, output_attentions=True)
    nothing = torch.zeros(5, 5, dtype=torch.bool)
    torch.testing.assert_close(masked_softmax(scores_of(query_key), nothing, "uniform"), expected[0, 0], rtol=0, atol=0)


def test_finite_fill_as_swin_adds_it():
    """Its mask, of windows that the shift cut apart, and its attention."""
    layer = SimpleNamespace(shift_size=1, window_size=2)
    mask = modeling_swin.SwinLayer.get_attn_mask(layer, 4, 4, torch.float32, "cpu")[:, None]
    query, key = torch.randn(2, len(mask), 1, 4, 4) * 5
    assert sorted(mask.unique().tolist()) == [-100, 0]
    _, expected = modeling_swin.eager_attention_forward(
        SimpleNamespace(training=False), query, key, key, mask, scaling=0.5
    )
    ours = masked_softmax(query @ key.mT * 0.5, mask == 0, "finite fill", fill=-100.0)
    torch.testing.assert_close(ours, expected)


def test_finite_fill_as_markuplm_adds_it():
    """A text of padding alone is attended to as if none of it were padding, up to rounding."""
    config = MarkupLMConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_depth=2,
        xpath_unit_hidden_size=2,
        attn_implementation="eager",
    )
    model = MarkupLMModel(config).eval()
    captured = []
    attention = model.encoder.layer[0].attention.self
    attention.register_forward_pre_hook(lambda module, args, kwargs: captured.append((args, kwargs)), with_kwargs=True)
    weights = []
    for real in (1, 0):
        attention_mask = torch.full((1, 5), real)
        out = model(torch.tensor([[1, 2, 3, 4, 5]]), attention_mask=attention_mask, output_attentions=True)
        weights.append(out.attentions[0])
    masks = [
        next(x for x in (*args, *kwargs.values()) if torch.is_tensor(x) and x.ndim == 4) for args, kwargs in captured
    ]
    assert [mask.unique().tolist() for mask in masks] == [[0], [-10000]]
    assert not torch.equal(*weights)
    torch.testing.assert_close(*weights, rtol=0, atol=1e-3)
    scores = weights[0].log()
    ours = masked_softmax(scores, torch.zeros(5, 5, dtype=torch.bool), "finite fill")
    torch.testing.assert_close(ours, weights[0], rtol=0, atol=1e-3)


@given(st.integers(0, 10**6), st.sampled_from(NAMES), st.sampled_from([-10000.0, -100.0, -30.0]))
def test_every_convention_a_row_at_a_time(seed, convention, fill):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(4, 5, generator=generator) * 4
    allowed = torch.rand(4, 5, generator=generator) < 0.5
    weights = masked_softmax(scores, allowed, convention, fill=fill)
    for row, seen, ours in zip(scores.tolist(), allowed.tolist(), weights.tolist(), strict=True):
        if convention == "finite fill":
            expected = slow_softmax([score + (0 if may else fill) for score, may in zip(row, seen, strict=True)])
        elif any(seen):
            expected = slow_softmax([score if may else -math.inf for score, may in zip(row, seen, strict=True)])
        else:
            expected = [{"zeros": 0, "NaN": math.nan, "uniform": 1 / 5}[convention]] * 5
        assert ours == pytest.approx(expected, abs=2e-3 if fill == -10000 else 1e-5, nan_ok=True)


def test_a_fill_so_large_that_the_score_is_lost_becomes_uniform():
    scores, nothing = torch.tensor([[3.0, 1.0, -2.0]]), torch.zeros(1, 3, dtype=torch.bool)
    assert (
        masked_softmax(scores, nothing, "finite fill", fill=-1e9).tolist()
        == masked_softmax(scores, nothing, "uniform").tolist()
    )


def test_heads_share_a_mask():
    scores, allowed = torch.randn(2, 3, 4, 4), torch.ones(4, 4, dtype=torch.bool).tril(-1)
    for name in NAMES:
        weights = masked_softmax(scores, allowed, name)
        torch.testing.assert_close(weights[1, 2], masked_softmax(scores[1, 2], allowed, name), equal_nan=True)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("convention", "fill", "sentence"),
    [
        ("ones", -1.0, "There is no convention 'ones' for empty rows. Choose one of zeros, NaN, uniform, finite fill."),
        ("finite fill", 1.0, "A finite fill is a number below 0, such as −10000 or −100; it got 1.0."),
        ("finite fill", -math.inf, "A finite fill is a number below 0, such as −10000 or −100; it got -inf."),
        ("finite fill", math.nan, "A finite fill is a number below 0, such as −10000 or −100; it got nan."),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(convention, fill, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        masked_softmax(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool), convention, fill=fill)
