"""The activations of a transformers model: an encoder such as all-MiniLM-L6-v2, a decoder such as SmolLM2, or both,
such as the translator.

They are what its modules returned, in their order. Where a module's input comes from is found by its numbers: it is
what a module before it returned, or the residual stream with what was added to it meanwhile. So the order of norms,
attention and MLPs is the model's own, and what does not follow from the parts that are shown is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnviz.base.language import N_, _, value_error
from attnviz.base.token_texts import vocabulary_tokens
from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, Layer
from attnviz.path.activation import Activation, ActivationRecord, SublayerKind
from attnviz.path.module_calls import ModuleCall, recorded_calls
from attnviz.path.recorder import PROJECTIONS, ActivationRecorder, layer_norm_formula
from attnviz.tracing import capture

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

MOST_TOKENS = 24  # that can be told apart in a picture
TOLERANCE = 1e-5  # in float32
EMBEDDINGS = {  # of a token, by what the names of their modules have in them, in the order of their sum
    "positions": ("P", "position", N_("the vector of each position")),
    "segments": ("T", "token_type", N_("a learned vector: all tokens are of the first text")),
}
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], ...]] = {
    "ReLU": (torch.relu,),
    "GELU": (functional.gelu, partial(functional.gelu, approximate="tanh"), lambda x: x * torch.sigmoid(1.702 * x)),
    "SiLU": (functional.silu,),
}
ABOUT_MEMORY = N_("what the encoder gives to the decoder")
IN_LAYERS = ("attention", "cross", "network")  # kinds of sublayers
HeadSplit = Callable[[Tensor], Tensor]  # (…, outputs) → (…, heads, width)


@torch.no_grad()
def model_activations(
    model: "LoadedModel", text: str, written: str | None = None, count: int = MOST_TOKENS
) -> ActivationRecord:
    """Returns the activations of a model that reads a text; those of a model that writes end with the logits of the
    next token, “output logits”. A decoder with an encoder reads the first `count` tokens of what is `written`, by
    default of what it writes by itself.

    Raises ValueError if a sequence has more than MOST_TOKENS tokens, or the model has other parts than embeddings,
    norms, attention with softmax and MLPs.

    Example:
        >>> from attnviz.models.minilm import minilm
        >>> record = model_activations(minilm(), "The cat sleeps.")
        >>> record["encoder 5 attention weights"].values.shape
        torch.Size([12, 6, 6])
    """
    inputs = model.encode(text, written)
    network = model.model if model.outputs == "next token" else model.model.base_model
    arguments = model.forward_arguments(inputs) if network is model.model else dict(inputs.batch)
    sequences = {"decoder" if model.is_decoder_only else "encoder": inputs.source.tokens}
    if inputs.target is not None:
        sequences["decoder"] = inputs.target.tokens[:count]
        arguments["decoder_input_ids"] = arguments["decoder_input_ids"][:, :count]
    for tokens in sequences.values():
        if len(tokens) > MOST_TOKENS:
            raise value_error(
                "At most {MOST_TOKENS} tokens can be drawn here; this text has {count}. Shorten it.",
                MOST_TOKENS=MOST_TOKENS,
                count=len(tokens),
            )
    with model.refusals():
        with model.lock, recorded_calls(network) as calls:
            trace = capture(
                network, arguments, tokens=inputs.source.tokens, decoder_tokens=sequences.get("decoder", ())
            )
        if not trace:
            raise _unknown(model, type(network).__name__)
        for layer in trace:
            if layer.fidelity is not Fidelity.VERIFIED or layer.inputs.heads != trace[0].inputs.heads:
                raise _unknown(model, layer.name)
        tolerance = max(TOLERANCE, 2 * torch.finfo(network.dtype).eps)
        finder = _Finder(model, [*trace], ActivationRecorder(trace[0].inputs.heads), tolerance)
        finder.find_all(sequences, calls)
    return finder.recorder.record()


@dataclass
class _Finder:
    """Finds what each call of a module has computed, and from what."""

    model: "LoadedModel"
    layers: list[Layer]  # whose attention is still to come
    recorder: ActivationRecorder
    tolerance: float  # of the largest number, in which the orders of a sum differ
    logits: Tensor | None = None  # that the model returns at the last position
    stack: str = ""  # that is open
    tokens: tuple[str, ...] = ()  # that it reads
    memory: Activation | None = None  # what the encoder has given to the decoder
    number: int = -1  # of the layer
    kind: SublayerKind = "embedding"  # of the sublayer that is open
    stream: Activation | None = None  # the residual stream
    added: list[Activation] = field(default_factory=list)  # what has been added to it meanwhile
    read: list[Activation] = field(default_factory=list)  # norms, which several sublayers may read
    norms: list[ModuleCall] = field(default_factory=list)  # whose sublayer begins with the next linear map
    inputs: list[ModuleCall] = field(default_factory=list)  # linear maps whose output another part reads
    head_norms: dict[ModuleCall, tuple[ModuleCall, Tensor]] = field(default_factory=dict)  # of queries or keys
    opening: dict[str, ModuleCall] = field(default_factory=dict)  # the first call in each layer of the model

    def find_all(self, sequences: Mapping[str, tuple[str, ...]], calls: Sequence[ModuleCall]) -> None:
        """Adds the activations of all calls; `sequences` are the tokens that each stack of layers reads."""
        self.logits = next((call.output[-1:] for call in calls if call.kind == "model"), None)
        parts: list[list[ModuleCall]] = [[]]
        for call in calls:
            if parts[-1] and parts[-1][-1].kind != "embedding" and self._is_of_words(call):
                parts.append([])
            parts[-1].append(call)
        if len(parts) != len(sequences):
            raise _unknown(self.model, type(self.model.model).__name__)
        for (self.stack, self.tokens), part in zip(sequences.items(), parts, strict=True):
            is_memory = self.stack != [*sequences][-1]
            self.number, self.kind, self.stream, self.opening = -1, "embedding", None, {}
            self._find(part, is_memory)
            self.memory = self.stream if is_memory else None
        last = calls[-1]
        if self.layers:
            raise self._unknown(last)
        logits = self.recorder.sublayers[-1].output
        if self.logits is not None and not self._same(logits.values, self.logits[:, self._writable]):
            raise self._unknown(last)  # some models scale or cap their logits

    def _find(self, calls: Sequence[ModuleCall], is_memory: bool) -> None:
        """Adds the activations of one stack of layers."""
        embeddings = [call for call in calls if call.kind == "embedding"]
        others = [call for call in calls if call.kind in ("norm", "linear")]
        if not others:
            raise _unknown(self.model, type(self.model.model).__name__)
        self._embed(embeddings, others[0])
        for call in others:
            self.opening.setdefault(call.block, call)
            if call.kind == "norm":
                self._norm(call, is_memory)
            elif call.module is self.model.model.get_output_embeddings():
                self._logits(call)
            elif call.block:  # poolers are not shown
                self._linear(call)
        if self.inputs or self.norms:
            raise self._unknown((self.inputs or self.norms)[-1])
        if self.kind != "output":
            self._end()
            if is_memory:
                assert self.stream is not None
                self.kind = "output"
                self.recorder.start("memory")
                self.stream = self.recorder.sum("vectors", "M", _(ABOUT_MEMORY), self.stream)
                self._end()

    @property
    def _writable(self) -> Tensor:
        """The ids of the tokens that the model can write: some have no probability."""
        assert self.logits is not None
        return self.logits[0].isfinite().nonzero()[:, 0]

    def _is_of_words(self, call: ModuleCall) -> bool:
        return call.kind == "embedding" and call.module.weight is self.model.model.get_input_embeddings().weight

    def _embed(self, calls: Sequence[ModuleCall], first: ModuleCall) -> None:
        self.recorder.start(f"{self.stack} embedding")
        terms = {self._embedding(call): call.output for call in calls}
        words, total = terms.get("words"), first.source
        if words is None or total.shape != words.shape:
            raise self._unknown(first)
        if len(terms) == 1 and not self._same(words, total):
            terms["words"] = words * _factor(words, total)  # such as √d
        about = {"words": ("E", "", N_("the learned vector of each token"))} | EMBEDDINGS
        added = []
        for part, (symbol, _mark, description) in about.items():
            if part in terms:
                values = terms[part].expand_as(words)
                added.append(self.recorder.input(part, symbol, _(description), values, self.tokens))
        self.stream = added[0]
        if len(added) > 1:
            symbol = "x" if first.block else "s"
            self.stream = self.recorder.sum("sum", symbol, _("each token at its position"), *added)
        if not self._same(self.stream.values, total):
            raise self._unknown(first)

    def _embedding(self, call: ModuleCall) -> str:
        if self._is_of_words(call):
            return "words"
        for part, (_symbol, mark, _about) in EMBEDDINGS.items():
            if mark in call.name or (mark == "position" and call.name.endswith("wpe")):
                return part
        raise self._unknown(call)

    def _norm(self, call: ModuleCall, is_memory: bool) -> None:
        if call.source.ndim == 3:
            self._head_norm(call)
            return
        source = self._known_source(call)
        is_in_embedding = self.kind == "embedding" and not call.block
        if any(source is one for one in self.added):
            normed = self._add_norm("output norm", "N", source, call)
            self.added = [normed if one is source else one for one in self.added]
        elif is_in_embedding or (self.opening[call.block].kind == "linear" and source.operation == "add"):
            self.stream = self._add_norm("norm", "x", source, call)
        elif not call.block:
            self._start("output", "memory" if is_memory else "output")
            if is_memory:
                self.stream = self._add_norm("vectors", "M", source, call, about=_(ABOUT_MEMORY))
            else:
                self.stream = self._add_norm("norm", "z", source, call)
            if is_memory or not self.model.model.get_output_embeddings():
                self._end()
        else:
            self.norms.append(call)

    def _head_norm(self, call: ModuleCall) -> None:
        """Notes a norm of the queries or the keys of each head."""
        for source, output in ((call.source, call.output), (one.transpose(0, 1) for one in (call.source, call.output))):
            for linear in self.inputs:
                if linear not in self.head_norms and torch.equal(source.flatten(1), linear.output):
                    self.head_norms[linear] = call, output.transpose(0, 1)
                    return
        raise self._unknown(call)

    def _add_norm(self, part: str, symbol: str, source: Activation, call: ModuleCall, **more: Any) -> Activation:
        """Adds a layer norm, or an RMS norm, which does not subtract the mean."""
        output = more.pop("output", call.output)
        values, weight = source.values, call.module.weight.detach()
        eps = getattr(call.module, "eps", getattr(call.module, "variance_epsilon", 1e-6))
        scaled = values * torch.rsqrt(values.square().mean(-1, keepdim=True) + eps)
        centered = values - values.mean(-1, keepdim=True)
        centered = centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)
        bias = call.bias
        for gain in (weight, 1 + weight):  # Gemma has the second
            for normed in (centered, scaled):
                made = normed * gain if bias is None else normed * gain + bias
                if self._same(made, output):
                    about = more.pop("about", _("each row has mean 0 and spread 1, then its own scale"))
                    formula = layer_norm_formula(symbol, source.symbol, bias is not None)
                    if normed is scaled:
                        about = _("each row has the root mean square 1, then its own scale")
                        formula = f"{symbol} = RMSNorm({source.symbol}) = γ · {source.symbol} / RMS"
                    return self.recorder.add(
                        part, symbol, formula, about, "norm", (source,), output, source.rows, weight=gain,
                        bias=bias, **more,
                    )  # fmt: skip
        raise self._unknown(call)

    def _linear(self, call: ModuleCall) -> None:
        if self.layers and self._same(_joined(self.layers[0]), call.source):
            self._attention(call, self.layers.pop(0))
        elif any(torch.equal(norm.output, call.source) for norm in self.norms) or self._source(call.source):
            self.inputs.append(call)
            return
        else:
            self._network(call)
        self.inputs = []

    def _attention(self, call: ModuleCall, layer: Layer) -> None:
        """Adds multi-head attention whose outputs a linear map reads."""
        self._start("cross" if layer.id.cross else "attention")
        inputs = layer.inputs
        assert isinstance(inputs, Inputs)
        vectors = inputs.query.float(), inputs.key.float(), inputs.value.float()
        maps = next((maps for maps in self._projections(inputs) if self._matches(maps, vectors)), None)
        if maps is None:
            raise self._unknown(call)
        projected = []
        for part, (linear, split), own in zip(PROJECTIONS, maps, vectors, strict=True):
            shared = inputs.heads // len(own)
            bias = None if linear.bias is None else split(linear.bias)
            weight, values = (split(one).transpose(0, 1) for one in (linear.weight, linear.output))
            source = self._known_source(linear)
            projected.append(self.recorder.projection(part, source, values, weight, bias, shared))
        for i, (linear, _split_heads) in enumerate(maps[:2]):
            if linear in self.head_norms:
                norm, output = self.head_norms[linear]
                one, options = projected[i], {"output": output, "shared": projected[i].shared}
                projected[i] = self._add_norm(f"normed {one.part}", f"{one.symbol}_N", one, norm, **options)
        self.head_norms = {}
        turned = [self._rotation(one, own) for one, own in zip(projected[:2], vectors[:2], strict=True)]
        attention = layer.known_mechanism(inputs)
        query, key = (one.values for one in turned)
        scores = query @ key.repeat_interleave(len(query) // len(key), 0).transpose(1, 2) / query.shape[-1] ** 0.5
        allowed = attention.allowed.expand_as(scores)
        if not (
            self._same(attention.scores[allowed], scores[allowed])
            and self._same(attention.weights, attention.scores.softmax(-1).nan_to_num())
        ):
            raise self._unknown(call)
        concat = self.recorder.weighted_values([*turned, projected[2]], attention)
        self._add_output(call, concat, "O = C W^O", _("the heads, mixed"))

    def _projections(self, inputs: Inputs) -> Iterator[list[tuple[ModuleCall, HeadSplit]]]:
        """Yields the maps that may have made the queries, the keys and the values, and how each is split into heads."""
        heads, kv_heads = inputs.heads, len(inputs.key)
        if len(self.inputs) == 3:
            counts = heads, kv_heads, kv_heads
            for order in permutations(self.inputs):
                yield [
                    (call, _split(0, call.output.shape[-1], count)) for call, count in zip(order, counts, strict=True)
                ]
        if len(self.inputs) == 1:
            (call,) = self.inputs
            ends, start = [], 0
            for count, vectors in ((heads, inputs.query), (kv_heads, inputs.key), (kv_heads, inputs.value)):
                ends.append((start, start := start + count * vectors.shape[-1], count))
            if start == call.output.shape[-1]:
                yield [(call, _split(*part)) for part in ends]  # all queries, then all keys, then all values
                if heads == kv_heads:  # the queries, keys and values of one head after the other
                    yield [(call, _split_by_head(i, heads)) for i in range(3)]

    def _matches(self, maps: Sequence[tuple[ModuleCall, HeadSplit]], vectors: Sequence[Tensor]) -> bool:
        """Returns whether maps make these values, and these queries and keys up to a rotation."""
        made = [split(call.output).transpose(0, 1) for call, split in maps]
        made[:2] = [self.head_norms.get(call, (call, one))[1] for (call, _), one in zip(maps, made[:2], strict=False)]
        return (
            all(one.shape == own.shape for one, own in zip(made, vectors, strict=True))
            and self._same(made[2], vectors[2])
            and all(self._rotated_columns(one, own) is not None for one, own in zip(made[:2], vectors[:2], strict=True))
        )

    def _rotated_columns(self, before: Tensor, after: Tensor) -> int | None:
        """Returns how many columns are rotated in pairs, each with the one half as many further on; 0 where they are
        equal up to a factor, and None where they are something else."""
        if self._same(before * _factor(before, after), after):
            return 0
        for count in range(before.shape[-1], 0, -2):
            if not self._same(before[..., count:], after[..., count:]):
                return None
            (a, b), (c, d) = (one[..., :count].chunk(2, -1) for one in (before, after))
            if self._same(a**2 + b**2, c**2 + d**2):
                return count
        return None

    def _rotation(self, projected: Activation, own: Tensor) -> Activation:
        """Adds the rotation of queries or keys by their positions, if the model rotates them."""
        rotated = self._rotated_columns(projected.values, own)
        if not rotated:
            return projected
        letter, part = projected.symbol[0], projected.part.removeprefix("normed ")
        symbol = f"{letter}_R"
        return self.recorder.add(
            f"rotated {part}", symbol, f"{symbol} = R {projected.symbol}",
            _("turned by angles that grow with the position"), "rotation", (projected,), own, projected.rows,
            shared=projected.shared, rotated=rotated,
        )  # fmt: skip

    def _network(self, call: ModuleCall) -> None:
        """Adds an MLP, whose hidden numbers a linear map reads."""
        self._start("network")
        halves: list[tuple[ModuleCall, Tensor, slice]] = [(one, one.output, slice(None)) for one in self.inputs]
        width = call.source.shape[-1]
        if len(halves) == 1 and halves[0][1].shape[-1] == 2 * width:
            ((one, output, _all),) = halves
            halves = [(one, output[:, part], part) for part in (slice(width), slice(width, None))]
        hidden = self._hidden(call, halves)
        if hidden is None:
            raise self._unknown(call)
        self._add_output(call, hidden, "O = F W^2", _("back to the width of the model"))

    def _hidden(self, call: ModuleCall, halves: list[tuple[ModuleCall, Tensor, slice]]) -> Activation | None:
        low = _("each token by itself, in a wider space; negative numbers become almost 0")
        zero = _("each token by itself, in a wider space; negative numbers become 0")
        for name, variants in FUNCTIONS.items():
            about = zero if name == "ReLU" else low
            for function in variants:
                if len(halves) == 1 and self._same(function(halves[0][1]), call.source):
                    return self._map("hidden", "F", f"{name}({{0}} W^1{{1}})", about, halves[0], call.source)
                if len(halves) != 2:
                    continue
                for gate, up in permutations(halves):
                    values = function(gate[1])
                    if self._same(values * up[1], call.source):
                        opened = self._map("gate", "G", f"{name}({{0}} W^G{{1}})", about, gate, values)
                        wide = _("each token by itself, in a wider space")
                        other = self._map("up", "U", "{0} W^U{1}", wide, up, up[1])
                        return self.recorder.add(
                            "hidden", "F", "F = G · U", _("each number times that of the gate"), "product",
                            (opened, other), call.source, opened.rows,
                        )  # fmt: skip
        return None

    def _map(
        self, part: str, symbol: str, formula: str, about: str, half: tuple[ModuleCall, Tensor, slice], values: Tensor
    ) -> Activation:
        call, _output, columns = half
        source = self._known_source(call)
        weight, bias = call.weight[:, columns], None if call.bias is None else call.bias[columns]
        text = formula.format(source.symbol, "" if bias is None else " + b")
        return self.recorder.add(
            part, symbol, f"{symbol} = {text}", about, "linear", (source,), values, source.rows, weight=weight,
            bias=bias,
        )  # fmt: skip

    def _add_output(self, call: ModuleCall, source: Activation, formula: str, about: str) -> None:
        formula += "" if call.bias is None else " + b"
        self.added.append(
            self.recorder.add(
                "output", "O", formula, about, "linear", (source,), call.output, source.rows, weight=call.weight,
                bias=call.bias,
            )
        )  # fmt: skip

    def _logits(self, call: ModuleCall) -> None:
        """Adds the logits of the next token."""
        stream = self.stream
        if stream is None or not self._same(stream.values[-1:], call.source[-1:]):
            raise self._unknown(call)
        if self.kind != "output":
            self._start("output", "output")
        is_tied = call.module.weight is self.model.model.get_input_embeddings().weight
        formula = f"logits = {stream.symbol} {'E^T' if is_tied else 'W^E'}"
        about = _("how well the last row fits each token of the vocabulary")
        ids = self._writable
        words = Vocabulary(self.model.tokenizer, ids.tolist())
        self.recorder.add(
            "logits", "logits", formula, about, "linear", (stream,), call.output[-1:, ids], stream.rows[-1:], words,
            weight=call.weight[:, ids], bias=None if call.bias is None else call.bias[ids],
        )  # fmt: skip
        self._end()

    def _start(self, kind: SublayerKind, name: str = "") -> None:
        """Ends the sublayer that is open, and starts another one, with the norms that it begins with."""
        self._end()
        self.kind, self.number = kind, self.number + (kind == "attention")
        self.recorder.start(name or f"{self.stack} {self.number} {kind}")
        for call in self.norms:
            self.read = [self._add_norm("norm", "z", self._known_source(call), call)]
        self.norms = []

    def _end(self) -> None:
        self.recorder.end(self.stack, self.number if self.kind in IN_LAYERS else None, self.kind)

    def _known_source(self, call: ModuleCall) -> Activation:
        source = self._source(call.source)
        if source is None:
            raise self._unknown(call)
        return source

    def _source(self, values: Tensor) -> Activation | None:
        """Returns the activation with these values: the nearest of those that a part may read, among them the residual
        stream with all that was added to it, which becomes the stream."""
        assert self.stream is not None
        read = (self.stream, *self.added, *self.read, *([self.memory] if self.memory else []))
        candidates = [one for one in read if one.values.shape == values.shape]
        distances = [float((one.values - values).abs().max()) for one in candidates]
        total = sum((one.values for one in self.added), self.stream.values)
        if self.added and total.shape == values.shape:
            distance = float((total - values).abs().max())
            if self._same(total, values) and distance < min(distances):
                self.stream = self._sum(values)
                return self.stream
        if not candidates or not self._same((best := candidates[distances.index(min(distances))]).values, values):
            return None
        return best

    def _sum(self, values: Tensor) -> Activation:
        """Adds the residual stream with what was added to it."""
        assert self.stream is not None
        terms = self.stream, *self.added
        about = _("what came in, and what the MLP adds to it")
        if self.kind in ("attention", "cross"):
            about = _("what came in, and what attention adds to it")
        self.added, self.read = [], []
        symbol = "x" if self._norms_first else "s"
        names = [f"O_{i}" if len(terms) > 2 else one.symbol for i, one in enumerate(terms)]
        formula = f"{symbol} = {' + '.join((terms[0].symbol, *names[1:]))}"
        return self.recorder.add("sum", symbol, formula, about, "add", terms, values, terms[0].rows)

    @property
    def _norms_first(self) -> bool:
        """Whether the layers of the model begin with a norm."""
        return all(call.kind == "norm" for block, call in self.opening.items() if block)

    def _same(self, ours: Tensor, theirs: Tensor) -> bool:
        """Returns whether tensors are equal but for rounding."""
        if ours.shape != theirs.shape:
            return False
        return not ours.numel() or float((ours - theirs).abs().max()) <= self.tolerance * float(theirs.abs().max())

    def _unknown(self, call: ModuleCall) -> ValueError:
        return _unknown(self.model, call.name or type(call.module).__name__)


class Vocabulary(Sequence[str]):
    """The texts of tokens of a vocabulary, each made when it is asked for."""

    def __init__(self, tokenizer: Any, ids: Sequence[int]) -> None:
        self.tokenizer, self.ids = tokenizer, ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        ids = self.ids[index]
        texts = tuple(
            token.text for token in vocabulary_tokens(self.tokenizer, [ids] if isinstance(ids, int) else [*ids])
        )
        return texts[0] if isinstance(ids, int) else texts


def _unknown(model: "LoadedModel", part: str) -> ValueError:
    return value_error(
        "{name} cannot be shown here: at “{part}” it computes something other than norms, attention with softmax and "
        "MLPs. Look at its attention on Explore.",
        name=model.name, part=part,
    )  # fmt: skip


def _joined(layer: Layer) -> Float[Tensor, "rows columns"]:
    """Returns the outputs of all heads of a layer side by side."""
    return layer.known_mechanism(layer.inputs).output.transpose(0, 1).flatten(1)


def _split(start: int, end: int, heads: int) -> HeadSplit:
    return lambda one: one[..., start:end].unflatten(-1, (heads, -1))


def _split_by_head(part: int, heads: int) -> HeadSplit:
    return lambda one: one.unflatten(-1, (heads, 3, -1))[..., part, :]


def _factor(before: Tensor, after: Tensor) -> float:
    """Returns the factor by which one tensor comes nearest to another."""
    return float((before * after).sum() / before.square().sum().clamp(min=1e-12))
