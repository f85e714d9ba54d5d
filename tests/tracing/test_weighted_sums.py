"""Attention that is not captured is named by what it computes, and what is something else is not."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnviz.layer import Fidelity
from attnviz.tracing import capture, capturing

BATCH, TOKENS, WIDTH, HEADS = 2, 6, 8, 2


def states(*shape: int) -> Tensor:
    return torch.randn(shape or (BATCH, TOKENS, WIDTH), generator=torch.Generator().manual_seed(1))


class Hand(nn.Module):
    """Attention by a function of queries, keys and values (batch, heads, tokens, width)."""

    def __init__(self, function) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        parts = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj))
        return self.function(*parts).transpose(1, 2).flatten(2)


class Beside(nn.Module):
    """A module next to an attention that is captured."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.a, self.b = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), module

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x, x, x)[0])


def missing(module: nn.Module) -> tuple[str, ...]:
    trace = capture(Beside(module).eval(), states(), example=0)
    assert [layer.fidelity for layer in trace] == [Fidelity.VERIFIED]
    return trace.missing


def scores(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5


def exponentials(q, k):
    s = scores(q, k)
    return (s - s.amax(-1, keepdim=True)).exp()


def divided(q, k, v):
    e = exponentials(q, k)
    return (e / e.sum(-1, keepdim=True)) @ v


def divided_in_place(q, k, v):
    e = exponentials(q, k)
    e /= e.sum(dim=-1, keepdim=True) + 1e-6
    return e @ v


def divided_afterwards(q, k, v):
    e = exponentials(q, k)
    return (e @ v) / e.sum(-1)[..., None]


def times_reciprocal(q, k, v):
    e = exponentials(q, k)
    return torch.matmul(e * (1 / e.sum(-1, keepdim=True)), v)


def masked_and_divided(q, k, v):
    e = exponentials(q, k) * torch.ones(TOKENS, TOKENS).tril()
    return torch.einsum("bhqk,bhkd->bhqd", e / e.sum(-1, True).clamp(min=1e-6), v)


def by_log_sum_exp(q, k, v):
    s = scores(q, k)
    return (s - s.logsumexp(-1, keepdim=True)).exp() @ v


def causal_in_16_bits(q, k, v):
    s = scores(q, k).masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), -torch.inf)
    w = functional.softmax(s.bfloat16(), dim=-1, dtype=torch.float32).to(q.dtype)
    return functional.dropout(w, 0.1, training=False) @ v


def in_one_batch(q, k, v):
    w = scores(q, k).softmax(-1)
    w = w.reshape(-1, TOKENS, TOKENS)
    return torch.bmm(w, v.flatten(0, 1)).unflatten(0, (BATCH, HEADS))


def transposed(q, k, v):
    w = torch.softmax(k @ q.mT, dim=-2)
    return (v.mT @ w).mT


def transposed_in_einsum(q, k, v):
    w = torch.softmax(torch.einsum("bhqd,bhkd->bhkq", q, k), dim=2)
    return torch.einsum("b h k q, bhkd -> bhqd", w, v)


def spread(q, k, v):
    w = scores(q, k).softmax(-1)
    return (w[..., None] * v[:, :, None]).sum(-2)


def added(q, k, v):
    w = scores(q, k).softmax(-1).flatten(0, 1)
    return torch.baddbmm(torch.zeros(1), w, v.flatten(0, 1), beta=0).unflatten(0, (BATCH, HEADS))


def repeated(q, k, v):
    w = scores(q[:, :1], k[:, :1]).softmax(-1).repeat(1, HEADS, 1, 1)
    return w @ v


def head_by_head(q, k, v):
    return torch.stack([scores(q[:, h], k[:, h]).softmax(-1) @ v[:, h] for h in range(HEADS)], 1)


def one_head(q, k, v):
    seen = functional.scaled_dot_product_attention(q[:, :1], k[:, :1], v[:, :1])
    return torch.cat([seen, scores(q[:, 1:], k[:, 1:]).softmax(-1) @ v[:, 1:]], 1)


def in_two_parts(q, k, v):
    w = torch.cat([scores(q, k[:, :, :2]), scores(q, k[:, :, 2:])], -1).softmax(-1)
    return w[..., :2] @ v[:, :, :2] + w[..., 2:] @ v[:, :, 2:]


def sparsemax(q, k, v):
    s = scores(q, k)
    ordered = s.sort(-1, descending=True).values
    steps = torch.arange(1, TOKENS + 1)
    support = 1 + steps * ordered > ordered.cumsum(-1)
    threshold = (ordered.cumsum(-1).gather(-1, support.sum(-1, True) - 1) - 1) / support.sum(-1, True)
    return (s - threshold).clamp(min=0) @ v


