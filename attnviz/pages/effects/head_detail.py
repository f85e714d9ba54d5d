"""The keys of a head: its weights, what it writes from each, and the effects of hiding them."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from attnviz.attribution.attribution import Attribution
from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.base.formatting import number, plain_word
from attnviz.base.language import _
from attnviz.effects.ablation import Head
from attnviz.effects.knockout import knockout
from attnviz.figures import Chart
from attnviz.figures.chart_spec import PointsSpec
from attnviz.figures.shares import signed, word_rows
from attnviz.layer import head_name
from attnviz.page.result_cache import result_cache
from attnviz.pages.effects.sentences import effect_colors
from attnviz.pages.effects.state import EffectsState


@dataclass(frozen=True, eq=False)
class HeadDetail:
    """The keys of a head at the position that is measured, with weight, share and the effect of hiding them; NaN where
    a number is not known."""

    name: str
    word: str  # at whose position the weights and the shares are
    keys: tuple[str, ...]
    weights: Float[np.ndarray, " keys"]
    shares: Float[np.ndarray, " keys"]
    effects: Float[np.ndarray, " keys"]
    share: float  # of all that the head writes, at all positions; NaN where it is not known
    reverse: bool = False  # whether effects have the colors of the opposite shares

    @property
    def rows(self) -> dict[str, Float[np.ndarray, " keys"]]:
        """The numbers of each key that are known, by their names."""
        rows = {_("weight"): self.weights, _("share"): self.shares, _("effect"): self.effects}
        return {name: values for name, values in rows.items() if np.isfinite(values).any()}

    def sentence(self, effect: str) -> str:
        """Returns what the head looks at, writes and does, in a sentence; `effect` says what ablating it changes."""
        strongest = int(self.weights.argmax())
        name, key = self.name[:1].upper() + self.name[1:], self.keys[strongest]
        weight = number(self.weights[strongest])
        names = {"head": name, "word": self.word, "key": key, "weight": weight, "effect": effect}
        if np.isnan(self.share):
            return _("{head} looks from “{word}” most at “{key}” ({weight}). Without the head: {effect}.", **names)
        return _(
            "{head} looks from “{word}” most at “{key}” ({weight}). What it writes adds {share}. Without the "
            "head: {effect}.",
            share=signed(self.share),
            **names,
        )

    def chart(self) -> Chart[PointsSpec]:
        """Returns the keys with their numbers as rows of bars."""
        label = _("{head}: weight, share and effect of hiding each word", head=self.name)
        return word_rows(self.rows, self.keys, [_("effect")] * self.reverse).with_about(label=label, name=self.name)


def sum_of_measure(state: EffectsState) -> Attribution | None:
    """Returns the measure as a sum over what was written; None if it is not affine in the logits."""
    metric = state.metric
    return state.run.attribution(metric) if isinstance(metric, Logit | LogitDifference) else None


def head_detail(state: EffectsState, head: Head) -> HeadDetail:
    """Returns what a head looks at, writes and does. Raises ValueError if its weights are not known."""
    layer, number = head
    run, position = state.run, measured_query(state, layer)
    keys = run.keys(layer)
    weights = run.weights(layer, number, position).double().numpy()
    own = sum_of_measure(state)
    unknown = np.full(len(keys), np.nan)
    shares = unknown if own is None else own.sources(layer, number, position).numpy()
    effects = result_cache().once(
        partial(_hidden, state, head),
        "hidden keys",
        state.source,
        state.metric,
        head,
        work=2 * state.source.forward_work,
    )
    return HeadDetail(
        head_name(run.layers[layer], number), plain_word(run.queries(layer)[position]), tuple(map(plain_word, keys)),
        weights, shares, effects if len(effects) == len(keys) else unknown,
        np.nan if own is None else float(own.heads[layer, number].sum()), effect_colors(state)[0],
    )  # fmt: skip


def measured_query(state: EffectsState, layer: int) -> int:
    """Returns the query of a layer at which the measure is taken: the last one where that has no position."""
    queries, position = len(state.run.queries(layer)), getattr(state.metric, "position", -1)
    return position % queries if -queries <= position < queries else queries - 1


def _hidden(state: EffectsState, head: Head) -> Float[np.ndarray, " keys"]:
    batch, metric = state.measured_runs[0]
    return knockout(state.run.linearized.model, batch, metric, layer=head[0], head=head[1]).numpy()
