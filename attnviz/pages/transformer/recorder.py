"""Records the activations of a forward pass, sublayer by sublayer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attnviz.base.language import N_, _
from attnviz.mechanism import Attention
from attnviz.pages.transformer.activation import Activation, Sublayer
from attnviz.pages.transformer.module_calls import ModuleCall

PROJECTIONS = {  # with their symbols
    "queries": ("Q", N_("what each token asks for")),
    "keys": ("K", N_("what each token can be found by")),
    "values": ("V", N_("what each token has to give")),
}


@dataclass
class ActivationRecorder:
    """Computes activations and keeps them in the order of the computation."""

    sublayers: list[Sublayer] = field(default_factory=list)

    def add(
        self, part: str, symbol: str, formula: str, about: str, operation: Any, *args: Any, **more: Any
    ) -> Activation:
        """Adds an activation to the last sublayer."""
        activation = Activation(self.sublayers[-1].name, part, symbol, formula, about, operation, *args, **more)
        self.sublayers[-1].activations.append(activation)
        return activation

    def input(self, part: str, symbol: str, about: str, values: Tensor, rows: tuple[str, ...]) -> Activation:
        """Adds numbers that are looked up, not computed."""
        return self.add(part, symbol, symbol, about, "input", (), values.detach(), rows)

    def sum(self, part: str, symbol: str, about: str, *terms: Activation, values: Tensor | None = None) -> Activation:
        """Adds the sum of activations, by default of their values; those with the same symbol are numbered."""
        if values is None:
            values = sum((term.values for term in terms[1:]), terms[0].values)
        symbols = [term.symbol for term in terms]
        names = [
            f"{one}_{symbols[:i].count(one) + 1}" if symbols.count(one) > 1 else one for i, one in enumerate(symbols)
        ]
        return self.add(part, symbol, f"{symbol} = {' + '.join(names)}", about, "add", terms, values, terms[0].rows)

    def linear(
        self,
        part: str,
        symbol: str,
        matrix: str,
        about: str,
        source: Activation,
        call: ModuleCall,
        values: Tensor | None = None,
        function: str = "",
        **more: Any,
    ) -> Activation:
        """Adds what a linear map returns, or the `values` that a function makes of it. If the outputs of the map are
        those of heads, (rows, heads, columns), the axis of the heads comes first in values, weight and bias."""
        values, weight = call.output if values is None else values, call.weight
        if values.ndim == 3:
            values, weight = values.transpose(0, 1), weight.transpose(0, 1)
        product = f"{source.symbol} {matrix}{'' if call.bias is None else ' + b'}"
        formula = f"{symbol} = {f'{function}({product})' if function else product}"
        rows = source.rows[-values.shape[-2] :]
        return self.add(
            part, symbol, formula, about, "linear", (source,), values, rows, weight=weight, bias=call.bias, **more
        )

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
        heads = len(attention.output)
        return self.add(
            "concat", "C", f"C = Concat({', '.join(['H'] * min(heads, 4))}{', …' * (heads > 4)})",
            _("all heads side by side"), "concat", (output,), joined_heads(attention), query.rows,
        )  # fmt: skip


def joined_heads(attention: Attention) -> Float[Tensor, "rows columns"]:
    """Returns the outputs of all heads of a layer side by side."""
    return attention.output.transpose(0, 1).flatten(1)
