"""Sums over what was written, of every architecture, and how far they are from the numbers of the model."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.attribution import Activation, Attribution, LinearizedPass, Logit, Score, attribution_of
from attnviz.attribution.metric_values import metric_value
from attnviz.attribution.metrics import Metric
from attnviz.tracing.forward_arguments import forward_arguments
from tests.support.architectures import Architecture
from tests.support.torch_architectures import B, TorchArchitecture


def first_example(architecture: Architecture | TorchArchitecture) -> LinearizedPass:
    """The linearized pass of an architecture over the first of its two examples; its biases are drawn."""
    model, generator = architecture.model(), torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.1, generator=generator)
    args: tuple[Any, ...] = ()
    if isinstance(architecture, Architecture):
        kwargs = architecture.given() | {"output_hidden_states": True}
    else:
        args, kwargs = architecture.args(), architecture.kwargs()
    args, kwargs = tuple(map(_first, args)), {name: _first(value) for name, value in kwargs.items()}
    return LinearizedPass(model, forward_arguments(model, args, kwargs))


def _first(value: Any) -> Any:
    return value[:1] if isinstance(value, Tensor) and len(value) == B else value


def of_output(linearized: LinearizedPass) -> Metric | None:
    """A number of the last token: a direction of its state, or of the output of a module of torch; None if the output
    has no states."""
    output = linearized.ran[0]
    states = getattr(output, "hidden_states", None) or getattr(output, "decoder_hidden_states", None)
    if states:
        direction = torch.randn(states[-1].shape[-1], generator=torch.Generator().manual_seed(0))
        return Activation(len(states) - 1, states[-1].shape[1] - 1, direction)
    return Logit(2) if isinstance(output, Tensor) and output.ndim < 4 else None


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of an architecture, or why there are none."""

    name: str
    layers: int = 0  # with heads
    mlps: int = 0
    of_output: Attribution | None = None
    of_score: Attribution | None = None
    refusal: str = ""
    own_output: float = 0.0  # the number of the model itself

    @property
    def row(self) -> tuple[object, ...]:
        """What the table of the documentation says of them."""
        refusal = self.refusal.partition(". ")[0].rstrip(".")
        if not self.layers:
            return self.name, "", "", refusal, "", ""
        gates = ", ".join(f"`{gate}`" for gate in self.of_output.gates) if self.of_output else ""
        score = _bound(self.of_score) if self.of_score else refusal
        return self.name, self.layers, self.mlps, _bound(self.of_output) if self.of_output else "", score, gates


def sums(architecture: Architecture | TorchArchitecture) -> Sums:
    """The sums of the first example of an architecture: of its output, and of a score."""
    linearized = first_example(architecture)
    try:
        run = linearized.ran[1]
    except ValueError as refusal:
        return Sums(architecture.name, refusal=str(refusal))
    metric, score, refusal = of_output(linearized), None, ""
    try:
        score = attribution_of(linearized, Score(len(run.heads) - 1, 1, 5, 2, over=3))
    except ValueError as error:
        refusal = str(error)
    found, own = None, 0.0
    if metric:
        found = attribution_of(linearized, metric)
        with torch.no_grad():
            output = linearized.model(*linearized.arguments.args, **linearized.arguments.kwargs)
            own = float(metric_value(metric, linearized, (output, run))[0])
    return Sums(architecture.name, len(run.heads), len(run.mlps), found, score, refusal, own)


def error(found: Attribution) -> float:
    """What is missing from a sum, as a share of the absolute values of its terms, or of 1."""
    terms = sum(float(shares.abs().sum()) for shares in (found.embeddings, found.heads, found.mlps))
    return abs(found.error) / max(abs(found.constant) + terms, 1)


def _bound(found: Attribution) -> str:
    return "< 10⁻⁶" if error(found) < 1e-6 else "< 10⁻⁵"
