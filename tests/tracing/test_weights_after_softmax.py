"""The weights that are shown are what values are multiplied with, also if a softmax is changed, or there is none."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz import capture, capturing
from tests.support.timm_models import import_timm

N = 5


class OwnAttention(nn.Module):
    """Attention whose weights are what `change` makes of its scores (examples, 2, queries, keys)."""

    def __init__(self, change):
        super().__init__()
        self.num_heads, self.change = 2, change
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.heads, self.more, self.gate = nn.Linear(2, 2), nn.Linear(2, 3), nn.Linear(8, 2)
        self.conv, self.factor = nn.Conv2d(2, 2, 1), nn.Parameter(torch.rand(2, 1, 1))

    def forward(self, x):
        self.x = x
        q, k, v = (one(x).unflatten(-1, (2, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
        self.weights = self.change(self, q @ k.mT / 2)
        return self.multiply(self.weights, v)

    def multiply(self, weights, v):
        return (weights @ v).transpose(1, 2).flatten(2)


def own(change, multiply=None):
    torch.manual_seed(0)
    model = OwnAttention(change).eval()
    if multiply is not None:
        model.multiply = multiply
    return model


def set_first(weights):
    weights[..., 0] = 0
    return weights


def strongest(weights):
    kept = weights.topk(2)
    return torch.zeros_like(weights).scatter(-1, kept.indices, kept.values)


def normalized(weights):
    return weights / weights.sum(-1, keepdim=True)


CHANGES = {
    "none": lambda m, w: w,
    "heads are mixed": lambda m, w: m.heads(w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
    "heads are mixed by einsum": lambda m, w: torch.einsum("bhqk,hg->bgqk", w, m.heads.weight),
    "heads are mixed by a convolution": lambda m, w: m.conv(w),
    "a difference": lambda m, w: w - 0.3 * (w.log() / 2).softmax(-1),
    "a difference of heads": lambda m, w: w[:, :1] - 0.3 * w[:, 1:],
    "a threshold": lambda m, w: w.masked_fill(w < 0.2, 0),
    "a threshold by where": lambda m, w: torch.where(w < 0.2, 0.0, w),
    "a threshold of torch": lambda m, w: F.threshold(w, 0.2, 0.0),
    "relu": lambda m, w: (w - 0.2).relu(),
    "normalized again": lambda m, w: normalized((w - 0.2).relu() + 0.01),
    "a power": lambda m, w: normalized(w**2),
    "a layer norm": lambda m, w: F.layer_norm(w, [N]),
    "of length one": lambda m, w: F.normalize(w, dim=-1),
    "a factor": lambda m, w: 0.5 * w,
    "a factor of each head": lambda m, w: w * m.factor,
    "a mask of heads": lambda m, w: w * torch.tensor([0.0, 1.0])[:, None, None],
    "a gate": lambda m, w: w * m.gate(m.x).sigmoid().transpose(1, 2)[..., None],
    "in place": lambda m, w: w.mul_(0.5),
    "a number in place": lambda m, w: set_first(w),
    "the strongest": lambda m, w: strongest(w),
    "reversed": lambda m, w: 1 - w,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_values_are_multiplied_with_is_shown(change):
    model = own(lambda m, scores: CHANGES[change](m, scores.softmax(-1)))
    trace = capture(model, torch.randn(1, N, 8))
    assert trace.missing == ()
    assert torch.equal(trace[0].maps(), model.weights[0])


PRODUCTS = {
    "bmm": lambda w, v: torch.bmm((w * 2).flatten(0, 1), v.flatten(0, 1)),
    "einsum": lambda w, v: torch.einsum("bqhk,bhkd->bqhd", (w * 2).transpose(1, 2), v),
    "transposed": lambda w, v: v.mT @ (w * 2).mT,
    "a sum": lambda w, v: ((w * 2)[..., None] * v[:, :, None]).sum(-2),
    "twice": lambda w, v: (w * 2) @ v + (w * 2) @ v.square(),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_values_are_multiplied_by_any_function(product):
    model = own(lambda m, scores: scores.softmax(-1), PRODUCTS[product])
    trace = capture(model, torch.randn(2, N, 8), example=1)
    assert trace.missing == ()
    assert torch.equal(trace[0].maps(), 2 * model.weights[1])


UNKNOWN = {
    "other heads": (lambda w, v: m_more(w) @ v[:, :1], "what its values are multiplied with is not known"),
    "hard": (lambda w, v: F.one_hot(w.argmax(-1), N).float() @ v, "what its values are multiplied with is not known"),
    "two": (lambda w, v: w @ v + (w * 2) @ v, "it multiplies values with its weights more than once"),
}


def m_more(weights: Tensor) -> Tensor:
    return F.linear(weights.permute(0, 2, 3, 1), torch.ones(3, 2)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("product", UNKNOWN)
def test_what_is_not_known_is_missing(product):
    multiply, reason = UNKNOWN[product]
    trace = capture(own(lambda m, scores: scores.softmax(-1), multiply), torch.randn(1, N, 8))
    assert len(trace) == 0
    assert reason in trace.missing[0]


def test_weights_in_training_are_shown_before_dropout():
    model = own(lambda m, scores: F.dropout(2 * scores.softmax(-1), 0.5, training=True).to(torch.float32)).train()
    with capturing(model) as traces:
        model(torch.randn(1, N, 8))
    dropped = model.weights[0] == 0
    torch.testing.assert_close(2 * traces[0][0].maps()[~dropped], model.weights[0][~dropped])
    assert bool((traces[0][0].maps() > 0).all())
    assert bool(dropped.any())


def test_talking_heads_of_timm():
    import_timm()
    from timm.models.cait import Cait

    torch.manual_seed(0)
    sizes = {"img_size": 32, "patch_size": 16, "embed_dim": 16, "depth": 1, "num_heads": 2, "depth_token_only": 1}
    model, weights = Cait(**sizes, num_classes=3).eval(), []
    nn.init.normal_(model.blocks[0].attn.proj_w.weight)
    model.blocks[0].attn.attn_drop.register_forward_hook(lambda _, __, result: weights.append(result.detach()))
    trace = capture(model, torch.randn(1, 3, 32, 32))
    assert trace.missing == ()
    assert torch.equal(trace[0].maps(), weights[0][0])


class Both(nn.Module):
    """Attention of torch, and one of its own whose weights are what `weigh` makes of its scores."""

    def __init__(self, weigh):
        super().__init__()
        self.a, self.q, self.k, self.weigh = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8), None, weigh
        self.b = Mixing(weigh)

    def forward(self, x):
        return self.b(self.a(x, x, x)[0])


class Mixing(nn.Module):
    def __init__(self, weigh):
        super().__init__()
        self.q, self.k, self.weigh = nn.Linear(8, 8), nn.Linear(8, 8), weigh

    def forward(self, x):
        return self.weigh(self.q(x) @ self.k(x).mT, x)


CAUSAL = torch.ones(N, N).tril()
WITHOUT_SOFTMAX = {
    "relu": lambda s, x: s.relu() / N @ x,
    "relu of torch": lambda s, x: F.relu(s) @ x,
    "squared relu": lambda s, x: (s.relu() ** 2) @ x,
    "square": lambda s, x: s.square() * CAUSAL @ x,
    "masked": lambda s, x: (s + torch.randn(N, N)).masked_fill(CAUSAL == 0, 0).relu() @ x,
    "elu": lambda s, x: (F.elu(s) + 1) @ x,
    "tanh": lambda s, x: s.tanh() @ x,
    "sigmoid": lambda s, x: s.sigmoid() @ x,
    "exp": lambda s, x: s.exp() @ x,
    "clamp": lambda s, x: s.clamp(min=0) @ x,
    "threshold": lambda s, x: s.masked_fill(s < 0.1, 0) @ x,
    "where": lambda s, x: torch.where(s > 0.1, s, 0.0) @ x,
    "comparison": lambda s, x: (s > 0).float() @ x,
    "sum of absolutes": lambda s, x: s / s.abs().sum(-1, keepdim=True) @ x,
    "its largest": lambda s, x: s / s.abs().amax(-1, keepdim=True) @ x,
    "length one": lambda s, x: F.normalize(s, dim=-1) @ x,
    "a hard choice": lambda s, x: F.one_hot(s.argmax(-1), N).float() @ x,
    "a hard choice by scatter": lambda s, x: torch.zeros_like(s).scatter(-1, s.topk(2).indices, 1.0) @ x,
    "the values of a hard choice": lambda s, x: x.gather(1, s.argmax(-1)[..., None].expand(-1, -1, 8)),
    "the values of a hard choice, by index": lambda s, x: x[0, s[0].argmax(-1)],
    "the strongest": lambda s, x: (lambda kept: (kept.values[..., None] * x[0, kept.indices]).sum(-2))(s.topk(2)),
    "einsum": lambda s, x: torch.einsum("bqk,bkd->bqd", s.relu(), x),
}


@pytest.mark.parametrize("weigh", WITHOUT_SOFTMAX)
def test_attention_without_a_softmax_is_missing(weigh):
    torch.manual_seed(0)
    trace = capture(Both(WITHOUT_SOFTMAX[weigh]).eval(), torch.randn(1, N, 8))
    assert len(trace) == 1
    assert [sentence.split(" is not shown")[0] for sentence in trace.missing] == ["b (Mixing)"]


NOT_ATTENTION = {
    "a gate of features": lambda s, x: x * x.sigmoid(),
    "scores that nothing is multiplied with": lambda s, x: s.relu(),
    "their sum": lambda s, x: s.relu().sum(-1, keepdim=True) * x,
    "features with features": lambda s, x: x @ (x.mT @ x).relu(),
}


@pytest.mark.parametrize("weigh", NOT_ATTENTION)
def test_what_is_no_attention_is_not_missing(weigh):
    torch.manual_seed(0)
    trace = capture(Both(NOT_ATTENTION[weigh]).eval(), torch.randn(1, N, 8))
    assert (len(trace), trace.missing) == (1, ())