def talking_heads(q, k, v):
    w = scores(q, k).softmax(-1)
    return functional.linear(w.permute(0, 2, 3, 1), torch.eye(HEADS)).permute(0, 3, 1, 2) @ v


def differential(q, k, v):
    return (scores(q, k).softmax(-1) - 0.3 * scores(k, q).softmax(-1)) @ v


def the_best_two(q, k, v):
    best = scores(q, k).topk(2, dim=-1)
    w = torch.zeros(BATCH, HEADS, TOKENS, TOKENS).scatter(-1, best.indices, best.values.softmax(-1))
    return w @ v


def linear(q, k, v):
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None] + 1e-6)


def linear_in_einsum(q, k, v):
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    kv = torch.einsum("nhld,nhlm->nhmd", k, v)
    z = 1 / (torch.einsum("nhld,nhd->nhl", q, k.sum(dim=2)) + 1e-6)
    return torch.einsum("nhld,nhmd,nhl->nhlm", q, kv, z)


def efficient(q, k, v):
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def in_bands(q, k, v):
    """Each query looks at two keys, which are padded with −1."""
    near_keys, near = (functional.pad(one, (0, 0, 1, 0), value=-1.0).unfold(2, 2, 1) for one in (k, v))
    return torch.einsum("bhqw,bhqdw->bhqd", torch.einsum("bhqd,bhqdw->bhqw", q, near_keys).softmax(-1), near)


