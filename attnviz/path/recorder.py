"""Records the activations of a forward pass, sublayer by sublayer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from attnviz.language import _
from attnviz.mechanism import Mechanism
from attnviz.path.activation import Activation, ActivationRecord, Sublayer, SublayerKind


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

    def norm(self, part: str, symbol: str, about: str, source: Activation, module: nn.LayerNorm) -> Activation:
        """Adds the layer norm of an activation."""
        return self.add(
            part, symbol, f"{symbol} = LayerNorm({source.symbol}) = γ · ({source.symbol} − μ) / σ + β", about, "norm",
            (source,), module(source.values), source.rows, weight=module.weight, bias=module.bias,
        )  # fmt: skip

    def linear(
        self,
        part: str,
        symbol: str,
        formula: str,
        about: str,
        source: Activation,
        module: nn.Linear,
        function: Callable[[Tensor], Tensor] = torch.clone,
    ) -> Activation:
        """Adds a linear map of an activation, followed by a function of each number."""
        values = function(linear(source.values, module.weight, module.bias))
        weight = module.weight.T
        return self.add(
            part, symbol, formula, about, "linear", (source,), values, source.rows, weight=weight, bias=module.bias
        )

    def attention(
        self,
        source: Activation,
        memory: Activation,
        modules: tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear],
        mechanism: Mechanism,
    ) -> Activation:
        """Adds multi-head attention from `source` to `memory`; returns its output. The modules are the linear maps to
        queries, keys and values, and from the heads to the output."""
        projected = [
            self._heads(part, letter, about, vectors, module)
            for part, letter, about, vectors, module in zip(
                ("queries", "keys", "values"),
                "QKV",
                (_("what each token asks for"), _("what each token can be found by"), _("what each token has to give")),
                (source, memory, memory),
                modules[:3],
                strict=True,
            )
        ]
        query, key, value = (one.values[None] for one in projected)
        queries, keys = query.shape[-2], key.shape[-2]
        bound = mechanism.bind(queries, keys, self.heads)
        b, h, q, k = (torch.arange(n) for n in (1, self.heads, queries, keys))
        positions = b[:, None, None, None], h[:, None, None], q[:, None], k
        attention = bound.stages(query, key, value, bound.mask(*positions), positions)
        scores = self.add(
            "scores", "S", "S = Q K^T / √d_k", _("how well each query fits each key"), "scores",
            tuple(projected[:2]), attention.scores[0], source.rows, memory.rows,
        )  # fmt: skip
        weights = self.add(
            "weights",
            "A",
            "A = softmax(S)",
            _("the share of each query’s attention for each key"),
            "softmax",
            (scores,),
            attention.weights[0],
            source.rows,
            memory.rows,
        )
        output = self.add(
            "heads", "H", "H = A V", _("the values, mixed by the weights"), _("weighted sum"), (weights, projected[2]),
            attention.output[0], source.rows,
        )  # fmt: skip
        joined = attention.output[0].transpose(0, 1).flatten(1)
        concat = self.add(
            "concat", "C", f"C = Concat({', '.join(['H'] * min(self.heads, 4))}{', …' * (self.heads > 4)})",
            _("all heads side by side"), "concat", (output,), joined, source.rows,
        )  # fmt: skip
        return self.linear("output", "O", "O = C W^O + b", _("the heads, mixed"), concat, modules[3])

    def _heads(self, part: str, letter: str, about: str, source: Activation, module: nn.Linear) -> Activation:
        values = linear(source.values, module.weight, module.bias).unflatten(-1, (self.heads, -1)).transpose(0, 1)
        weight = module.weight.unflatten(0, (self.heads, -1)).transpose(1, 2)
        bias = module.bias.unflatten(0, (self.heads, -1))
        formula = f"{letter} = {source.symbol} W^{letter} + b"
        return self.add(
            part, letter, formula, about, "linear", (source,), values, source.rows, weight=weight, bias=bias
        )
