"""The numbers of the lessons about Why: what heads and MLPs of SmolLM2 write, multiplied matrix by matrix."""

from collections.abc import Sequence
from math import exp, log

import torch
from torch import Tensor, nn

from attnviz.base.formatting import number
from tests.support.language_model import ALL, HEADS, WIDTH, Head, eager, ids, probabilities, row, without

MARY = "When Mary and John went to the store, John gave the ball to"
AGAIN = "Mr and Mrs Baker lived in a house. Mr and Mrs"
SHARING = 3  # heads that share keys and values


class ForwardPass:
    """What each head and MLP writes at each token of a text, in a pass in which heads may be ablated."""

    def __init__(self, text: str, ablated: Sequence[Head] = (), at: int | slice = ALL) -> None:
        self.factors: list[Tensor] = []  # by which the norm before each layer's attention multiplies, and the last one
        self.streams: list[Tensor] = []  # (tokens, numbers) before each layer, and before the last norm
        self.heads: list[Tensor] = []  # (tokens, heads, numbers) that each layer's heads write
        self.mlps: list[Tensor] = []  # (tokens, numbers) that each layer's MLP writes
        with eager() as model, without(model, ablated, at):
            self.model, self.tokenizer, hooks = model.model, model.tokenizer, []
            for layer in self.model.model.layers:
                hooks.append(layer.input_layernorm.register_forward_pre_hook(self._keep_norm))
                hooks.append(layer.self_attn.o_proj.register_forward_pre_hook(self._keep_heads))
                hooks.append(layer.mlp.register_forward_hook(self._keep_mlp))
            hooks.append(self.model.model.norm.register_forward_pre_hook(self._keep_norm))
            self.weights = torch.cat(self.model(ids(text), output_attentions=True).attentions)
            for hook in hooks:
                hook.remove()

    def _keep_norm(self, norm: nn.Module, args: tuple[Tensor]) -> None:
        self.streams.append(args[0][0])
        self.factors.append(norm.weight / (args[0][0].square().mean(-1, keepdim=True) + norm.variance_epsilon).sqrt())

    def _keep_heads(self, output: nn.Linear, args: tuple[Tensor]) -> None:
        parts = args[0][0].unflatten(-1, (HEADS, WIDTH)), output.weight.unflatten(1, (HEADS, WIDTH))
        self.heads.append(torch.einsum("thw,nhw->thn", *parts))

    def _keep_mlp(self, _mlp: nn.Module, _args: tuple[Tensor], written: Tensor) -> None:
        self.mlps.append(written[0])

    def head(self, layer: int, head: int, position: int = -1) -> Tensor:
        return self.heads[layer][position, head]

    def logit(self, written: Tensor, token: str, other: str = "") -> float:
        """The share of what was written at the last token in the logit of a token above that of another one, or above
        the mean logit."""
        rows = self.model.lm_head.weight
        [chosen, *than] = self.tokenizer([f" {name}" for name in (token, other) if name])["input_ids"]
        direction = rows[chosen[0]] - (rows[than[0][0]] if than else rows.mean(0))
        return float(direction * self.factors[-1][-1] @ written)

    def carried(self, head: Head, query: int, key: int, written: Tensor) -> Tensor:
        """What a head writes at the query of what was written at the key."""
        output = self.model.model.layers[head[0]].self_attn.o_proj.weight[:, _rows(head[1])]
        return self.weights[*head, query, key] * output @ self._projected("v_proj", head, key, written)

    def query(self, head: Head, position: int, written: Tensor) -> Tensor:
        return self._rotated(self._projected("q_proj", head, position, written), position)

    def key(self, head: Head, position: int, written: Tensor) -> Tensor:
        return self._rotated(self._projected("k_proj", head, position, written), position)

    def keys(self, head: Head) -> Tensor:
        return torch.stack([self.key(head, i, written) for i, written in enumerate(self.streams[head[0]])])

    def _projected(self, name: str, head: Head, position: int, written: Tensor) -> Tensor:
        weight = getattr(self.model.model.layers[head[0]].self_attn, name).weight
        rows = _rows(head[1] if name == "q_proj" else head[1] // SHARING)
        return weight[rows] @ (self.factors[head[0]][position] * written)

    def _rotated(self, vector: Tensor, position: int) -> Tensor:
        half = WIDTH // 2
        angle = position / self.model.config.rope_parameters["rope_theta"] ** (torch.arange(half) / half)
        first, second = vector[:half], vector[half:]
        return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()])


def _rows(head: int) -> slice:
    return slice(head * WIDTH, (head + 1) * WIDTH)