FUNCTIONS = [
    lambda q, k, v: scores(q, k).softmax(-1) @ v,
    lambda q, k, v: functional.softmax(scores(q, k), dim=-1).matmul(v),
    lambda q, k, v: torch.softmax(scores(q, k), dim=3) @ v,
    lambda q, k, v: nn.Softmax(dim=-1)(scores(q, k)) @ v,
    lambda q, k, v: scores(q, k).log_softmax(-1).exp() @ v,
    lambda q, k, v: torch.special.softmax(scores(q, k), -1) @ v,
    lambda q, k, v: functional.softmin(-scores(q, k), -1) @ v,
    lambda q, k, v: functional.gumbel_softmax(scores(q, k)) @ v,
    lambda q, k, v: functional.normalize(exponentials(q, k), p=1, dim=-1) @ v,
    lambda q, k, v: torch.sigmoid(scores(q, k)) @ v,
    lambda q, k, v: scores(q, k).sigmoid().masked_fill(torch.eye(TOKENS).bool(), 0) @ v,
    lambda q, k, v: torch.ops.aten.scaled_dot_product_attention(q, k, v),
    *(divided, divided_in_place, divided_afterwards, times_reciprocal, masked_and_divided, by_log_sum_exp),
    *(causal_in_16_bits, in_one_batch, transposed, transposed_in_einsum, spread, added, repeated, head_by_head),
    *(
        in_two_parts,
        in_bands,
        sparsemax,
        talking_heads,
        differential,
        the_best_two,
        linear,
        linear_in_einsum,
        efficient,
    ),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_attention_next_to_another_one_is_named(function):
    [sentence] = missing(Hand(function))
    assert sentence.startswith("b (Hand) is not shown: ")
    assert sentence.endswith("Let it call F.scaled_dot_product_attention.")


def test_the_sentence_says_how_many_keys():
    [sentence] = missing(Hand(divided))
    assert f"it computes attention over {TOKENS} keys itself" in sentence


def test_one_head_of_several():
    trace = capture(Beside(Hand(one_head)), states(), example=0)
    assert [layer.inputs.heads for layer in trace] == [HEADS, 1]
    assert len(trace.missing) == 1
    assert trace.missing[0].startswith("A part of b (Hand) is not shown: ")


# Modules of other forms


class Pool(nn.Module):
    """Attention pooling: a score for each token, from a layer or by a learned query."""

    def __init__(self, function) -> None:
        super().__init__()
        self.score, self.query, self.function = nn.Linear(WIDTH, 1), nn.Parameter(states(WIDTH)), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


POOLS = [
    lambda self, x: (self.score(x).softmax(1) * x).sum(1),
    lambda self, x: (self.score(x.tanh()).squeeze(-1).softmax(-1)[:, None] @ x).squeeze(1),
    lambda self, x: torch.einsum("bn,bnd->bd", (x @ self.query).softmax(-1), x),
    lambda self, x: ((x * self.query).softmax(1) * x).sum(1),  # a weight for each number of a token
]


@pytest.mark.parametrize("function", POOLS)
def test_pooling_with_weights_of_the_tokens_is_attention(function):
    assert [one.partition(" is")[0] for one in missing(Pool(function))] == ["b (Pool)"]


class Score(nn.Module):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return scores(q, k).softmax(-1)


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = Score()

    def forward(self, x: Tensor) -> Tensor:
        return self.score(x, x) @ x


def test_a_module_that_gets_its_weights_from_another_one():
    [sentence] = missing(nn.Sequential(nn.Identity(), Split()))
    assert sentence.startswith("b.1 (Split) is not shown: ")
    assert "with weights that b.1.score (Score) computes" in sentence


def test_a_helper_is_named_by_the_module_that_calls_it():
    class Container(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return divided(self.project(x), x, x)

    assert missing(Container())[0].startswith("b (Container) is not shown: ")


def test_a_module_is_named_once_and_each_module():
    hand, other = Hand(divided), Hand(spread)
    sentences = missing(nn.Sequential(hand, other, hand))
    assert [one.partition(" is")[0] for one in sentences] == ["b.0 (Hand)", "b.1 (Hand)"]


class Scripted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x


class ScriptedSDPA(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("kind", [Scripted, ScriptedSDPA])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_compiled_by_jit(kind, mode):
    with mode():
        [sentence] = missing(torch.jit.script(kind()))
    assert sentence == (
        f"b ({kind.__name__}) is not shown: its attention is compiled by torch.jit. "
        "Capture the module that it was made of."
    )


def test_a_model_compiled_by_jit_is_refused_in_words():
    scripted = torch.jit.script(Scripted())
    with pytest.raises(ValueError, match=r"Scripted is not shown: its attention is compiled by torch\.jit\."):
        capture(scripted, states())
    with pytest.raises(ValueError, match="Give the module that it was made of"), capturing(scripted):
        pass


def test_compiled_by_dynamo():
    assert missing(torch.compile(Hand(divided)))[0].startswith("b._orig_mod (Hand) is not shown: ")


def test_dropout_of_weights_in_training():
    model = Beside(Hand(lambda q, k, v: functional.dropout(scores(q, k).softmax(-1), 0.5) @ v)).train()
    with capturing(model, example=0) as traces:
        model(states()).sum().backward()
    assert [one.partition(":")[0] for one in traces[0].missing] == ["b (Hand) is not shown"]


# What is something else


class Experts(nn.Module):
    """A mixture of experts, whose outputs are stacked, or come from one large layer."""

    def __init__(self, count: int, function) -> None:
        super().__init__()
        self.gate, self.project = nn.Linear(WIDTH, count), nn.Linear(WIDTH, WIDTH)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(count))
        self.whole, self.count, self.function = nn.Linear(WIDTH, count * WIDTH), count, function
        self.weight = nn.Parameter(states(count, WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)

    def stacked(self, x: Tensor) -> Tensor:
        return torch.stack([expert(x) for expert in self.experts], -2)


def best_experts(self, x):
    best = self.gate(x).softmax(-1).topk(2, -1)
    weights = best.values / best.values.sum(-1, keepdim=True)
    outputs = self.stacked(x).gather(-2, best.indices[..., None].expand(*best.indices.shape, WIDTH))
    return (weights[..., None] * outputs).sum(-2)


def experts_by_table(self, x):
    """The experts are chosen by a table that gives all tokens the same, and their outputs are in one long row."""
    chosen = torch.zeros(BATCH * TOKENS, 2).long()
    weights = self.gate(x.flatten(0, 1)).relu().add(1).gather(1, chosen)
    weights = (weights / weights.sum(-1, keepdim=True)).reshape(-1)
    outputs = self.project(x.flatten(0, 1)).repeat_interleave(2, 0)
    return (outputs * weights[:, None]).view(-1, 2, WIDTH).sum(1)


MIXTURES = [
    lambda self, x: (self.gate(x).softmax(-1)[..., None] * self.stacked(x)).sum(-2),
    lambda self, x: torch.einsum("bne,bned->bnd", self.gate(x).softmax(-1), self.stacked(x)),
    lambda self, x: (self.gate(x).softmax(-1)[..., None, :] @ self.stacked(x)).squeeze(-2),
    lambda self, x: (self.gate(x).softmax(-1)[..., None] * self.whole(x).unflatten(-1, (self.count, WIDTH))).sum(-2),
    lambda self, x: torch.einsum(
        "bne,bned->bnd", self.gate(x).softmax(-1), torch.einsum("bnd,edf->bnef", x, self.weight)
    ),
    lambda self, x: (self.gate(x).exp() / self.gate(x).exp().sum(-1, True)).softmax(-1) @ self.gate.weight,
    best_experts,
    experts_by_table,
]


@pytest.mark.parametrize("count", [3, TOKENS])
@pytest.mark.parametrize("function", MIXTURES)
def test_a_mixture_of_experts_is_no_attention(count, function):
    assert not missing(Experts(count, function))


def normalized_by_hand(x):
    x = x - x.mean(-1, keepdim=True)
    return x / x.pow(2).mean(-1, keepdim=True).sqrt()


def mean_of_real_tokens(x):
    mask = (torch.arange(TOKENS) < 4).float().expand(BATCH, -1)
    return (mask[:, None] @ x).squeeze(1) / mask.sum(1, keepdim=True)


def mean_by_weights(x):
    mask = (x[..., 0] == x[..., 0]).float()
    return torch.einsum("bn,bnd->bd", mask / mask.sum(-1, keepdim=True), x)


def dice(x):
    a, b = x.sigmoid(), (x + 1).sigmoid()
    return 2 * (a @ b.mT) / (a.sum(-1, keepdim=True) + b.sum(-1)[:, None])


def entropy(x):
    weights = (x @ x.mT).softmax(-1)
    return -(weights * weights.clamp(min=1e-9).log()).sum(-1)


def divergence(x):
    one, other = (x @ x.mT).log_softmax(-1), (x @ x.mT).softmax(-1)
    return (other * (other.log() - one)).sum(-1)


def expected_position(x):
    return x.softmax(1).mT @ torch.arange(TOKENS).float()


def next_token(x):
    logits = functional.linear(x, states(20, WIDTH))
    return logits.softmax(-1).argmax(-1)


def soft_embedding(x):
    table = nn.Parameter(states(20, WIDTH))
    return functional.linear(x, table).softmax(-1) @ table


class Module(nn.Module):
    """A module that computes with layers of its own."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.gate, self.project = function, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


OTHERS = [
    lambda self, x: normalized_by_hand(x) @ x.mT,
    lambda self, x: mean_of_real_tokens(x),
    lambda self, x: mean_by_weights(x),
    lambda self, x: dice(self.project(x)),
    lambda self, x: entropy(x),
    lambda self, x: divergence(x),
    lambda self, x: expected_position(x),
    lambda self, x: next_token(x),
    lambda self, x: soft_embedding(x),
    lambda self, x: functional.ctc_loss(
        self.project(x).log_softmax(-1).transpose(0, 1), torch.ones(2, 2).long(), (TOKENS,) * 2, (2, 2)
    ),
    lambda self, x: functional.glu(torch.cat([x, self.gate(x)], -1)).mean(1),  # a gated linear unit
    lambda self, x: (x * self.gate(x).sigmoid()).mean(1),
    lambda self, x: (x * self.gate(x).sigmoid()).sum(1),
    lambda self, x: (x * self.gate(x).sigmoid()) @ self.project(x).mT,
    lambda self, x: x * self.gate(x.mean(1, keepdim=True)).relu().sigmoid(),  # squeeze and excite
    lambda self, x: x * self.gate(x).softmax(-1),
    lambda self, x: (self.gate(x).softmax(-1) * self.project(x)).sum(-1),
    lambda self, x: functional.normalize(self.gate(x), p=1, dim=-1) @ self.project(x).mT,
    lambda self, x: self.gate(x).softmax(-1) @ self.project(x).mT,  # products of distributions over features
    lambda self, x: functional.cosine_similarity(x[:, None], x[:, :, None], dim=-1) @ torch.eye(TOKENS),
    lambda self, x: (x @ x.mT) @ x,  # nothing is normalized
    lambda self, x: torch.eye(TOKENS).flip(0) @ x,
    lambda self, x: functional.one_hot(x[..., 0].argsort(-1)).float() @ x,
    lambda self, x: torch.linspace(0, 1, TOKENS).softmax(0)[:3] @ torch.linspace(0, 1, 3),
]


@pytest.mark.parametrize("function", OTHERS)
def test_what_is_no_attention_is_not_named(function):
    assert not missing(Module(function))


class LayerMix(nn.Module):
    """A mean of the states of all layers with learned weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(TOKENS))
        self.weights = nn.Parameter(states(TOKENS))

    def forward(self, x: Tensor) -> Tensor:
        every = torch.stack([layer(x) for layer in self.layers])
        return (self.weights.softmax(0).view(-1, 1, 1, 1) * every).sum(0)


def test_a_mean_over_layers_is_no_attention():
    assert not missing(LayerMix())
