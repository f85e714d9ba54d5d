"""The numbers of the lessons about SmolLM2, from transformers' own eager attention with masks and hooks of ours."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from attnviz.base.formatting import number
from attnviz.base.text import EXAMPLE
from attnviz.models.model import LoadedModel
from attnviz.models.random_tokens import repeated_random_tokens
from attnviz.models.smollm2 import smollm2

CAPITAL = "The capital of France is"
GERMANY = "The capital of Germany is"
WORDS = "apple river stone cloud garden apple river stone cloud"
NAME = "Nobody knew Doctor Zelmorin well. Everybody feared Doctor Zelmorin"
ALL = slice(None)  # positions
HEADS, WIDTH = 9, 64  # heads of a layer, and numbers of a head
Head = tuple[int, int]  # a layer, and a head of it


@contextmanager
def eager() -> Iterator[LoadedModel]:
    """The model in transformers' eager attention."""
    model = smollm2()
    before = model.model.config._attn_implementation
    with model.lock, torch.no_grad():
        model.model.set_attn_implementation("eager")
        yield model
        model.model.set_attn_implementation(before)


@contextmanager
def without(model: LoadedModel, heads: Sequence[Head], at: int | slice = ALL) -> Iterator[None]:
    """Ablates heads of the model, at all positions or one: their output is zero."""
    hooks = []
    for layer, head in heads:
        columns = slice(head * WIDTH, (head + 1) * WIDTH)

        def ablate(_module: object, args: tuple[Tensor], columns: slice = columns) -> tuple[Tensor]:
            args[0][..., at, columns] = 0
            return args

        hooks.append(model.model.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(ablate))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@cache
def ids(text: str) -> Tensor:
    return torch.tensor([smollm2().tokenizer(text)["input_ids"]])


def attention(
    tokens: Tensor, mask: Tensor | None = None, ablated: Sequence[Head] = (), at: int | slice = ALL
) -> Tensor:
    """The weights of all heads, (layers, heads, queries, keys)."""
    with eager() as model, without(model, ablated, at):
        return torch.cat(model.model(tokens, attention_mask=mask, output_attentions=True).attentions)


def row(text: str, layer: int, head: int, query: int) -> tuple[str, float]:
    """The token that a query looks at most, and its weight."""
    weights, key = attention(ids(text))[layer, head, query].max(-1)
    return smollm2().tokenizer.decode(ids(text)[0, int(key)]), float(weights)


def probabilities(text: str, allowed: Tensor | None = None, ablated: Sequence[Head] = ()) -> Tensor:
    """The probability of each token but the first, given those before it."""
    tokens = ids(text)
    count = tokens.shape[1]
    allowed = torch.ones(count, count).tril().bool() if allowed is None else allowed
    mask = torch.where(allowed, 0.0, -torch.inf)[None, None]
    with eager() as model, without(model, ablated):
        logits = model.model(input_ids=tokens, attention_mask=mask).logits[0, :-1]
    return logits.softmax(-1).gather(-1, tokens[0, 1:, None])[:, 0]


def one_word_at_a_time() -> list[str]:
    token, share = row(CAPITAL, 23, 4, 4)
    assert token == " France"
    assert torch.equal(attention(ids(f"{CAPITAL} Paris"))[:, :, :5, :5], attention(ids(CAPITAL)))
    with eager() as model:
        assert model.tokenizer.decode(model.model(ids(CAPITAL)).logits[0, -1].argmax()) == " Paris"
        assert model.tokenizer.decode(model.model(ids(GERMANY)).logits[0, -1].argmax()) == " Berlin"
    every = torch.ones(13, 13, dtype=torch.bool)
    trained, free = probabilities(EXAMPLE), probabilities(EXAMPLE, every)
    without_next = probabilities(EXAMPLE, every & ~torch.ones(12).diag(1).bool())
    assert trained[0] < 0.001
    next_word = attention(ids(EXAMPLE), torch.zeros(1, 1, 13, 13))[18, 7].diagonal(1)
    return [
        number(share),
        str(int((attention(ids(CAPITAL))[23, 4, 2] > 0).sum())),  # keys of “of”
        number(float(free[0])),
        number(float(next_word.mean())),
        "0.001",  # less than which “animal” has with the mask
        number(float(free.mean())),
        number(float(without_next.mean())),
        number(float(trained.mean())),
    ]