@torch.no_grad()
def why_mary() -> list[str]:
    when, mary, john, to, names = 0, 1, 9, 13, ("Mary", "John")
    run = ForwardPass(MARY)
    total = run.logit(run.streams[-1][-1], *names)
    shares = {(layer, i): run.logit(run.head(layer, i), *names) for layer in range(30) for i in range(HEADS)}
    largest, other, above = max(shares, key=lambda head: shares[head]), (24, 4), (23, 0)
    read = [row(MARY, *head, to) for head in (largest, other, above)]
    assert [token for token, _weight in read] == [" John", " Mary", " Mary"]
    streams, mlps = ([each[john] for each in written] for written in (run.streams, run.mlps))
    carried, *of_mlps = (
        run.logit(run.carried(largest, to, john, written), *names)
        for written in (streams[largest[0]], *mlps[: largest[0]])
    )
    assert max(of_mlps) == of_mlps[0]
    keys = run.keys(other)
    toward = (keys[mary] - keys[when]) / WIDTH**0.5
    score, wrote = (
        float(run.query(other, to, written) @ toward) for written in (run.streams[other[0]][to], run.head(*above))
    )
    without = [float(probabilities(f"{MARY} {name}", ablated=(largest,))[-1]) for name in names]
    changed = log(without[0] / without[1])
    assert total - changed > shares[largest]
    for ablated in (largest, above):  # the head above finds less without what they write
        assert ForwardPass(MARY, [ablated]).weights[*other, to, mary] < run.weights[*other, to, mary] - 0.1
    return [
        *(str(part) for head in (largest, other, above) for part in head),
        *(number(each) for each in (total, carried, of_mlps[0], score, wrote, total - changed)),
        *(number(weight) for _token, weight in read),
        number(float(run.weights[*largest, to, mary])),
        *(number(abs(share)) for share in (shares[largest], shares[other])),
        *(number(abs(run.logit(run.head(*largest), name))) for name in names),
        f"{exp(total):.0f}",
    ]


@torch.no_grad()
def how_the_copy_is_found() -> list[str]:
    mrs, baker, last, names = 2, 3, 11, ("Baker", "Smith")
    run = ForwardPass(AGAIN)
    shares = {(layer, i): run.logit(run.head(layer, i), *names) for layer in range(30) for i in range(HEADS)}
    copying, induction, previous, against = max(shares, key=lambda head: shares[head]), (18, 6), (16, 0), (24, 4)
    total = run.logit(run.streams[-1][-1], *names)
    taken = run.logit(run.carried(copying, last, baker, run.streams[copying[0]][baker]), *names)
    assert taken > total / 2
    keys = run.keys(copying)
    toward = (keys[baker] - keys.mean(0)) / WIDTH**0.5
    by_query = float(run.query(copying, last, run.streams[copying[0]][last]) @ toward)
    wrote = {
        (layer, i): float(run.query(copying, last, run.head(layer, i)) @ toward)
        for layer in range(copying[0])
        for i in range(HEADS)
    }
    assert max(wrote, key=lambda head: wrote[head]) == induction
    asked, keys = run.query(induction, last, run.streams[induction[0]][last]) / WIDTH**0.5, run.keys(induction)
    by_key = float((keys[baker] - keys.mean(0)) @ asked)
    of_mean = 1 - 1 / len(keys)  # the key is in the mean, too
    marked = float(run.key(induction, baker, run.head(*previous, baker)) @ asked) * of_mean
    read = [(copying, last, baker), (induction, last, baker), (previous, baker, mrs)]
    assert all(int(run.weights[*head, query].argmax()) == key for head, query, key in read)
    without = ForwardPass(AGAIN, [copying])
    likely = [float(probabilities(f"{AGAIN} Baker", ablated=heads)[-1]) for heads in ((), (copying,), (previous,))]
    assert shares[against] < 0
    assert run.logit(run.head(*copying), "Baker") > 0
    unmarked = ForwardPass(AGAIN, [previous], baker).weights[*induction, last, baker]
    untold = ForwardPass(AGAIN, [induction], last).weights[*copying, last, baker]
    return [
        *(str(part) for head in (copying, induction, previous, against) for part in head),
        *(number(each) for each in (total, taken, by_query, wrote[induction], by_key, marked)),
        *(f"{float(run.weights[*head, query, key]):.2f}" for head, query, key in read),
        *(f"{float(each.weights[*against, last, baker]):.2f}" for each in (run, without)),
        *(f"{each:.2f}" for each in (*likely, likely[1] - likely[0], float(unmarked), float(untold))),
        f"{shares[previous]:.2f}",
    ]
