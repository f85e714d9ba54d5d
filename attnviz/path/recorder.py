"""Records the activations of a forward pass, sublayer by sublayer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attnviz.base.language import N_, _
from attnviz.mechanism import Attention
from attnviz.path.activation import Activation, ActivationRecord, Sublayer, SublayerKind

PROJECTIONS = {  # with their symbols
    "queries": ("Q", N_("what each token asks for")),
    "keys": ("K", N_("what each token can be found by")),
    "values": ("V", N_("what each token has to give")),
}


@dataclass
class ActivationRecorder:
    """Computes activations and keeps them in the order of the computation."""

    heads: int
    sublayers: list[Sublayer] = field(default_factory=list)
    name: str = ""  # of the current sublayer
    activations: list[Activation] = field(default_factory=list)  # of the current sublayer

    def start(self, name: str) -> None:
        """Starts a sublayer."""
        self.name, self.activations = name, []

    def end(self, stack: str, layer: int | None, kind: SublayerKind) -> Activation:
        """Ends the current sublayer; returns its output."""
        self.sublayers.append(Sublayer(self.name, stack, layer, kind, tuple(self.activations)))
        return self.activations[-1]

    def record(self) -> ActivationRecord:
        return ActivationRecord(tuple(self.sublayers), self.heads)

    def add(
        self, part: str, symbol: str, formula: str, about: str, operation: Any, *args: Any, **more: Any
    ) -> Activation:
        """Adds an activation to the current sublayer."""
        activation = Activation(self.name, part, symbol, formula, about, operation, *args, **more)
        self.activations.append(activation)
        return activation

    def input(self, part: str, symbol: str, about: str, values: Tensor, rows: tuple[str, ...]) -> Activation:
        """Adds numbers that are looked up, not computed."""
        return self.add(part, symbol, symbol, about, "input", (), values.detach(), rows)

    def sum(self, part: str, symbol: str, about: str, *terms: Activation) -> Activation:
        """Adds the sum of activations."""
        values = terms[0].values
        for term in terms[1:]:
            values = values + term.values
        formula = f"{symbol} = {' + '.join(term.symbol for term in terms)}"
        return self.add(part, symbol, formula, about, "add", terms, values, terms[0].rows)

    def projection(
        self,
        part: str,
        source: Activation,
        values: Float[Tensor, "heads rows columns"],
        weight: Float[Tensor, "heads inputs columns"],
        bias: Float[Tensor, "heads columns"] | None,
        shared: int = 1,
    ) -> Activation:
        """Adds the queries, the keys or the values of all heads."""
        letter, about = PROJECTIONS[part]
        formula = f"{letter} = {source.symbol} W^{letter}{'' if bias is None else ' + b'}"
        return self.add(
            part, letter, formula, _(about), "linear", (source,), values, source.rows, weight=weight, bias=bias,
            shared=shared,
        )  # fmt: skip

    def weighted_values(self, projected: Sequence[Activation], attention: Attention) -> Activation:
        """Adds the scores, the weights and the output of all heads, of their queries, keys and values; returns the
        outputs side by side."""
        query, key, value = projected
        scores = self.add(
            "scores", "S", f"S = {query.symbol} {key.symbol}^T / √d_k", _("how well each query fits each key"),
            "scores", (query, key), attention.scores, query.rows, key.rows,
        )  # fmt: skip
        weights = self.add(
            "weights", "A", "A = softmax(S)", _("the share of each query’s attention for each key"), "softmax",
            (scores,), attention.weights, query.rows, key.rows,
        )  # fmt: skip
        output = self.add(
            "heads", "H", "H = A V", _("the values, mixed by the weights"), "weighted sum", (weights, value),
            attention.output, query.rows,
        )  # fmt: skip
        joined = attention.output.transpose(0, 1).flatten(1)
        return self.add(
            "concat", "C", f"C = Concat({', '.join(['H'] * min(self.heads, 4))}{', …' * (self.heads > 4)})",
            _("all heads side by side"), "concat", (output,), joined, query.rows,
        )  # fmt: skip


def layer_norm_formula(symbol: str, source: str, has_bias: bool) -> str:
    """Returns the formula of a layer norm."""
    return f"{symbol} = LayerNorm({source}) = γ · ({source} − μ) / σ{' + β' * has_bias}"