def sink() -> list[str]:
    weights, without = attention(ids(EXAMPLE)), attention(ids(EXAMPLE.removeprefix("The ")))
    assert weights[18, 7, 1:, 0].min() > 0.995
    assert weights[18, 7, 8, 1] < 0.005  # of “it” on “animal”
    assert without[18, 7, 7, 0] > 0.995
    distance = torch.arange(13)[:, None] - torch.arange(13)
    window = (distance >= 0) & (distance < 4)
    with_sink = window | ((torch.arange(13) == 0) & (distance >= 0))
    means = [float(probabilities(EXAMPLE, mask).mean()) for mask in (None, window, with_sink)]
    assert means[2] > 0.17
    values: list[Tensor] = []
    with eager() as model:
        hooks = [
            layer.self_attn.v_proj.register_forward_hook(lambda _module, _args, value: values.append(value[0]))
            for layer in model.model.model.layers
        ]
        model.model(ids(EXAMPLE))
        for hook in hooks:
            hook.remove()
        read = torch.stack(values).unflatten(-1, (-1, WIDTH))  # (layers, tokens, kv heads, numbers)
        written = torch.stack(
            [
                torch.einsum("thw,nhw->thn", each, layer.self_attn.o_proj.weight.unflatten(1, (HEADS, WIDTH)))
                for each, layer in zip(read.repeat_interleave(3, 2), model.model.model.layers, strict=True)
            ]
        ).norm(dim=-1)  # what a head adds that looks at one token alone: (layers, tokens, heads)
    assert (written[:, 0] < written[:, 1:].mean(1) / 2).float().mean() > 0.75
    lengths = read.norm(dim=-1)
    return [
        number(float(weights[18, :, 8, 0].mean())),
        str(int((weights[:, :, 1:, 0].mean(-1) > 0.5).sum())),
        str(len(weights) * HEADS),
        *map(number, means),
        "0.17",  # which is to be reached
        "4",  # of the window
        "1",  # of the sinks
        number(float(lengths[:, 0].mean() / lengths[:, 1:].mean())),
    ]


def repeated() -> list[str]:
    previous, induction, name = row(WORDS, 16, 0, 8), row(WORDS, 18, 6, 8), row(NAME, 18, 6, 11)
    assert [token for token, _share in (previous, induction, name)] == [" stone", " garden", "mor"]
    sums = {"induction": torch.zeros(30, HEADS), "previous token": torch.zeros(30, HEADS)}
    for seed in range(3):
        tokens = repeated_random_tokens(smollm2().text_inputs, seed, decoder=False)[0]["input_ids"]
        weights, count = attention(tokens), tokens.shape[1] // 2
        second, later = range(count, 2 * count), range(1, 2 * count)
        sums["induction"] += torch.stack([weights[:, :, q, q - count + 1] for q in second]).mean(0) / 3
        sums["previous token"] += torch.stack([weights[:, :, q, q - 1] for q in later]).mean(0) / 3
    strongest = {name: divmod(int(each.argmax()), HEADS) for name, each in sums.items()}
    assert [*strongest.values()] == [(18, 6), (16, 0)]
    unmarked = float(attention(ids(WORDS), ablated=((16, 0),), at=4)[18, 6, 8, 4])  # “garden” is token 4
    garden = [float(probabilities(f"{WORDS} garden", ablated=heads)[-1]) for heads in ((), ((18, 6),))]
    assert abs(garden[1] / garden[0] - 1 / 2) < 0.05
    second, *without = (float(probabilities(NAME, ablated=heads)[11]) for heads in ((), ((18, 6),), ((16, 0),)))
    return [
        *(number(share) for _token, share in (previous, induction, name)),
        f"{unmarked:.2f}",
        *(str(part) for head in strongest.values() for part in head),
        *(number(float(sums[name][head])) for name, head in strongest.items()),
        str(30 * HEADS),
        *(f"{share:.2f}" for share in (*garden, garden[0] - garden[1])),
        *(number(share) for share in (second, *(second - each for each in without))),
    ]
