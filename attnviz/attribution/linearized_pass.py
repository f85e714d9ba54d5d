"""One forward pass of a model, of which any affine number is a sum over its writers."""

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import grouped, short_repr
from attnviz.base.language import N_, value_error
from attnviz.tracing.added_constants import AddedConstant, AddedConstants
from attnviz.tracing.call import Call, as_added
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.lazy_mask import LazyMask
from attnviz.tracing.linearized_run import ChangeHeads, FixedScales, LinearizedRun, run_linearized
from attnviz.tracing.optional_transformers import is_encoder_decoder
from attnviz.tracing.read_positions import NO_POSITION, read_position
from attnviz.tracing.residual_writer import ResidualWriter

NO_LAYER = N_("There is no layer {index}: there are {count}, counted from 0.")
NO_HEAD = N_("There is no head {index}: there are {count}, counted from 0.")
OTHER_INPUTS = ("vision", "audio")  # stacks whose positions are not those of a text
MOST_BYTES = 2 << 30  # of memory for the numbers of one pass
VECTORS = 40  # bytes for each token, layer and number of its width, as measured with SmolLM2


@dataclass(eq=False)
class LinearizedPass:
    """A forward pass of one example whose attention weights and norm scales are held. With `change_heads`, some heads
    write something else than the model's own."""

    model: nn.Module
    arguments: ForwardArguments
    gated: frozenset[nn.Module] = frozenset()
    scales: FixedScales = field(default_factory=FixedScales)
    most_bytes: int = MOST_BYTES
    change_heads: ChangeHeads | None = None

    @cached_property
    def ran(self) -> tuple[Any, LinearizedRun]:
        """The output of the model, and the run. Raises ValueError if it takes too much memory."""
        check_memory(self.model, self.arguments, self.most_bytes)
        return run_linearized(self.model, self.arguments, self.scales, self.gated, change_heads=self.change_heads)

    @cached_property
    def without_writers(self) -> tuple[Any, LinearizedRun]:
        """The same of a run in which nothing is written: only constants are left."""
        _ = self.ran
        output, run = run_linearized(self.model, self.arguments, FixedScales(True, self.scales.numbers), self.gated)
        output = tree_map(_detached, output)
        for writer in run.heads:  # nobody asks for gradients, which take memory
            if (call := writer.call) is not None:
                query, key, value = map(_detached, (call.query, call.key, call.value))
                writer.call = replace(call, query=query, key=key, value=value)
        run.mlps.clear()
        return output, run

    @cached_property
    def with_constants(self) -> tuple[Any, LinearizedRun, list[AddedConstant]]:
        """The same with the constants that functions add."""
        added: list[AddedConstants] = []

        def within(run: LinearizedRun) -> AddedConstants:
            added.append(AddedConstants(run))
            return added[0]

        _ = self.ran
        scales = FixedScales(True, self.scales.numbers)
        return *run_linearized(self.model, self.arguments, scales, self.gated, within), added[0].constants

    def gating(self, modules: frozenset[nn.Module]) -> "LinearizedPass":
        """Returns the pass in which the nonlinearities of these modules are held as factors, too."""
        return LinearizedPass(
            self.model, self.arguments, self.gated | modules, most_bytes=self.most_bytes, change_heads=self.change_heads
        )

    def read(self, count: int, stack: str | None = None) -> Bool[Tensor, " positions"]:
        """Returns a mask of the read positions among `count` of a stack of layers, by default the one that predicts."""
        return read_of_stack(self.model, self.arguments, count, stack)

    def heads_of(self, layer: int, head: int, query: int) -> ResidualWriter:
        """Returns the heads of a layer. Raises ValueError if there is no such layer, head or query."""
        layers = self.ran[1].heads
        check_place(NO_LAYER, layer, len(layers))
        _, queries, heads, _ = layers[layer].value.shape
        check_place(NO_HEAD, head, heads)
        check_place(NO_POSITION, query, queries)
        read_position(query, self.read(queries, layers[layer].stack))
        return layers[layer]


def read_of_stack(
    model: nn.Module, arguments: ForwardArguments, count: int, stack: str | None = None
) -> Bool[Tensor, " positions"]:
    """Returns a mask of the read positions among `count` of a stack of layers, by default the one that predicts. Raises
    ValueError as `ForwardArguments.read` does."""
    if stack in OTHER_INPUTS:
        return torch.ones(count, dtype=torch.bool)
    return arguments.read(count, stack in (None, "decoder") and is_encoder_decoder(model))


