"""The shares of heads and MLPs, each summed over its positions, as a grid that can be clicked."""

from dataclasses import replace

import numpy as np

from attnviz.attribution.attribution import Attribution, WriterShare
from attnviz.attribution.named_pass import NamedPass
from attnviz.attribution.sum_term import SumTerm
from attnviz.cached_property import cached_property
from attnviz.figures import Chart, head_grid
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.figures.sentences import label
from attnviz.figures.shares import signed
from attnviz.language import N_, _, option_name
from attnviz.layer import LayerId, head_name

INPUT = N_("input")  # the row of the grid above those of the layers


class ShareGrid:
    """A row for each layer, with its heads and then its MLP; before them the constant and the embeddings. The cells add
    up to the number. `favored` is what positive shares are for."""

    def __init__(self, run: NamedPass, attribution: Attribution, favored: str = "") -> None:
        layers, self.heads = attribution.heads.shape[:2]
        self.run, self.attribution, self.favored = run, attribution, favored
        self.mlp_layers = run.layers_of_mlps(attribution)
        self.values = np.full((layers + 1, self.heads + 1), np.nan)
        for layer, count in enumerate(run.heads):
            self.values[layer + 1, :count] = attribution.heads[layer, :count].sum(-1)
        for layer in {*self.mlp_layers}:
            self.values[layer + 1, self.heads] = float(attribution.mlps[self._mlps(layer)].sum())
        self.values[0, 0] = attribution.constant + attribution.bias
        self.values[0, self.heads] = float(attribution.embeddings.sum())

    @property
    def sentences(self) -> list[str]:
        """The sentence of each cell, row by row; empty where there is nothing."""
        return [
            "" if np.isnan(value) else f"{self._name(row, column)}: {signed(value)}"
            for (row, column), value in np.ndenumerate(self.values)
        ]

    def chart(self, shown: SumTerm | None) -> Chart[MosaicSpec]:
        """Returns the picture, in which the term that is shown has a frame."""
        return head_grid(
            self.values, self.sentences, signed=True, ends=for_and_against(self.favored),
            chosen=[] if shown is None else [self.cell(shown)],
            layer_names=[_(INPUT), *map(option_name, self.run.layer_numbers)],
            head_names=[*map(str, range(self.heads)), _("MLP")],
        ).with_about(label=_("Shares of heads and MLPs"), hint=_("Click a head or an MLP to open it."))  # fmt: skip

    def term_at(self, row: int, column: int) -> SumTerm | None:
        """Returns the largest term of a cell; None where it has none."""
        return self._largest.get((row, column))

    @cached_property
    def _largest(self) -> dict[tuple[int, int], SumTerm]:
        ordered = sorted(self.attribution.terms, key=lambda share: abs(share.share))
        return {self.cell(share): SumTerm.from_share(share) for share in ordered}

    def cell(self, term: SumTerm | WriterShare) -> tuple[int, int]:
        """Returns the row and the column of a term."""
        if term.layer is None:
            return 0, self.heads
        if term.head is None:
            return self.mlp_layers[term.layer] + 1, self.heads
        return term.layer + 1, term.head

    def _mlps(self, layer: int) -> list[int]:
        return [mlp for mlp, own in enumerate(self.mlp_layers) if own == layer]

    def _name(self, row: int, column: int) -> str:
        if row == 0:
            return _("embeddings") if column == self.heads else _("constant")
        if column == self.heads:
            return mlp_name(self.run.ids[row - 1])
        return head_name(self.run.layers[row - 1], column)


def mlp_name(layer: LayerId) -> str:
    """Returns the name of the MLP of a layer on the screen; cross-attention has none of its own."""
    return _("{layer}, MLP", layer=option_name(str(replace(layer, cross=False))))


def for_and_against(word: str) -> tuple[str, str]:
    """Returns labels for the ends of a scale of shares: against a word, and for it; empty without a word."""
    return (_("against"), _("for “{word}”", word=label(word))) if word else ("", "")
