"""A forward pass in which everything between what writes to the residual stream and what the model returns is affine.

Attention weights and the scales of norms are held at what they are in this run, and what embeddings, heads and MLPs
write are leaves of the graph of gradients. An MLP is recognized by what it computes: the numbers of a nonlinearity, or
of a product, are its hidden units until a linear map reads them; the largest module that returns what this map gives,
and nothing else, is the MLP.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from attnviz.base.language import value_error
from attnviz.tracing.call import Call
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.gradient_graph import graph_nodes, mark_nonlinear
from attnviz.tracing.head_axes import head_counts
from attnviz.tracing.held_norms import NORMS
from attnviz.tracing.layer_naming import LayerNames, named_modules, stack
from attnviz.tracing.memory_budget import MemoryBudget, NotCaptured
from attnviz.tracing.multi_head_attention import MultiHeadCall, sequence_count
from attnviz.tracing.optional_transformers import is_encoder_decoder, transformers_models
from attnviz.tracing.patch_tracking import PatchTracking
from attnviz.tracing.recording import CallOfSequence, Recording
from attnviz.tracing.refusal import described_first, no_attention
from attnviz.tracing.residual_writer import ResidualWriter
from attnviz.tracing.single_capture import prepared
from attnviz.tracing.torch_interception import ATTENTION, recorded

SCALES = {"rsqrt", "sqrt", "norm", "vector_norm", "linalg_vector_norm", "linalg_norm", "std", "softmax"}
NONLINEAR = {
    *("relu", "relu6", "gelu", "silu", "elu", "selu", "celu", "mish", "tanh", "sigmoid", "logsigmoid", "softplus"),
    *("leaky_relu", "prelu", "rrelu", "hardswish", "hardsigmoid", "hardtanh", "threshold", "glu", "erf"),
    *("exp", "log", "square", "pow", "abs", "cos", "sin"),
}
PRODUCTS = {"mul", "multiply", "matmul", "bmm", "einsum", "div", "divide", "true_divide"}
LINEAR = {"linear", "addmm", "conv1d", "conv2d", "conv3d", "matmul", "bmm", "mm", "baddbmm", "einsum", "grouped_mm"}
# Changes in place what the heads of a layer write, (queries, heads, width); layers are counted as they run.
ChangeHeads: TypeAlias = Callable[[int, Tensor], None]
ORDERS = ((0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3))  # axes of outputs that become (sequences, queries, heads, width)


@dataclass
class FixedScales:
    """The scales of a run, by module and number of the call; a second run reads what the first has written. Raises
    ValueError if the second run is not like the first."""

    is_read: bool = False
    numbers: dict[tuple[nn.Module, int], Tensor] = field(default_factory=dict)

    def hold(self, key: tuple[nn.Module, int], number: Tensor) -> Tensor:
        if not self.is_read:
            return self.numbers.setdefault(key, number.detach())
        before = self.numbers.get(key)
        if before is None or before.shape != number.shape:
            raise value_error(
                "This model computes in another order where nothing is written, so the constant of its sums is not "
                "known. Choose another model."
            )
        return before


@dataclass
class LinearizedRun(Recording):
    """A forward pass whose attention weights and scales are held; layers are counted as in a capture."""

    scales: FixedScales = field(kw_only=True)
    gated: frozenset[nn.Module] = field(kw_only=True)  # whose nonlinearities are held as factors
    change_heads: ChangeHeads | None = field(default=None, kw_only=True)
    heads: list[ResidualWriter] = field(default_factory=list)
    mlps: list[ResidualWriter] = field(default_factory=list)
    embeddings: list[ResidualWriter] = field(default_factory=list)
    gates: set[nn.Module] = field(default_factory=set)  # whose heads are multiplied by gates, which are held
    embedded: WeakIdKeyDictionary = field(default_factory=WeakIdKeyDictionary)  # numbers made of embeddings alone
    latest_weights: Tensor | None = None  # that a softmax has returned, before they are found in a product

    def __post_init__(self) -> None:
        super().__post_init__()
        self.patches = PatchTracking(())  # nobody reads the names of the tokens
        modules = reversed(self.names.modules)
        self._owners = {parameter: module for module in modules for parameter in module.parameters(recurse=False)}

    @property
    def writer_count(self) -> int:
        return len(self.embeddings) + len(self.heads) + len(self.mlps)

    def owner(self, args: Any) -> nn.Module:
        """Returns the module that has the last parameter among the arguments of a function, or else that runs."""
        parameters = [one for one in tree_leaves(args) if isinstance(one, nn.Parameter)]
        running = self.running[-1][0]
        return self._owners.get(parameters[-1], running) if parameters else running

    @contextmanager
    def recording_layer(self, module: nn.Module) -> Iterator[None]:
        """Prevents nested recording within the context. Raises ValueError where a layer cannot be captured."""
        try:
            with self.nested(), torch._C.DisableTorchFunction():
                yield
        except NotCaptured as reason:
            raise ValueError(self.refusal(module, str(reason))) from reason

    def follow(self, *_: Any) -> None:
        """Follows nothing: what is missing is refused."""

    @torch.enable_grad()
    def write(self, writers: list[ResidualWriter], module: nn.Module, value: Tensor, **facts: Any) -> Tensor:
        """Adds what a module writes, as a leaf, and returns a function of it, which may be changed in place. It is zero
        in the run that reads what another has held."""
        value = value.detach()
        leaf = (torch.zeros_like(value) if self.scales.is_read else value.clone()).requires_grad_()
        writers.append(ResidualWriter(module, leaf, self._stack(), **facts))
        written = leaf.clone()
        if writers is self.embeddings:
            self.embedded[written] = True
        return written

    def _write_heads(self, module: nn.Module, value: Tensor, call: Call | None = None) -> Tensor:
        """Adds an output (sequences, queries, heads, width) as a leaf, in which the windows of an example follow each
        other, and returns a function of it."""
        self._check_is_example(module, len(value))
        name, whole = str(self.names.layer_id(module)), value.flatten(0, 1)[None]
        if self.change_heads is not None:
            whole = whole.detach().clone()
            self.change_heads(len(self.heads), whole[0])
        return self.write(self.heads, module, whole, is_heads=True, name=name, call=call).reshape(value.shape)

    def _check_is_example(self, module: nn.Module, sequences: int) -> None:
        if sequences > 1 and self.example_counts[:1] != (1,):
            raise ValueError(self.refusal(module, f"it has {sequences} sequences, and one example is expected"))

    def observe(self, call: Call, result: tuple[Any, ...], implementation: str = "") -> tuple[Any, ...]:
        """Returns the result of a call of the attention interface with its output as a leaf."""
        return self._write_heads(call.module, result[0], call), *result[1:]

    def capture_computed(
        self, call: Call, output: Tensor, own_weights: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """Returns the output (sequences, queries, heads, width) of a function of torch as a leaf."""
        return self._write_heads(call.module, output, call)

    def capture_flex_attention(
        self, module: nn.Module, call: CallOfSequence, output: Tensor, own_weights: Callable[[], Tensor]
    ) -> Tensor | None:
        """Returns the output (sequences, queries, heads, width) of FlexAttention as a leaf."""
        known = call(0)
        if known is None:
            raise ValueError(self.refusal(module, "its score_mod is a function that is not known"))
        return self._write_heads(module, output, known)

    def capture_weights(self, module: nn.Module, weights: Tensor, own_shape: torch.Size | None = None) -> Tensor | None:
        """Returns weights (sequences, heads, queries, keys) without a gradient; their product with values will be
        found."""
        self._check_is_example(module, len(weights))
        self.latest_weights = weights.detach()
        return self.latest_weights

    def sum_of_values(self, module: nn.Module, weights: Tensor, output: Tensor) -> Tensor:
        """Returns the product of weights and values as a leaf."""
        sequences, heads, queries, _ = weights.shape
        axes = next((axes for axes in ORDERS if _ordered(output.shape, axes)[:3] == (sequences, queries, heads)), None)
        if axes is None:
            raise ValueError(self.refusal(module, f"its output has the shape {tuple(output.shape)}"))
        whole = (output if output.ndim == 4 else output[None]).permute(axes)
        inverse = [axes.index(axis) for axis in range(4)]
        return self._write_heads(module, whole).permute(inverse).reshape(output.shape)

    def multi_head_attention(self, module: nn.Module, arguments: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        with self.recording_layer(module):
            own = MultiHeadCall.from_arguments(module, arguments, slice(0, sequence_count(arguments)))
            call = own.call()
            with torch.no_grad():
                output, weights = own.rows(0, 0, len(own.query))
            projected = own.projected(self._write_heads(module, output, call))
        return (projected if arguments["query"].ndim == 3 else projected[:, 0]), weights

    def _stack(self) -> str:
        """Returns the innermost stack of layers that runs: an encoder and a decoder may share their embedding."""
        paths = (self.names.modules.get(module, "") for module, *_ in reversed(self.running))
        return next(filter(None, map(stack, paths)), "")

    def described(self, modules: frozenset[nn.Module]) -> str:
        """Returns the names of modules in the order of the model."""
        return described_first([one for one in self.names.modules if one in modules], self.names.modules)

    def refusal(self, module: nn.Module, reason: str) -> str:
        return f"The attention of {self.names.layer_id(module)} cannot be written as a sum: {reason}."


class Linearization(TorchFunctionMode):
    """Holds the scales of norms and makes leaves of what embeddings and MLPs write, while a model runs."""

    def __init__(self, run: LinearizedRun) -> None:
        super().__init__()
        self.run = run
        self._counts: Counter[nn.Module] = Counter()  # of the scales held, by the module that runs
        self._hidden = WeakIdKeyDictionary()  # numbers that are not affine in what was written
        self._weights = WeakIdKeyDictionary()  # numbers made of attention weights
        self._made = WeakIdKeyDictionary()  # numbers that are made of what MLPs wrote alone: of which
        self._convolved = WeakIdKeyDictionary()  # what convolutions give in front of all attention: its channels

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.run.busy or not self.run.running:
            return function(*args, **kwargs)
        operands = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor) and one.requires_grad]
        nonlinear = frozenset().union(*(self._hidden[one] for one in operands if one in self._hidden))
        module, name = self.run.running[-1][0], function_name(function)
        if any(isinstance(one.grad_fn, BackwardCFunction) for one in operands):  # of which torch sees the result alone
            nonlinear |= {module}
        if nonlinear and name in LINEAR and len(operands) == 1:
            self._check_is_mlp(module, nonlinear)
            hidden = operands[0].detach().requires_grad_()
            args, kwargs = _replaced((args, kwargs), operands[0], hidden)
            owner = self.run.owner((args, kwargs))
            map_of_torch = owner if isinstance(owner, nn.Linear) else None
            output = function(*args, **kwargs)
            return self._write_mlp(module, output, nonlinear=nonlinear, hidden=hidden, returned_by=map_of_torch)
        gates = [one for one in operands if one in self._hidden]
        if name in PRODUCTS and len(operands) == 2 and len(gates) == 1 and self._has_heads(module):
            self.run.gates.add(module)
            args, kwargs = _replaced((args, kwargs), gates[0], self._scale(gates[0]))
            operands, nonlinear = [one for one in operands if one is not gates[0]], frozenset()
        result = NORMS[function](self._scale, *args, **kwargs) if function in NORMS else function(*args, **kwargs)
        weights = self._followed_weights(args, kwargs, result)
        if weights is not None and name in PRODUCTS and result.requires_grad:
            return self.run.sum_of_values(module, weights, result)
        if name == "embedding" and result.is_floating_point():
            return self.run.write(self.run.embeddings, self.run.owner((args, kwargs)), result)
        if not isinstance(result, Tensor) or not result.requires_grad:
            return self._write_convolved(self.run.owner(args), result) if name.startswith("conv") else result
        if name in SCALES or (name == "pow" and _exponent(args, kwargs) < 0):
            return self._scale(result)
        if name in NONLINEAR and module in self.run.gated:
            [operand] = operands
            return operand * self._scale(torch.where(operand == 0, 0, result / operand))
        if name in NONLINEAR or (name in PRODUCTS and len(operands) > 1):
            nonlinear |= {module}
            if self._channels(operands):
                return self._write_convolved(module, result, self._channels(operands))
        self._mark(result, operands, name, nonlinear)
        return result

    def _mark(self, result: Tensor, operands: list[Tensor], name: str, nonlinear: frozenset[nn.Module]) -> None:
        """Notes what a result is made of."""
        if operands and all(one in self.run.embedded for one in operands):
            self.run.embedded[result] = True
            if name.startswith("conv"):
                self._convolved[result] = result.shape[1]
            elif name not in LINEAR and (channels := self._channels(operands)):
                self._convolved[result] = channels
        if nonlinear:
            self._hidden[result] = nonlinear
            mark_nonlinear(result, nonlinear)
        made = [self._made.get(one) for one in operands]
        if any(made) and all(parts or one in self._hidden for one, parts in zip(operands, made, strict=True)):
            self._made[result] = list(dict.fromkeys(part for parts in made for part in parts or ()))

    def _channels(self, operands: list[Tensor]) -> int:
        """Returns the number of channels of what convolutions give, or 0 if an operand is something else."""
        return min((self._convolved.get(one, 0) for one in operands), default=0)

    def _followed_weights(self, args: Any, kwargs: Any, result: Any) -> Tensor | None:
        """Marks a result that is made of attention weights, and returns these."""
        latest, self.run.latest_weights = self.run.latest_weights, None
        if latest is None:
            marked = (one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor) and one in self._weights)
            latest = next((self._weights[one] for one in marked), None)
        if latest is not None and isinstance(result, Tensor):
            self._weights[result] = latest
        return latest

    def _has_heads(self, module: nn.Module) -> bool:
        return any(writer.module is module for writer in self.run.heads)

    def _check_is_mlp(self, module: nn.Module, nonlinear: frozenset[nn.Module]) -> None:
        """Raises ValueError for a module of attention: with such a part, what its heads do is not a term of a sum. But
        a linear attention, all of whose nonlinearities are inside, is a writer as an MLP is."""
        is_linear = nonlinear <= {*module.modules()} and not self._has_heads(module)
        names = f"{self.run.names.modules[module].rpartition('.')[2]} {type(module).__name__}"
        if ATTENTION.search(names) and not is_linear:
            modules = self.run.described(nonlinear)
            reason = f"what it reads, or what its heads give, goes through a nonlinearity in {modules}"
            raise ValueError(self.run.refusal(module, reason))

    def _write_convolved(self, module: nn.Module, result: Tensor, channels: int | None = None) -> Tensor:
        """Returns what convolutions give, of an image's patches or of sound, as what an embedding writes."""
        channels = result.shape[1] if channels is None else channels
        axis = 1 if result.shape[1] == channels else -1
        written = self.run.write(self.run.embeddings, module, result, width_axis=axis)
        self._convolved[written] = channels
        return written

    def _key(self) -> tuple[nn.Module, int]:
        module = self.run.running[-1][0]
        self._counts[module] += 1
        return module, self._counts[module]

    def _scale(self, number: Tensor) -> Tensor:
        return self.run.scales.hold(self._key(), number)

    def _write_mlp(self, module: nn.Module, output: Tensor, **facts: Any) -> Tensor:
        written = self.run.write(self.run.mlps, module, output, output=output, **facts)
        self._made[written] = self.run.mlps[-1:]
        return written

    def leave(self, module: nn.Module, args: Any, result: Any) -> Any:
        """Makes the output of a module a leaf, if it is made of what MLPs inside it wrote alone."""
        output = result[0] if isinstance(result, tuple) else result
        parts = self._made.get(output) if isinstance(output, Tensor) else None
        if not parts or not {part.module for part in parts} <= {*module.modules()}:
            return None
        nonlinear = frozenset().union(*(part.nonlinear for part in parts))
        self.run.mlps[:] = [writer for writer in self.run.mlps if writer not in parts]
        output = self._write_mlp(
            module, output, nonlinear=nonlinear, parts=tuple(parts), routed=_routed(args), returned_by=module
        )
        return (output, *result[1:]) if isinstance(result, tuple) else output