def most_tokens(model: nn.Module, most_bytes: int = MOST_BYTES) -> int:
    """Returns the number of tokens of which a pass takes at most so much memory, as estimated by the sizes in the
    model's config; a number that no text has, where it has none."""
    config: Any = getattr(model, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    width, layers = getattr(config, "hidden_size", 0), getattr(config, "num_hidden_layers", 0)
    return most_bytes // max(1, VECTORS * width * layers)


def check_memory(model: nn.Module, arguments: ForwardArguments, most_bytes: int) -> None:
    """Raises ValueError if a pass over these arguments would take more memory than that."""
    ids = arguments.by_name.get("input_ids")
    tokens, most = ids.shape[-1] if isinstance(ids, Tensor) else 0, most_tokens(model, most_bytes)
    if tokens > most:
        raise value_error(
            "A sum over all that was written takes too much memory for {count} tokens. Give it at most {most}.",
            count=grouped(tokens),
            most=grouped(most),
        )


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def check_place(message: str, index: int, count: int) -> None:
    """Raises ValueError with a message about the index and the count if there is no such index."""
    if not isinstance(index, Integral):
        raise value_error(
            "A token, a head or a layer is given by its number, an integer; this is {value}. That of a token is in "
            "what the tokenizer makes of a text.",
            value=short_repr(index),
        )
    if not 0 <= index < count:
        raise value_error(message, index=index, count=count)


def values_of_head(writer: ResidualWriter, head: int) -> Tensor:
    """Returns the values that a head reads, (keys, width)."""
    return of_head(call_of(writer).value, writer, head)


def of_head(tensor: Tensor, writer: ResidualWriter, head: int) -> Tensor:
    """Returns the queries, keys or values of a head, which may share them with others: (tokens, width)."""
    return tensor[:, head // (writer.value.shape[2] // tensor.shape[1])].flatten(0, 1)


def call_of(writer: ResidualWriter) -> Call:
    """Returns the call of a layer. Raises ValueError if its queries, keys and values are not known."""
    if writer.call is None:
        raise value_error(
            "The queries, keys and values of {layer} are not known: the model computes its attention by itself. Ask "
            "for a logit.",
            layer=writer.name,
        )
    return writer.call


def key_count(writer: ResidualWriter) -> int:
    """Returns the number of keys of a layer, of all windows."""
    call = call_of(writer)
    return len(call.key) * call.lengths[1]


def added_row(writer: ResidualWriter, head: int, query: int) -> Tensor:
    """Returns what is added to the scores of one query of a head, (keys,): by masks and by biases of positions. It is
    minus infinity outside of the query's window."""
    return changed_scores(writer, head, query, torch.zeros(key_count(writer), device=writer.value.device))


def changed_scores(writer: ResidualWriter, head: int, query: int, scores: Tensor) -> Tensor:
    """Returns scores of one query of a head, (keys,), after biases and masks."""
    call = call_of(writer)
    queries, keys = call.lengths
    window, query = divmod(query, queries)
    row = scores.reshape(-1, keys)[window].float()
    b, h, q = (torch.tensor(index, device=row.device) for index in (window, head, query))
    k = torch.arange(keys, device=row.device)
    for bias in call.biases:
        row = bias.bind(queries, keys, call.query.shape[1])(row, b, h, q, k)
    for added in (call.mask, call.options.get("position_bias")):
        if added is None:
            continue
        part = added.rows(query, query + 1) if isinstance(added, LazyMask) else added
        part = as_added(part, torch.float32).detach()
        part = part.reshape((1,) * (4 - part.ndim) + tuple(part.shape))
        rows = queries if part.shape[2] > 1 else 1
        row = row + part.expand(*call.query.shape[:2], rows, keys)[window, head, query if rows > 1 else 0]
    if call.rule is not None:
        row = row.masked_fill(~call.rule.bind(queries, keys, call.query.shape[1])(b, h, q, k), -torch.inf)
    return _among_windows(row, window, call, -torch.inf)


def _among_windows(row: Tensor, window: int, call: Call, elsewhere: float) -> Tensor:
    whole = row.new_full((len(call.key), len(row)), elsewhere)
    whole[window] = row
    return whole.flatten()


def query_weights(writer: ResidualWriter, head: int, query: int) -> Tensor:
    """Returns the weights of one query of a head, (keys,). Raises ValueError if they do not give the head's output."""
    call = call_of(writer)
    with torch.no_grad():
        if call.eager:
            window, row = divmod(query, call.lengths[0])
            weights = call.weights(row, row + 1, slice(window, window + 1))[0, head, 0]
            weights = _among_windows(weights, window, call, 0.0)
        else:
            scores = of_head(call.key, writer, head) @ of_head(call.query, writer, head)[query] * score_factor(writer)
            weights = changed_scores(writer, head, query, scores).softmax(-1)
        value, output = values_of_head(writer, head), writer.value[0, query, head]
        if not torch.allclose(weights @ value, output, rtol=1e-3, atol=1e-4 * float(value.abs().max())):
            raise value_error(
                "The weights of {layer}, head {head} are not known: they do not give its output. Choose another head.",
                layer=writer.name,
                head=head,
            )
    return weights


def check_scores(writer: ResidualWriter, head: int, query: int, added: Tensor) -> None:
    """Raises ValueError if products of the query and the keys, with what is added to them, do not give the weights: a
    model may cap its scores."""
    call = call_of(writer)
    with torch.no_grad():
        scores = of_head(call.key, writer, head) @ of_head(call.query, writer, head)[query] * score_factor(writer)
        weights = query_weights(writer, head, query)
        known = (scores + added).softmax(-1)
        if not torch.allclose(known * weights.sum(), weights, atol=1e-4):  # of which a sink may have a part
            raise value_error(
                "The scores of {layer}, head {head} are not the products of its queries and keys: the model changes "
                "them, as a cap does. Ask for a logit.",
                layer=writer.name,
                head=head,
            )


def score_factor(writer: ResidualWriter) -> float:
    """Returns the factor of the scores of a layer."""
    factor = call_of(writer).options.get("scaling")
    return call_of(writer).query.shape[-1] ** -0.5 if factor is None else float(factor)
