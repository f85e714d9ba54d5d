"""The activations of a transformers model: an encoder such as all-MiniLM-L6-v2, a decoder such as SmolLM2, or both,
such as the translator.

They are what its modules returned, in their order. Where a module's input comes from is found by its numbers: it is
what a module before it returned, or the residual stream with what was added to it meanwhile. So the order of norms,
attention and MLPs is the model's own, and what does not follow from the parts that are shown is refused. The writers of
an attribution would not do: projections before their rotation, norms, gates and sums are not among them, and its layer
norms are computed in another way than the model's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnviz.base.language import N_, _, value_error
from attnviz.base.token_texts import vocabulary_tokens
from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, Layer
from attnviz.mechanism import Attention
from attnviz.pages.transformer.activation import Activation, ActivationRecord, Sublayer, SublayerKind
from attnviz.pages.transformer.module_calls import ModuleCall, recorded_calls
from attnviz.pages.transformer.recognition import Recognition, factor
from attnviz.pages.transformer.recorder import PROJECTIONS, ActivationRecorder, joined_heads
from attnviz.tracing import capture

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

MOST_TOKENS = 24  # that can be told apart in a picture
TOLERANCE = 1e-5  # in float32
EMBEDDINGS = {  # of a token, by what the names of their modules have in them, in the order of their sum
    "words": ("E", (), N_("the learned vector of each token")),
    "positions": ("P", ("position", "wpe"), N_("the vector of each position")),
    "segments": ("T", ("token_type",), N_("a learned vector: all tokens are of the first text")),
}
ABOUT_MEMORY = N_("what the encoder gives to the decoder")
IN_LAYERS = ("attention", "cross", "network")  # kinds of sublayers


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
        return _record(model, trace, sequences, calls)


def _record(
    model: "LoadedModel", trace: Sequence[Layer], sequences: Mapping[str, tuple[str, ...]], calls: Sequence[ModuleCall]
) -> ActivationRecord:
    """Returns the activations of all calls; `sequences` are the tokens that each stack of layers reads."""
    parts: list[list[ModuleCall]] = [[]]
    for call in calls:
        if parts[-1] and parts[-1][-1].kind != "embedding" and _is_of_words(model, call):
            parts.append([])
        parts[-1].append(call)
    if len(parts) != len(sequences):
        raise _unknown(model, type(model.model).__name__)
    recorder = ActivationRecorder()
    recognition = Recognition(max(TOLERANCE, 2 * torch.finfo(model.model.dtype).eps))
    layers = [(layer, layer.known_mechanism(layer.inputs)) for layer in trace]
    logits = next((call.output[-1] for call in calls if call.kind == "model"), None)
    # Some tokens have no probability.
    token_ids = slice(None) if logits is None or bool(logits.isfinite().all()) else logits.isfinite().nonzero()[:, 0]
    memory: Activation | None = None
    for (name, tokens), part in zip(sequences.items(), parts, strict=True):
        stack = _Stack(model, recorder, recognition, layers, name, tokens, name != [*sequences][-1], memory, token_ids)
        memory = stack.output_of(part)
    own = recorder.sublayers[-1].output.values
    if layers or (logits is not None and not recognition.same(own, logits[None, token_ids])):
        raise _unknown(model, calls[-1])  # some models scale or cap their logits
    return ActivationRecord(tuple(recorder.sublayers), trace[0].inputs.heads)


@dataclass
class _Stack:
    """Adds what each call of a module in a stack of layers has computed, and from what."""

    model: "LoadedModel"
    recorder: ActivationRecorder
    recognition: Recognition
    layers: list[tuple[Layer, Attention]]  # whose attention is still to come, in this stack or a later one
    name: str
    tokens: tuple[str, ...]
    gives_memory: bool  # to a decoder
    memory: Activation | None  # what an encoder has given to this stack
    token_ids: slice | Tensor  # that have logits
    stream: Activation = field(init=False)  # the residual stream
    norms_first: bool = field(init=False)  # all layers begin with a norm
    number: int = -1  # of the layer
    added: list[Activation] = field(default_factory=list)  # what has been added to the stream meanwhile
    read: list[Activation] = field(default_factory=list)  # norms, which several sublayers may read
    norms: list[ModuleCall] = field(default_factory=list)  # whose sublayer begins with the next linear map
    inputs: list[ModuleCall] = field(default_factory=list)  # linear maps whose output another part reads
    head_norms: list[ModuleCall] = field(default_factory=list)  # of the queries or the keys of each head

    def output_of(self, calls: Sequence[ModuleCall]) -> Activation:
        """Adds the activations of all calls; returns the last state of the residual stream."""
        others = [call for call in calls if call.kind in ("norm", "linear")]
        if not others:
            raise _unknown(self.model, self.name)
        opening = {call.block: call for call in reversed(others) if call.block}
        self.norms_first = all(call.kind == "norm" for call in opening.values())
        self._embed([call for call in calls if call.kind == "embedding"], others[0])
        for call in others:
            if call.kind == "norm":
                self._norm(call)
            elif call.module is self.model.model.get_output_embeddings():
                self._logits(call)
            elif call.block:  # poolers are not shown
                self._linear(call)
        if self.inputs or self.norms:
            raise _unknown(self.model, (self.inputs or self.norms)[-1])
        if self.gives_memory and self._kind != "output":
            self._start("output", "memory")
            self.stream = self.recorder.sum("vectors", "M", _(ABOUT_MEMORY), self.stream)
        return self.stream

    def _embed(self, calls: Sequence[ModuleCall], first: ModuleCall) -> None:
        self._start("embedding", f"{self.name} embedding")
        terms = {self._embedding(call): call.output for call in calls}
        words, total = terms.get("words"), first.source
        if words is None or total.shape != words.shape:
            raise _unknown(self.model, first)
        if len(terms) == 1 and not self.recognition.same(words, total):
            terms["words"] = words * factor(words, total)  # such as √d
        added = [
            self.recorder.input(part, symbol, _(about), terms[part].expand_as(words), self.tokens)
            for part, (symbol, _marks, about) in EMBEDDINGS.items()
            if part in terms
        ]
        self.stream = added[0]
        if len(added) > 1:
            symbol = "x" if first.block else "s"
            self.stream = self.recorder.sum("sum", symbol, _("each token at its position"), *added)
        if not self.recognition.same(self.stream.values, total):
            raise _unknown(self.model, first)

    def _embedding(self, call: ModuleCall) -> str:
        if _is_of_words(self.model, call):
            return "words"
        for part, (_symbol, marks, _about) in EMBEDDINGS.items():
            if any(mark in call.name for mark in marks):
                return part
        raise _unknown(self.model, call)

    def _norm(self, call: ModuleCall) -> None:
        if call.source.ndim == 3:
            self.head_norms.append(call)
            return
        source = self._source(call)
        is_in_embedding = self._kind == "embedding" and not call.block
        if source in self.added:
            self.added[self.added.index(source)] = self._add_norm("output norm", "N", source, call)
        elif is_in_embedding or (call.block and not self.norms_first and source.operation == "add"):
            self.stream = self._add_norm("norm", "x", source, call)
        elif call.block:
            self.norms.append(call)
        elif self.gives_memory:
            self._start("output", "memory")
            self.stream = self._add_norm("vectors", "M", source, call, about=_(ABOUT_MEMORY))
        else:
            self._start("output", "output")
            self.stream = self._add_norm("norm", "z", source, call)

    def _add_norm(self, part: str, symbol: str, source: Activation, call: ModuleCall, about: str = "") -> Activation:
        """Adds a layer norm, or an RMS norm, which does not subtract the mean."""
        known = self.recognition.norm(source.values, call)
        if known is None:
            raise _unknown(self.model, call)
        gain, is_centered = known
        if is_centered:
            about = about or _("each row has mean 0 and spread 1, then its own scale")
            bias = "" if call.bias is None else " + β"
            formula = f"{symbol} = LayerNorm({source.symbol}) = γ · ({source.symbol} − μ) / σ{bias}"
        else:
            about = about or _("each row has the root mean square 1, then its own scale")
            formula = f"{symbol} = RMSNorm({source.symbol}) = γ · {source.symbol} / RMS"
        return self.recorder.add(
            part, symbol, formula, about, "norm", (source,), call.output, source.rows, weight=gain, bias=call.bias,
            shared=source.shared,
        )  # fmt: skip

    def _linear(self, call: ModuleCall) -> None:
        if self.layers and self.recognition.same(joined_heads(self.layers[0][1]), call.source):
            self._attention(call, *self.layers.pop(0))
        elif any(torch.equal(norm.output, call.source) for norm in self.norms) or self._known(call.source):
            self.inputs.append(call)
            return
        else:
            self._network(call)
        self.inputs, self.head_norms = [], []

    def _attention(self, call: ModuleCall, layer: Layer, attention: Attention) -> None:
        """Adds multi-head attention whose outputs a linear map reads."""
        self._start("cross" if layer.id.cross else "attention")
        inputs = layer.inputs
        assert isinstance(inputs, Inputs)
        vectors = inputs.query.float(), inputs.key.float(), inputs.value.float()
        known = self.recognition.projections(self.inputs, self.head_norms, vectors)
        if known is None:
            raise _unknown(self.model, call)
        made = []
        for (part, (letter, about)), (one, _norm) in zip(PROJECTIONS.items(), known, strict=True):
            shared, source = inputs.heads // one.output.shape[1], self._source(one)
            made.append(self.recorder.linear(part, letter, f"W^{letter}", _(about), source, one, shared=shared))
        for i, (_one, norm) in enumerate(known):
            if norm is not None:
                made[i] = self._add_norm(f"normed {made[i].part}", f"{made[i].symbol}_N", made[i], norm)
        made[:2] = [self._rotated(one, own) for one, own in zip(made[:2], vectors[:2], strict=True)]
        query, key = made[0].values, made[1].values
        scores = query @ key.repeat_interleave(len(query) // len(key), 0).transpose(1, 2) / query.shape[-1] ** 0.5
        allowed = attention.allowed.expand_as(scores)
        if not (
            self.recognition.same(attention.scores[allowed], scores[allowed])
            and self.recognition.same(attention.weights, attention.scores.softmax(-1).nan_to_num())
        ):
            raise _unknown(self.model, call)
        concat = self.recorder.weighted_values(made, attention)
        self._add_output("W^O", _("the heads, mixed"), concat, call)

    def _rotated(self, projected: Activation, own: Tensor) -> Activation:
        """Adds the rotation of queries or keys by their positions, if the model rotates them."""
        rotated = self.recognition.rotated_columns(projected.values, own)
        if not rotated:
            return projected
        symbol, part = f"{projected.symbol[0]}_R", projected.part.removeprefix("normed ")
        return self.recorder.add(
            f"rotated {part}", symbol, f"{symbol} = R {projected.symbol}",
            _("turned by angles that grow with the position"), "rotation", (projected,), own, projected.rows,
            shared=projected.shared, rotated=rotated,
        )  # fmt: skip

    def _network(self, call: ModuleCall) -> None:
        """Adds an MLP, whose hidden units a linear map reads."""
        self._start("network")
        maps, width = self.inputs, call.source.shape[-1]
        if len(maps) == 1 and maps[0].output.shape[-1] == 2 * width:
            maps = [maps[0].part(lambda one: one[..., :width]), maps[0].part(lambda one: one[..., width:])]
        known = self.recognition.hidden_units(maps, call.source)
        if known is None:
            raise _unknown(self.model, call)
        function, values, (first, *others) = known
        about = _("each token by itself, in a wider space; negative numbers become almost 0")
        if function == "ReLU":
            about = _("each token by itself, in a wider space; negative numbers become 0")
        add = self.recorder.linear
        if others:
            gate = add("gate", "G", "W^G", about, self._source(first), first, values, function)
            wide = _("each token by itself, in a wider space")
            up = add("up", "U", "W^U", wide, self._source(others[0]), others[0])
            hidden = self.recorder.add(
                "hidden", "F", "F = G · U", _("each number times that of the gate"), "product", (gate, up), call.source,
                gate.rows,
            )  # fmt: skip
        else:
            hidden = add("hidden", "F", "W^1", about, self._source(first), first, call.source, function)
        self._add_output("W^2", _("back to the width of the model"), hidden, call)

    def _add_output(self, matrix: str, about: str, source: Activation, call: ModuleCall) -> None:
        self.added.append(self.recorder.linear("output", "O", matrix, about, source, call))

    def _logits(self, call: ModuleCall) -> None:
        """Adds the logits of the next token."""
        if not self.recognition.same(self.stream.values[-1:], call.source[-1:]):
            raise _unknown(self.model, call)
        if self._kind != "output":
            self._start("output", "output")
        is_tied = call.module.weight is self.model.model.get_input_embeddings().weight
        about = _("how well the last row fits each token of the vocabulary")
        words = Vocabulary(self.model.tokenizer, torch.arange(call.output.shape[-1])[self.token_ids].tolist())
        one = call.part(lambda one: one[..., self.token_ids])
        self.recorder.linear(
            "logits", "logits", "E^T" if is_tied else "W^E", about, self.stream, one, one.output[-1:], columns=words
        )

    def _start(self, kind: SublayerKind, name: str = "") -> None:
        """Starts a sublayer, with the norms that it begins with."""
        self.number += kind == "attention"
        layer = self.number if kind in IN_LAYERS else None
        self.recorder.sublayers.append(Sublayer(name or f"{self.name} {layer} {kind}", self.name, layer, kind))
        for call in self.norms:
            self.read = [self._add_norm("norm", "z", self._source(call), call)]
        self.norms = []

    @property
    def _kind(self) -> SublayerKind:
        return self.recorder.sublayers[-1].kind

    def _source(self, call: ModuleCall) -> Activation:
        """Returns what a module reads."""
        source = self._known(call.source)
        if source is None:
            raise _unknown(self.model, call)
        return source

    def _known(self, values: Tensor) -> Activation | None:
        """Returns the activation with these values: the nearest of those that a part may read, among them the residual
        stream with all that was added to it, which becomes the stream."""
        read = (self.stream, *self.added, *self.read, *([self.memory] if self.memory else []))
        options: list[tuple[Tensor, Activation | None]] = [(one.values, one) for one in read]
        if self.added:
            options.append((sum((one.values for one in self.added), self.stream.values), None))
        near = [
            (float((one - values).abs().max()), one, source) for one, source in options if one.shape == values.shape
        ]
        _distance, numbers, source = min(near, key=lambda one: one[0], default=(0, values[:0], None))
        if not self.recognition.same(numbers, values):
            return None
        return source or self._sum(values)

    def _sum(self, values: Tensor) -> Activation:
        """Adds the residual stream with what was added to it."""
        about = _("what came in, and what the MLP adds to it")
        if self._kind in ("attention", "cross"):
            about = _("what came in, and what attention adds to it")
        symbol = "x" if self.norms_first else "s"
        self.stream = self.recorder.sum("sum", symbol, about, self.stream, *self.added, values=values)
        self.added, self.read = [], []
        return self.stream


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


def _unknown(model: "LoadedModel", part: ModuleCall | str) -> ValueError:
    if isinstance(part, ModuleCall):
        part = part.name or type(part.module).__name__
    return value_error(
        "{name} cannot be shown here: at “{part}” it computes something other than norms, attention with softmax and "
        "MLPs. Look at its attention on Explore.",
        name=model.name, part=part,
    )  # fmt: skip


def _is_of_words(model: "LoadedModel", call: ModuleCall) -> bool:
    return call.kind == "embedding" and call.module.weight is model.model.get_input_embeddings().weight
