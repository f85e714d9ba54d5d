"""The numbers of the lessons about Effects: SmolLM2 in eager attention, with hooks that take away and put in."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import log

import torch
from torch import Tensor, nn

from attnviz.formatting import number
from tests.support.language_model import HEADS, WIDTH, Head, eager, ids
from tests.support.shares_by_hand import MARY, SHARING, ForwardPass

OTHER = "When Mary and John went to the store, Mary gave the ball to"
NAMES = ("Mary", "John")
JOHN, GAVE, TO, NAME = 9, 10, 13, (1, 3, 9)  # positions: of the second “John”, and of all names
GIVER, AGAINST, BEFORE, EARLY, IDLE = (23, 3), (24, 4), (23, 0), (1, 3), (10, 1)

Change = tuple[nn.Module, Callable[[Tensor], None]]  # in place, of what a module reads


@contextmanager
def changed(changes: Sequence[Change]) -> Iterator[None]:
    with ExitStack() as hooks:
        for module, change in changes:

            def enter(_module: nn.Module, args: tuple[Tensor], change: Callable = change) -> tuple[Tensor, ...]:
                states = args[0].clone()
                change(states[0])
                return (states, *args[1:])

            hooks.enter_context(module.register_forward_pre_hook(enter))
        yield


def logits(text: str, changes: Callable[[nn.Module], Sequence[Change]] = lambda model: ()) -> Tensor:
    """The logits after the last token."""
    with eager() as model, changed(changes(model.model)):
        return model.model(ids(text)).logits[0, -1].double()


def difference(after: Tensor) -> float:
    with eager() as model:
        first, second = (model.tokenizer(f" {name}")["input_ids"][0] for name in NAMES)
    return float(after[first] - after[second])


def written(head: Head, value: Tensor | float = 0.0) -> Callable[[nn.Module], Sequence[Change]]:
    """The change after which a head writes other numbers, (tokens, width), before its projection."""
    columns = slice(head[1] * WIDTH, (head[1] + 1) * WIDTH)

    def change(states: Tensor) -> None:
        states[:, columns] = value

    return lambda model: [(model.model.layers[head[0]].self_attn.o_proj, change)]


def heads_of(text: str, head: Head) -> tuple[Tensor, Tensor, Tensor]:
    """What a head of a text writes before its projection, its weights and its values."""
    kept: list[Tensor] = []
    with eager() as model:
        attention = model.model.model.layers[head[0]].self_attn
        hooks = [
            attention.o_proj.register_forward_pre_hook(lambda _module, args: kept.append(args[0][0].clone())),
            attention.v_proj.register_forward_hook(lambda _module, _args, value: kept.append(value[0].clone())),
        ]
        weights = model.model(ids(text), output_attentions=True).attentions[head[0]][0, head[1]]
        for hook in hooks:
            hook.remove()
    value, output = kept
    return (
        output.unflatten(-1, (HEADS, WIDTH))[:, head[1]],
        weights,
        value.unflatten(-1, (-1, WIDTH))[:, head[1] // SHARING],
    )


def stream(text: str, layer: int) -> Tensor:
    return ForwardPass(text).streams[layer]


def shares(ablated: Sequence[Head] = ()) -> dict[Head, float]:
    """The shares of some heads in the difference, over all tokens: those before the last add nothing to its logits."""
    run = ForwardPass(MARY, ablated)
    return {head: run.logit(run.head(*head), *NAMES) for head in (GIVER, AGAINST, BEFORE, EARLY, IDLE)}


def divergence(before: Tensor, after: Tensor) -> float:
    before, after = before.log_softmax(-1), after.log_softmax(-1)
    return float((before.exp() * (before - after)).sum()) / log(2)


@torch.no_grad()
def where_it_looks() -> list[str]:
    own, before, run = logits(MARY), shares(), ForwardPass(MARY)
    without = {head: logits(MARY, written(head)) for head in (GIVER, AGAINST, BEFORE, EARLY, IDLE)}
    effects = {head: difference(after) - difference(own) for head, after in without.items()}
    bits = {head: divergence(own, after) for head, after in without.items()}
    assert effects[GIVER] == min(effects.values()) < 0 < effects[AGAINST]
    assert bits[EARLY] == max(bits.values())
    repaired, weaker = shares([BEFORE])[AGAINST], shares([EARLY])[GIVER]
    return [
        *(str(part) for head in (GIVER, AGAINST, BEFORE, EARLY, IDLE) for part in head),
        number(difference(own)),
        *(f"{abs(effects[head]):.2f}" for head in (GIVER, AGAINST, EARLY)),
        *(f"{abs(effects[head]):.3f}" for head in (IDLE, BEFORE)),
        *(f"{float(run.weights[*head, TO, key]):.2f}" for head, key in ((IDLE, GAVE), (BEFORE, 1))),
        *(f"{abs(before[head]):.2f}" for head in (BEFORE, AGAINST, GIVER)),
        f"{abs(before[EARLY]):.3f}",
        *(f"{abs(share):.2f}" for share in (repaired, repaired - before[AGAINST], weaker)),
        "0",
        *(f"{bits[head]:.{digits}f}" for head, digits in ((EARLY, 2), (GIVER, 3))),
    ]


@torch.no_grad()
def who_gave() -> list[str]:
    own, other = difference(logits(MARY)), difference(logits(OTHER))
    output, weights, value = heads_of(MARY, GIVER)
    _, other_weights, other_value = heads_of(OTHER, GIVER)
    assert weights[TO].argmax() == JOHN
    effect = difference(logits(MARY, written(GIVER))) - own
    shown = weights.clone()
    shown[:, JOHN] = 0
    hidden = difference(logits(MARY, written(GIVER, shown / shown.sum(-1, keepdim=True) @ value))) - own

    def recovered(changes: Callable[[nn.Module], Sequence[Change]]) -> float:
        return (difference(logits(OTHER, changes)) - other) / (own - other)

    def stream_at(layer: int, position: int) -> float:
        clean = stream(MARY, layer)[position]

        def change(states: Tensor) -> None:
            states[position] = clean

        return recovered(lambda model: [(model.model.layers[layer], change)])

    at = {(layer, position): stream_at(layer, position) for layer in (16, 20, 24) for position in (JOHN, TO)}
    assert at[16, TO] < 0.1 > at[24, JOHN]
    assert at[20, JOHN] > 0.5
    parts = [recovered(written(GIVER, part)) for part in (output, other_weights @ value, weights @ other_value)]
    return [
        *(str(part) for part in (*GIVER, 16, 20, 24)),
        *(number(each) for each in (own, abs(other), abs(effect), own + effect, abs(hidden))),
        f"{float(weights[TO, JOHN]):.2f}",
        *(f"{100 * at[place]:.0f}" for place in ((16, JOHN), (24, TO))),
        *(f"{abs(part):.2f}" for part in parts),
    ]
