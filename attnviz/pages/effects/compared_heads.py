"""The weight, the share and the effect of each head, and why they differ."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int

from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.base.formatting import number, percent, plain_word
from attnviz.base.language import _, option_name
from attnviz.effects.ablation import Head
from attnviz.effects.compensation import Compensation, compensations
from attnviz.effects.value_norms import value_norms
from attnviz.figures import Chart
from attnviz.figures.chart_spec import PointsSpec
from attnviz.figures.scatter import scatter
from attnviz.figures.shares import signed
from attnviz.layer import head_name
from attnviz.page.head_numbers import mlp_name
from attnviz.page.result_cache import result_cache
from attnviz.pages.effects.head_detail import measured_query, sum_of_measure
from attnviz.pages.effects.head_effects import HeadEffects, other_effects
from attnviz.pages.effects.sentences import both_effects, changes_sentence, differ, effect_colors
from attnviz.pages.effects.state import EFFECT, SHARE, WEIGHT, EffectsState, compared_numbers

LARGE_WEIGHT = 0.5
SMALL = 0.1  # as a share of the largest number of the same kind
MOST_CHANGES = 3  # of shares in a sentence


@dataclass(frozen=True, eq=False)
class ComparedHeads:
    """Three numbers of each head, by their names, as (layers, heads): NaN where they are not known."""

    state: EffectsState
    values: dict[str, Float[np.ndarray, "layers heads"]]
    strongest: Int[np.ndarray, "layers heads"]  # the key of the weight

    @property
    def places(self) -> list[Head]:
        """The heads in the order of layers."""
        return [(layer, head) for layer, count in enumerate(self.state.run.heads) for head in range(count)]

    def name(self, head: Head) -> str:
        return head_name(self.state.run.layers[head[0]], head[1])

    def number(self, head: Head) -> str:
        """Returns the numbers of a layer and its head, such as 23.3."""
        return f"{option_name(self.state.run.layer_numbers[head[0]])}.{head[1]}"

    def text(self, name: str, head: Head) -> str:
        """Returns a number of a head."""
        value = float(self.values[name][head])
        if np.isnan(value):
            return _("unknown")
        return number(value) if name == WEIGHT else signed(value)

    def word(self, head: Head) -> str:
        """Returns the word that the weight is on; empty where it is not known."""
        keys = self.state.run.keys(head[0]) if np.isfinite(self.values[WEIGHT][head]) else ()
        return plain_word(keys[self.strongest[head]]) if keys else ""

    def chart(self, chosen: Head | None) -> Chart[PointsSpec]:
        """Returns the heads as points; the number that is on neither axis is their color, or else their layer."""
        state, places = self.state, self.places
        rows, columns = zip(*places, strict=True)
        known = {name: values[rows, columns] for name, values in self.values.items()}
        color = next((name for name in self.values if name not in (state.across, state.up)), "")
        names = [
            f"{self.name(place)}: " + ", ".join(f"{_(name)} {self.text(name, place)}" for name in self.values)
            for place in places
        ]
        reverse, ends = effect_colors(state)
        colors = {EFFECT: (reverse, ends), SHARE: (False, ends[::-1])}.get(color, (False, ("", "")))
        return scatter(
            known[state.across], known[state.up], names, known[color] if color else np.array(rows),
            [i for i, place in enumerate(places) if place == chosen],
            titles=(_(state.across), _(state.up)), group=_(color) if color else _("layer"),
            scale="groups" if not color else "weights" if color == WEIGHT else "changes", aspect=0.7,
            reverse=colors[0], ends=colors[1],
            labels=[*map(self.number, places)],
        ).with_about(hint=_("Each point is a head. Click to open it."))  # fmt: skip

    def farthest(self, count: int) -> list[Head]:
        """Returns the heads whose numbers on the two axes disagree most, the farthest apart first: of a share and an
        effect by their sum, which is 0 where nothing else changes, of others by their sizes among those of all heads.
        """
        across, up = self.values[self.state.across], self.values[self.state.up]
        if {self.state.across, self.state.up} == {SHARE, EFFECT}:
            apart = np.abs(across + up)
        else:
            apart = np.abs(_sizes(across) - _sizes(up))
        order = np.argsort(-np.nan_to_num(apart), axis=None, kind="stable")[:count]
        places = [(int(layer), int(head)) for layer, head in zip(*np.unravel_index(order, apart.shape), strict=True)]
        return [place for place in places if np.isfinite(apart[place])]


def compared_heads(state: EffectsState, effects: HeadEffects) -> ComparedHeads:
    """Returns the numbers of all heads. Raises ValueError if the share of no head is known where there are some."""
    weights, strongest = result_cache().once(
        partial(_weights, state),
        "weights of heads",
        state.source,
        [*_queries(state)],
        state.without_first,
        work=state.source.forward_work,
    )
    own = sum_of_measure(state)
    shares = np.full(weights.shape, np.nan) if own is None else _on_heads(state, own.heads.sum(-1).numpy())
    known = {WEIGHT: weights, SHARE: shares, EFFECT: effects.heads}
    return ComparedHeads(state, {name: known[name] for name in compared_numbers(state)}, strongest)


class Reasons(NamedTuple):
    """Sentences on a head: what can be tested of why its weight, share and effect differ."""

    head: Head
    sentences: tuple[str, ...]


OnReasons: TypeAlias = Callable[[float, list[Reasons]], None]


def reasons_key(state: EffectsState, heads: Sequence[Head]) -> tuple[object, ...]:
    """Returns what the reasons of heads depend on."""
    texts = tuple(state.lines) if state.ablation != "zero" else ()
    return "reasons", state.source, state.metric, state.without_first, state.ablation, texts, tuple(heads)


def reasons(compared: ComparedHeads, heads: Sequence[Head], progress: OnReasons | None = None) -> list[Reasons]:
    """Returns why the numbers of heads differ, as tested by running the model; with those found so far to
    `progress`."""
    state, of_values = compared.state, _sizes_of_values(compared, heads)
    linearized, metric = state.run.linearized, state.metric
    for head, other in other_effects(state, heads).items():
        if differ(effect := float(compared.values[EFFECT][head]), other):
            text = _("Its effect is {effect}.", effect=both_effects(signed(effect), effect, other, state.ablation))
            of_values[head].insert(0, text)
    if not isinstance(metric, Logit | LogitDifference):
        return [Reasons(head, tuple(of_values[head])) for head in heads]
    others = None if state.ablation == "zero" else state.other_runs

    def with_changes(changed: Sequence[Compensation]) -> list[Reasons]:
        return [Reasons(made.head, (*of_values[made.head], _changes(compared, made))) for made in changed]

    if progress:
        progress(0.0, [])
    changed = compensations(
        linearized.model, linearized.arguments.kwargs, metric, heads, how=state.ablation, texts=others,
        on_progress=(lambda share, changed: progress(share, with_changes(changed))) if progress else None,
    )  # fmt: skip
    return with_changes(changed)


def compensation(state: EffectsState, head: Head) -> Compensation | None:
    """Returns the shares of others with a head and without it; None for a measure that is not a sum."""
    linearized, metric = state.run.linearized, state.metric
    if not isinstance(metric, Logit | LogitDifference):
        return None
    others = None if state.ablation == "zero" else state.other_runs
    compute = partial(
        compensations, linearized.model, linearized.arguments.kwargs, metric, [head], how=state.ablation, texts=others
    )
    work = 4 * state.source.forward_work
    [made] = result_cache().once(compute, "compensation", *reasons_key(state, [head]), work=work)
    return made


def _sizes_of_values(compared: ComparedHeads, heads: Sequence[Head]) -> dict[Head, list[str]]:
    """Returns what heads write from the key of a large weight, compared with the largest in their layer."""
    sentences: dict[Head, list[str]] = {head: [] for head in heads}
    looking = [head for head in heads if compared.values[WEIGHT][head] >= LARGE_WEIGHT]
    try:
        norms = value_norms(
            compared.state.run.linearized, {layer: measured_query(compared.state, layer) for layer, _head in looking}
        )
    except ValueError:
        return sentences | {head: [_("How much it writes is not known in this model.")] for head in looking}
    for head in looking:
        of_layer = norms[head[0]]
        written = float(of_layer[head[1], compared.strongest[head]] / of_layer.max())
        names = {"word": compared.word(head), "weight": compared.text(WEIGHT, head), "size": percent(written, 2)}
        shares = compared.values.get(SHARE)
        if written < SMALL:
            text = _(
                "It looks at “{word}” ({weight}), but what it reads there is small: {size} of the largest vector that "
                "a head of its layer writes here from a word.",
                **names,
            )
        elif shares is None:
            text = _(
                "It looks at “{word}” ({weight}), and what it reads there is {size} of the largest vector of its "
                "layer. What reads it is known for logits alone.",
                **names,
            )
        elif abs(shares[head]) < SMALL * _largest(shares):
            text = _(
                "It looks at “{word}” ({weight}), and what it reads there is {size} of the largest vector of its "
                "layer, but the measure hardly depends on it directly.",
                **names,
            )
        else:
            continue
        sentences[head].append(text)
    return sentences


def _changes(compared: ComparedHeads, made: Compensation) -> str:
    """Returns how what others write changes without a head, with those that change most in this direction."""
    least = SMALL * max(abs(made.of_head), abs(made.effect), SMALL * _largest(compared.values[SHARE]))
    return changes_sentence(made, _shares_of_others(compared, made), least)


def _shares_of_others(compared: ComparedHeads, made: Compensation) -> list[tuple[str, float, float]]:
    """Returns the shares of later heads and MLPs with a head, and of what they write without it, by their names: those
    first that change most in the direction of the sum of all changes, without those that change little."""
    run, layer = compared.state.run, made.head[0]
    heads = [
        (compared.number(place), float(made.before.heads[place]), float(made.fixed_norms.heads[place]))
        for place in compared.places
        if place[0] > layer
    ]
    mlps = [
        (
            f"MLP {option_name(run.layer_numbers[own])}" if run.target is None else mlp_name(run.ids[own]),
            float(before),
            float(without),
        )
        for own, before, without in zip(run.mlp_layers, made.before.mlps, made.fixed_norms.mlps, strict=True)
        if own >= layer
    ]
    changes = sorted(heads + mlps, key=lambda other: (other[1] - other[2]) * np.sign(made.of_others))
    return [
        other
        for i, other in enumerate(changes[:MOST_CHANGES])
        if i == 0 or (other[2] - other[1]) * np.sign(made.of_others) > SMALL * abs(made.of_others)
    ]


def _queries(state: EffectsState) -> Iterator[int]:
    return (measured_query(state, layer) for layer in range(len(state.run.layers)))


def _weights(state: EffectsState) -> tuple[Float[np.ndarray, "layers heads"], Int[np.ndarray, "layers heads"]]:
    """Returns the largest weight of each head at the measured position, and its key; NaN where weights are not known,
    and in an encoder, which has no such position where a decoder is measured."""
    run, most = state.run, max(state.run.heads)
    weights, strongest = np.full((len(run.heads), most), np.nan), np.zeros((len(run.heads), most), dtype=int)
    for layer, query in enumerate(_queries(state)):
        for head in range(run.heads[layer] if run.queries(layer) == run.predicting else 0):
            try:
                row = run.weights(layer, head, query).double()
            except ValueError:  # of a model that computes its attention by itself
                continue
            first = int(state.without_first and len(row) > 1)
            strongest[layer, head] = first + int(torch.argmax(row[first:]))
            weights[layer, head] = float(row[strongest[layer, head]])
    return weights, strongest


def _on_heads(state: EffectsState, values: Float[np.ndarray, "layers heads"]) -> Float[np.ndarray, "layers heads"]:
    """Returns values of heads with NaN where a layer has fewer heads than others."""
    return np.where(np.arange(values.shape[1]) < np.array(state.run.heads)[:, None], values, np.nan)


def _largest(values: Float[np.ndarray, "layers heads"]) -> float:
    return float(np.nanmax(np.abs(values), initial=0.0))


def _sizes(values: Float[np.ndarray, "layers heads"]) -> Float[np.ndarray, "layers heads"]:
    return np.abs(values) / (_largest(values) or 1.0)
