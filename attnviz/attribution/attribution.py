"""Sums over what wrote to the residual stream."""

import heapq
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attribution.expert_shares import expert_shares
from attnviz.attribution.float32_weights import in_float32
from attnviz.attribution.linearized_pass import (
    MOST_BYTES,
    LinearizedPass,
    check_place,
    query_weights,
    values_of_head,
)
from attnviz.attribution.metric_values import logits_of, metric_value
from attnviz.attribution.metrics import CarriedValue, Metric
from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_, value_error
from attnviz.layer import LayerId
from attnviz.models.texts import each_text
from attnviz.results import MeasuredResult, checked
from attnviz.tracing.forward_arguments import example_arguments
from attnviz.tracing.gradient_graph import graph_nodes, nonlinear_modules
from attnviz.tracing.read_positions import NO_POSITION, read_position
from attnviz.tracing.residual_writer import ResidualWriter

NO_MLP = N_("There is no MLP {index}: there are {count}, counted from 0.")
TOLERANCE = 1e-5  # of the error, as a share of the absolute values of all terms, or of 1


class WriterShare(NamedTuple):
    """The share of one writer at one position: of a head, of an MLP (`layer` is its number), or of embeddings.

    `stack` says whose position it is where a model has several texts or pictures, such as "decoder".
    """

    share: float
    position: int
    layer: int | None = None
    head: int | None = None
    stack: str = ""

    def __str__(self) -> str:
        writer = "embedding" if self.layer is None else f"MLP {self.layer}"
        if self.head is not None:
            writer = f"head {self.layer}.{self.head}"
        return f"{self.share:+.3f} {writer} at {self.position}"


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(MeasuredResult):
    """A number that a model computes as a sum: total = constant + bias + embeddings + heads + mlps, up to `error`.

    Attention weights and the scales of norms are held at what they are in this run, and each MLP's output is taken as
    given; then the number is affine in what the writers write, and each writer's share is its gradient times what it
    writes (direct logit attribution: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits").
    `constant` is measured: it is the number where nothing is written. Layers and MLPs are counted as they run; an
    encoder's and a decoder's tokens are along the same axis, which the longer of both fills.

    One that was saved and read again, or unpickled, has its numbers and no run: nothing in it can be opened.
    """

    metric: Metric
    total: float
    constant: float
    bias: float  # of the positions, of a score
    embeddings: Float[Tensor, " tokens"]
    heads: Float[Tensor, "layers heads tokens"]
    mlps: Float[Tensor, "mlps tokens"]
    error: float
    embedding_parts: dict[str, Float[Tensor, " tokens"]]  # by the module that wrote them
    gates: tuple[str, ...]  # modules whose nonlinearities, after the residual stream or of heads, are held as factors
    _run: LinearizedPass | None = field(repr=False)
    _gradients: dict[ResidualWriter, Tensor] = field(repr=False)
    _shares: dict[ResidualWriter, Tensor] = field(repr=False)

    @property
    def _pass(self) -> LinearizedPass:
        """The run. Raises ValueError if the sum was read from a file."""
        if self._run is None:
            raise value_error(
                "This sum was read from a file, which has its numbers and not the model. Compute it again with "
                "attnviz.attribute(model, batch, attribution.metric)."
            )
        return self._run

    def __repr__(self) -> str:
        return f"{self.metric} = {self.total:.3f} = " + ", ".join(map(str, self.largest(5))) + ", …"

    def largest(self, count: int = 10) -> list[WriterShare]:
        """Returns the terms with the largest absolute shares, the largest first."""
        return heapq.nlargest(count, self.terms, key=lambda term: abs(term.share))

    @cached_property
    def terms(self) -> list[WriterShare]:
        """The share of each writer at each position that is read: those of embeddings, then MLPs, then heads."""
        _, run = self._pass.ran
        stacks = {writer.stack: None for writer in run.embeddings}
        terms = []
        for stack in stacks:
            written = [self._shares[one] for one in run.embeddings if one.stack == stack and one in self._shares]
            sums = [*map(sum, zip_longest(*map(Tensor.tolist, written), fillvalue=0.0))]
            terms += [WriterShare(sums[i], i, stack=stack) for i in self._read(len(sums), stack)]
        for layer, writer in enumerate(run.mlps):
            shares = self.mlps[layer].tolist()
            terms += [
                WriterShare(shares[i], i, layer, stack=writer.stack) for i in self._read(writer.positions, writer.stack)
            ]
        for layer, writer in enumerate(run.heads):
            places = self._read(writer.positions, writer.stack)
            for head in range(writer.value.shape[2]):
                shares = self.heads[layer, head].tolist()
                terms += [WriterShare(shares[i], i, layer, head, writer.stack) for i in places]
        return terms

    def _read(self, count: int, stack: str) -> list[int]:
        """Returns the positions of a stack that are read; all, where its mask is for other positions."""
        try:
            return self._pass.read(count, stack).nonzero().flatten().tolist()
        except ValueError:
            return [*range(count)]

    @cached_property
    def layers(self) -> tuple[LayerId, ...]:
        """The names of the layers of `heads`."""
        run = self._pass.ran[1]
        return tuple(run.names.layer_id(writer.module) for writer in run.heads)

    @cached_property
    def mlp_layers(self) -> tuple[LayerId, ...]:
        """The names of the layers of `mlps`, by their modules."""
        run = self._pass.ran[1]
        return tuple(run.names.layer_id(writer.module) for writer in run.mlps)

    def knows_weights(self, layer: int) -> bool:
        """Returns whether the sources of a layer's heads are known: queries, keys and values of attention."""
        return self._pass.ran[1].heads[layer].call is not None

    @cached_property
    def constant_parts(self) -> dict[str, float]:
        """The constant by the modules whose parameters it is made of, such as biases, in the order in which they run;
        what belongs to no module is under "". The first of a run takes the time of some forward passes."""
        if self.constant == 0:  # a model without biases
            return {}
        with torch.enable_grad():
            output, run, constants = self._pass.with_constants
            value, _ = metric_value(self.metric, self._pass, (output, run))
            results = [constant.result for constant in constants]
            gradients = torch.autograd.grad(value, results, retain_graph=True, allow_unused=True) if results else ()
        parts: dict[str, float] = {}
        for constant, gradient in zip(constants, gradients, strict=True):
            share = 0.0 if gradient is None else float((gradient * constant.number).double().sum())
            if share:
                parts[constant.path] = parts.get(constant.path, 0.0) + share
        rest = self.constant - sum(parts.values())
        return parts if abs(rest) <= TOLERANCE * max(sum(map(abs, parts.values())), 1) else parts | {"": rest}

    def attribute(self, of: Metric) -> "Attribution":
        """Returns another number of the same run as a sum, which takes a fraction of a forward pass."""
        return attribution_of(self._pass, of)

    def shares_of(self, other: "Attribution") -> tuple[Float[Tensor, "layers heads"], Float[Tensor, " mlps"]]:
        """Returns the shares, at all positions together, that heads and MLPs would have in this run if they wrote what
        they write in another run of the text: the scales of norms are those of this one."""
        run, others = self._pass.ran[1], other._pass.ran[1]
        heads, mlps = (
            torch.zeros(self.heads.shape[:2], dtype=torch.float64),
            torch.zeros(len(run.mlps), dtype=torch.float64),
        )
        for layer, (own, writer) in enumerate(zip(run.heads, others.heads, strict=True)):
            if own in self._gradients:
                heads[layer, : own.value.shape[2]] = writer.shares(self._gradients[own]).sum(0).cpu()
        for number, (own, writer) in enumerate(zip(run.mlps, others.mlps, strict=True)):
            if own in self._gradients:
                mlps[number] = float(writer.shares(self._gradients[own]).sum())
        return heads, mlps

    def sources(self, layer: int, head: int, position: int) -> Float[Tensor, " keys"]:
        """Returns the share of a head at a position by the position that it read it from: weight · value · gradient."""
        writer, gradient = self._at_head(layer, head, position)
        weights = query_weights(writer, head, position)
        return (weights * (values_of_head(writer, head).detach() @ gradient)).double().cpu()

    def opened(self, layer: int, head: int, position: int, source: int) -> "Attribution":
        """Returns the share that a head carries from a source to a position as a sum over what wrote its value."""
        _, gradient = self._at_head(layer, head, position)
        return attribution_of(self._pass, CarriedValue(layer, head, position, source, gradient))

    def neurons(self, mlp: int, position: int) -> Float[Tensor, " units"]:
        """Returns the share of an MLP at a position by its hidden units; those of its biases are not among them."""
        writer, gradient = self._at_mlp(mlp, position)
        return writer.unit_shares(gradient)[position].cpu()

    def experts(self, mlp: int, position: int) -> dict[int | str, float]:
        """Returns the share of a mixture of experts at a position by the experts that its router has chosen, by their
        numbers, and by its other parts, such as a shared expert, by the paths of their modules. They add up to its
        share."""
        writer, gradient = self._at_mlp(mlp, position)
        shares = expert_shares(writer, gradient, position, self._pass.ran[1].names.modules)
        share = float(self.mlps[mlp, position])
        if not shares or abs(share - sum(shares.values())) > TOLERANCE * max(sum(map(abs, shares.values())), 1):
            raise value_error("No router chooses the experts of MLP {mlp}, or it cannot be seen.", mlp=mlp)
        return shares

    def columns(self) -> dict[str, Any]:
        """Returns the terms as columns."""
        return {name: [getattr(term, name) for term in self.terms] for name in WriterShare._fields}

    def origin(self) -> dict[str, Any]:
        known = {"metric": self.metric}
        return known | ({"model": self._run.model, "batch": self._run.arguments.by_name} if self._run else {})

    def parts(self) -> dict[str, Any]:
        state, columns = self.__getstate__(), self.columns()
        numbers = {name: [-1 if one is None else one for one in columns.pop(name)] for name in ("layer", "head")}
        columns |= {name: torch.tensor(of) for name, of in ({**numbers, "position": columns["position"]}).items()}
        columns |= {"share": torch.tensor(columns["share"], dtype=torch.float64), "stack": [*columns["stack"]]}
        return {name: value for name, value in state.items() if not name.startswith("_")} | {"terms": columns}

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> "Attribution":
        columns = parts.pop("terms")
        names = ("share", "position", "layer", "head")
        rows = zip(*(columns[name].tolist() for name in names), columns["stack"], strict=True)
        terms = [
            WriterShare(share, place, layer if layer >= 0 else None, head if head >= 0 else None, stack)
            for share, place, layer, head, stack in rows
        ]
        known = {"terms": terms} | {name: parts.pop(name) for name in ("layers", "mlp_layers")}
        known |= {name: parts.pop(name) for name in ("constant_parts",) if name in parts}
        attribution: Attribution = checked(cls, parts | {"_run": None, "_gradients": {}, "_shares": {}})
        attribution.__dict__.update(known)
        return attribution

    def __getstate__(self) -> dict[str, Any]:
        """Returns what can be pickled: all but the run."""
        known = {"terms": self.terms, "layers": self.layers, "mlp_layers": self.mlp_layers}
        return self.__dict__ | known | {"_run": None, "_gradients": {}, "_shares": {}}

    def _at_mlp(self, mlp: int, position: int) -> tuple[ResidualWriter, Tensor]:
        mlps = self._pass.ran[1].mlps
        check_place(NO_MLP, mlp, len(mlps))
        check_place(NO_POSITION, position, mlps[mlp].positions)
        read_position(position, self._pass.read(mlps[mlp].positions, mlps[mlp].stack))
        return mlps[mlp], self._gradients.get(mlps[mlp], torch.zeros_like(mlps[mlp].value))

    def _at_head(self, layer: int, head: int, position: int) -> tuple[ResidualWriter, Tensor]:
        writer = self._pass.heads_of(layer, head, position)
        gradient = self._gradients.get(writer)
        if gradient is None:
            return writer, writer.value.new_zeros(writer.value.shape[-1])
        return writer, gradient[0, position, head]