@contextmanager
def _with_leaves(model: nn.Module, scales: Linearization) -> Iterator[None]:
    """Runs the modules of a model so that their MLPs are leaves; their parameters need no gradients meanwhile."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    with ExitStack() as exits:
        for one in parameters:
            one.requires_grad_(False)
            exits.callback(one.requires_grad_, True)
        for module in named_modules(model):
            exits.enter_context(module.register_forward_hook(scales.leave))
        with scales:
            yield


def run_linearized(
    model: nn.Module,
    arguments: ForwardArguments,
    scales: FixedScales,
    gated: frozenset[nn.Module] = frozenset(),
    within: Callable[[LinearizedRun], AbstractContextManager] = nullcontext,
    change_heads: ChangeHeads | None = None,
) -> tuple[Any, LinearizedRun]:
    """Returns what a model returns, as a function of the leaves of the run; with scales that are read, of zeros.

    The model runs within a context that is made of the run, and heads write what `change_heads` makes of it. Raises
    ValueError if no attention is seen, if its output cannot be a leaf, and if the model has no gradients.
    """
    transformers = transformers_models()
    names = LayerNames(named_modules(model), is_encoder_decoder(model))
    run = LinearizedRun(
        names, arguments.example_counts(), 0, MemoryBudget(), observes=True, scales=scales, gated=gated,
        change_heads=change_heads,
    )  # fmt: skip
    attention = transformers.observed_attention if transformers else nullcontext()

    def as_leaf(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.ndim != 3:
            return value
        return run.write(run.embeddings, model, value)

    args, kwargs = tree_map(as_leaf, (arguments.args, arguments.kwargs))
    with (
        prepared(model),
        attention,
        recorded(run, head_counts(model)),
        _with_leaves(model, Linearization(run)),
        within(run),
        torch.enable_grad(),
    ):
        try:
            output = model(*args, **kwargs)
        except NotImplementedError as error:  # of FlexAttention on a CPU
            raise value_error("A sum takes gradients, which this model does not have. {error}", error=error) from error
    if not run.heads:
        raise ValueError(no_attention(model, run))
    _drop_unread(run, output)
    return output, run


def _routed(args: tuple[Any, ...]) -> tuple[Tensor, Tensor, Tensor] | None:
    """Returns tokens (tokens, width), and the experts that a router has chosen for them with their weights, (tokens,
    experts of each), if these are what a module was called with."""
    if len(args) != 3 or not all(isinstance(one, Tensor) and one.ndim == 2 for one in args):
        return None
    states, chosen, weights = (one.detach() for one in args)
    are_experts = not chosen.is_floating_point() and weights.is_floating_point() and chosen.shape == weights.shape
    return (states, chosen, weights) if are_experts and len(states) == len(chosen) else None


def _drop_unread(run: LinearizedRun, output: Any) -> None:
    """Drops embeddings and MLPs of which nothing is made: what is inside of another writer."""
    calls = [writer.call for writer in run.heads if writer.call is not None]
    numbers = [*tree_leaves(output), *(one for call in calls for one in (call.query, call.key, call.value))]
    nodes = graph_nodes(one for one in numbers if isinstance(one, Tensor))
    read = {id(node.variable) for node in nodes if hasattr(node, "variable")}
    for writers in (run.embeddings, run.mlps):
        writers[:] = [writer for writer in writers if id(writer.value) in read]


def _replaced(arguments: Any, tensor: Tensor, other: Tensor) -> Any:
    return tree_map(lambda one: other if one is tensor else one, arguments)


def _ordered(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    whole = (1,) * (4 - len(shape)) + tuple(shape)
    return tuple(whole[axis] for axis in axes)


@lru_cache(1024)
def function_name(function: Any) -> str:
    """Returns the name of a function of torch or a method of tensors, without underscores at its ends."""
    return str(getattr(function, "__name__", "")).strip("_")


def _exponent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    exponent = kwargs.get("exponent", args[1] if len(args) > 1 else 1)
    return exponent if isinstance(exponent, int | float) else 1
