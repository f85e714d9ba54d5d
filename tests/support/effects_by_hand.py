"""The numbers of the lessons about Effects: SmolLM2 in eager attention, with hooks that take away and put in."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from math import log

import torch
from torch import Tensor, nn

from attnviz.base.formatting import number
from attnviz.effects import NEUTRAL_TEXTS
from attnviz.models.smollm2 import smollm2
from tests.support.language_model import HEADS, WIDTH, Head, eager, ids
from tests.support.shares_by_hand import MARY, SHARING, ForwardPass

OTHER = "When Mary and John went to the store, Mary gave the ball to"
NAMES = ("Mary", "John")
JOHN, GAVE, TO, NAME = 9, 10, 13, (1, 3, 9)  # positions: of the second “John”, and of all names
GIVER, AGAINST, BEFORE, THROUGH, IDLE = (23, 3), (24, 4), (23, 0), (20, 0), (10, 1)
CONSTANT, FIRST = (1, 3), (0, 0)

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


@cache
def means() -> list[Tensor]:
    """What the heads of each layer write before their projection, as mean over all tokens of the neutral texts."""
    with eager() as model:
        projections = [layer.self_attn.o_proj for layer in model.model.model.layers]
        kept: dict[nn.Module, list[Tensor]] = {projection: [] for projection in projections}
        hooks = [one.register_forward_pre_hook(lambda module, args: kept[module].append(args[0][0])) for one in kept]
        for text in NEUTRAL_TEXTS:
            model.model(ids(text))
        for hook in hooks:
            hook.remove()
    return [torch.cat(kept[projection]).mean(0) for projection in projections]


def averaged(head: Head) -> Callable[[nn.Module], Sequence[Change]]:
    """The change after which a head writes its mean over the neutral texts."""
    return written(head, mean_of(head))


def mean_of(head: Head) -> Tensor:
    return means()[head[0]].unflatten(0, (HEADS, WIDTH))[head[1]]


def direct(head: Head) -> float:
    """The change of the difference where a head writes its mean at the last token and nothing else changes."""
    run = ForwardPass(MARY)
    projection = run.model.model.layers[head[0]].self_attn.o_proj.weight.unflatten(1, (HEADS, WIDTH))[:, head[1]]
    stream = run.streams[-1][-1]
    after = stream - run.head(*head) + projection @ mean_of(head)
    own, other = (run.model.lm_head(run.model.model.norm(each)).double() for each in (stream, after))
    return difference(other) - difference(own)


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


def run_without(*heads: Head) -> ForwardPass:
    """A pass in which heads write their mean over the neutral texts."""
    with changed([change for head in heads for change in averaged(head)(smollm2().model)]):
        return ForwardPass(MARY)


def shares(run: ForwardPass) -> dict[Head, float]:
    """The shares of some heads in the difference, over all tokens: those before the last add nothing to its logits."""
    return {head: run.logit(run.head(*head), *NAMES) for head in (GIVER, AGAINST, BEFORE, THROUGH, IDLE)}


def divergence(before: Tensor, after: Tensor) -> float:
    before, after = before.log_softmax(-1), after.log_softmax(-1)
    return float((before.exp() * (before - after)).sum()) / log(2)


@torch.no_grad()
def where_it_looks() -> list[str]:
    own, run = logits(MARY), ForwardPass(MARY)
    before, unmade = shares(run), run_without(BEFORE)
    heads = GIVER, AGAINST, BEFORE, THROUGH, IDLE, CONSTANT, FIRST
    without = {head: logits(MARY, averaged(head)) for head in heads}
    effects = {head: difference(after) - difference(own) for head, after in without.items()}
    bits = {head: divergence(own, after) for head, after in without.items()}
    by_zero = difference(logits(MARY, written(CONSTANT))) - difference(own)
    assert effects[GIVER] < effects[IDLE] < 0 < effects[AGAINST]
    assert bits[FIRST] == max(bits.values())
    assert abs(by_zero / effects[CONSTANT] - 10) < 0.5
    assert abs(effects[BEFORE]) < abs(direct(BEFORE)) / 2
    assert unmade.weights[*AGAINST, TO, 1] < run.weights[*AGAINST, TO, 1] - 0.1
    repaired, weaker = shares(unmade)[AGAINST], shares(run_without(THROUGH))[BEFORE]
    return [
        *(str(part) for head in heads for part in head),
        number(difference(own)),
        *(f"{abs(effects[head]):.2f}" for head in (GIVER, AGAINST, IDLE, BEFORE, THROUGH, CONSTANT)),
        f"{abs(by_zero):.2f}",
        *(f"{abs(direct(head)):.2f}" for head in (THROUGH, BEFORE)),
        *(f"{float(run.weights[*head, TO, key]):.2f}" for head, key in ((IDLE, GAVE), (BEFORE, 1))),
        *(f"{abs(before[head]):.2f}" for head in (BEFORE, AGAINST, THROUGH)),
        *(f"{abs(share):.2f}" for share in (repaired, repaired - before[AGAINST], weaker)),
        *(f"{bits[head]:.{digits}f}" for head, digits in ((FIRST, 2), (GIVER, 3))),
    ]


@torch.no_grad()
def who_gave() -> list[str]:
    own, other = difference(logits(MARY)), difference(logits(OTHER))
    output, weights, value = heads_of(MARY, GIVER)
    _, other_weights, other_value = heads_of(OTHER, GIVER)
    assert weights[TO].argmax() == other_weights[TO].argmax() == JOHN  # where the other text has “Mary”
    elsewhere = ForwardPass(OTHER)
    assert elsewhere.logit(elsewhere.head(*GIVER), "Mary") < -1
    effect = difference(logits(MARY, averaged(GIVER))) - own
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