@each_text
def attribute(model: nn.Module, batch: Any, of: Metric, *, most_bytes: int = MOST_BYTES) -> Attribution:
    """Returns a number that a model computes as a sum over what wrote to its residual stream.

    `batch` is what the model is called with, as for `capture`: one example. Positions are counted as in the batch,
    those below 0 from the last one that is read: what the attention mask hides, as padding, is in no number. A model in
    half precision is computed in float32. Raises ValueError if the text is too long for `most_bytes` of memory, if the
    model cannot be written so, if there is no such head, token or position, and if the sum does not add up.
    """
    linearized = LinearizedPass(in_float32(model), example_arguments(model, batch), most_bytes=most_bytes)
    return attribution_of(linearized, of)


@torch.enable_grad()
def attribution_of(linearized: LinearizedPass, metric: Metric) -> Attribution:
    """Returns a number that a model computes in a pass as such a sum; further ones share the pass. Raises ValueError as
    `attribute` does."""
    _, run = linearized.ran
    writers = [*run.embeddings, *run.heads, *run.mlps]
    value, bias = metric_value(metric, linearized, linearized.ran)
    if not value.isfinite():
        raise value_error(
            "The model computes {number} here, which is not a sum. It rules the token out, or its weights are damaged.",
            number=value.item(),
        )
    gradients = torch.autograd.grad(value, [one.value for one in writers], retain_graph=True, allow_unused=True)
    known = {one: gradient for one, gradient in zip(writers, gradients, strict=True) if gradient is not None}
    if len(known) == 1 and (only := next(iter(known))).nonlinear and not only.nonlinear <= linearized.gated:
        return attribution_of(linearized.gating(only.nonlinear), metric)  # a nonlinearity after the residual stream
    constant = metric_value(metric, linearized, linearized.without_writers)[0].item()
    shares = {one: one.shares(gradient) for one, gradient in known.items()}
    tokens = max(one.positions for one in writers)
    parts: dict[str, Tensor] = {}
    for one in run.embeddings:
        name = run.names.modules.get(one.module, "")
        parts[name] = parts.get(name, torch.zeros(tokens, dtype=torch.float64)) + _padded(shares.get(one), tokens)
    heads = torch.zeros(len(run.heads), max(one.value.shape[2] for one in run.heads), tokens, dtype=torch.float64)
    for layer, one in enumerate(run.heads):
        if one in shares:
            heads[layer, : one.value.shape[2], : len(shares[one])] = shares[one].T
    mlps = [_padded(shares.get(one), tokens) for one in run.mlps]
    terms = sum((float(share.sum()) for share in shares.values()), constant)
    error, size = value.item() - terms, sum((float(share.abs().sum()) for share in shares.values()), abs(constant))
    if not abs(error) <= TOLERANCE * max(size, 1):
        if (nonlinear := nonlinear_modules(value)) - linearized.gated:  # as a cap of logits
            return attribution_of(linearized.gating(nonlinear), metric)
        raise _not_affine(error, value.item(), run.described(nonlinear))
    gates = tuple(sorted(run.names.modules.get(one) or type(one).__name__ for one in linearized.gated | run.gates))
    return Attribution(
        metric,
        value.item() + bias,
        constant,
        bias,
        sum(parts.values(), torch.zeros(tokens, dtype=torch.float64)),
        heads,
        torch.stack(mlps) if mlps else torch.zeros(0, tokens, dtype=torch.float64),
        error,
        parts,
        gates,
        linearized,
        known,
        shares,
    )


