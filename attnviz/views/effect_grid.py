"""The effects of heads and MLPs as a grid that can be clicked."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnviz.attribution.named_pass import NamedPass
from attnviz.effects.ablation import Head
from attnviz.figures import Chart, head_grid
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.language import _, option_name
from attnviz.layer import head_name
from attnviz.views.effect_sentences import effect_text
from attnviz.views.head_effects import HeadEffects
from attnviz.views.share_grid import mlp_name


class EffectGrid:
    """A row for each layer, with its heads and then its MLP; heads that have not been measured yet have their
    estimates."""

    def __init__(self, run: NamedPass, effects: HeadEffects) -> None:
        self.run = run
        layers, self.heads = effects.heads.shape
        self.is_estimated = np.zeros((layers, self.heads + 1), dtype=bool)
        heads = effects.heads.copy()
        if effects.estimated is not None:
            self.is_estimated[:, :-1] = np.isnan(heads) & np.isfinite(effects.estimated)
            heads = np.where(np.isnan(heads), effects.estimated, heads)
        self.values = np.concatenate([heads, effects.mlps[:, None]], axis=1)
        self.spread = np.zeros(self.values.shape)  # over texts, of heads
        if effects.spread is not None:
            self.spread[:, :-1] = effects.spread

    @property
    def sentences(self) -> list[str]:
        """The sentence of each cell, row by row; empty where there is nothing."""
        return [
            "" if np.isnan(value) else _("{name}: {effect}", name=self.name(*place), effect=self.text(*place))
            for place, value in np.ndenumerate(self.values)
        ]

    def chart(self, chosen: Head | None, reverse: bool = False, ends: tuple[str, str] = ("", "")) -> Chart[MosaicSpec]:
        """Returns the picture, in which the chosen head has a frame; the colors are those of `effect_colors`."""
        has_mlps = bool(np.isfinite(self.values[:, -1]).any())
        columns = self.heads + has_mlps
        sentences = np.array(self.sentences, dtype=object).reshape(self.values.shape)[:, :columns]
        return head_grid(
            self.values[:, :columns], sentences.flatten().tolist(), signed=True, reverse=reverse, ends=ends,
            largest=float(np.nanmax(np.abs(self.values[:, : self.heads]), initial=0)) or 1.0,  # MLPs do far more
            chosen=[] if chosen is None else [chosen],
            layer_names=[*map(option_name, self.run.layer_numbers)],
            head_names=[*map(str, range(self.heads)), *[_("MLP")] * has_mlps],
        ).with_about(
            label=_("Effects of heads and MLPs"),
            hint=_("Click a head to see what it looks at, writes and does."),
        )  # fmt: skip

    def text(self, layer: int, head: int) -> str:
        """Returns the effect of a head, or of an MLP, as sentences and tables have it."""
        place = layer, head
        return effect_text(float(self.values[place]), bool(self.is_estimated[place]), float(self.spread[place]))

    def largest(self, count: int) -> list[tuple[str, Head | None, str]]:
        """Returns the parts of the largest effects that have been measured: their names, heads and effects."""
        known = np.where(self.is_estimated, np.nan, self.values)
        order = np.argsort(-np.abs(np.nan_to_num(known)), axis=None, kind="stable")[:count]
        places = [(int(layer), int(head)) for layer, head in zip(*np.unravel_index(order, known.shape), strict=True)]
        return [
            (self.name(*place), place if place[1] < self.heads else None, self.text(*place))
            for place in places
            if np.isfinite(known[place])
        ]

    def name(self, layer: int, head: int) -> str:
        """Returns the name of a head, or of the MLP of a layer."""
        return mlp_name(self.run.ids[layer]) if head == self.heads else head_name(self.run.layers[layer], head)


def head_at(spec: MosaicSpec, heads: Sequence[int], row: int, column: int) -> Head | None:
    """Returns the head of a cell of a grid with these heads of each layer; None where it is an MLP, or nothing."""
    tile = spec.head_at(row, column)
    if tile is None or not spec.names[tile]:
        return None
    layer, head = LayerTiles(len(heads), len(spec.names) // len(heads)).place(tile)
    return (layer, head) if head < heads[layer] else None