def residual_pass(linearized: LinearizedPass) -> LinearizedPass:
    """Returns the pass in which nonlinearities between the residual stream and the logits, as BERT has one in its head,
    are held: elsewhere they are an MLP, and hide all that was written before."""
    output, run = linearized.ran
    logits = logits_of(output)
    if logits is None:
        return linearized
    read = {id(node.variable) for node in graph_nodes([logits]) if hasattr(node, "variable")}
    writers = [writer for writer in (*run.embeddings, *run.heads, *run.mlps) if id(writer.value) in read]
    if len(writers) != 1 or not writers[0].nonlinear or writers[0].nonlinear <= linearized.gated:
        return linearized
    return residual_pass(linearized.gating(writers[0].nonlinear))


def _not_affine(error: float, total: float, modules: str) -> Exception:
    missing = {"error": f"{error:.2g}", "total": f"{total:.4g}"}
    if modules:
        return value_error(
            "This cannot be written as a sum: {error} of {total} is missing. Between what is written and this number "
            "is something that is not affine, in {modules}.",
            modules=modules,
            **missing,
        )
    return value_error(
        "This cannot be written as a sum: {error} of {total} is missing. Something between what is written and this "
        "number is not affine.",
        **missing,
    )


def _padded(share: Tensor | None, tokens: int) -> Tensor:
    padded = torch.zeros(tokens, dtype=torch.float64)
    if share is not None:
        padded[: len(share)] = share
    return padded
