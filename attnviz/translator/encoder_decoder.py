"""A small encoder–decoder transformer whose attention is this library's Mechanism."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnviz.base.language import N_, value_error
from attnviz.biases import sinusoids
from attnviz.layer import LayerId
from attnviz.masks import Causal, Full
from attnviz.mechanism import Mechanism
from attnviz.scores import Additive, Dot, General, ScaledDot, Score
from attnviz.translator.lexicon import ENGLISH, FRENCH

LAYERS, HEADS, D_MODEL, D_FF, HIDDEN = 2, 4, 64, 128, 32
MAX_POSITIONS = 24  # positions that the decoder has; the longest translation of the grammar takes fewer
POSITIONS = sinusoids(MAX_POSITIONS, D_MODEL)
PAD, START, END = 0, 1, 2
Vectors = Float[Tensor, "batch tokens width"]
Memory = Float[Tensor, "batch keys width"]
SOURCE_VOCABULARY = ("<pad>", *ENGLISH)
TARGET_VOCABULARY = ("<pad>", "<start>", "<end>", *FRENCH)
VARIANTS: dict[str, type[Score]] = {"scaled dot": ScaledDot, "dot": Dot, "general": General, "additive": Additive}
FIXED_VECTOR = "fixed vector"  # the model whose decoder sees one vector for the whole sentence, for comparison


def score_class(variant: str) -> type[Score]:
    """Returns the class of the score of a variant, or of FIXED_VECTOR. Raises ValueError if there is no such variant.

    Example:
        >>> score_class("dot").__name__
        'Dot'
    """
    if variant == FIXED_VECTOR:
        return ScaledDot
    if variant not in VARIANTS:
        raise value_error(
            "The translator's variants are {variants}; {variant} is not one.",
            variants=", ".join(VARIANTS),
            variant=repr(variant),
        )
    return VARIANTS[variant]


Use = Literal["encoder", "decoder", "cross"]
USES: dict[Use, str] = {
    "encoder": N_("Encoder self-attention"),
    "decoder": N_("Decoder self-attention"),
    "cross": N_("Encoder–decoder attention"),
}


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The queries, keys, values and weights of one attention in a forward pass."""

    id: LayerId
    use: Use
    mechanism: Mechanism
    query: Float[Tensor, "batch heads queries d"]
    key: Float[Tensor, "batch heads keys d"]
    value: Float[Tensor, "batch heads keys d"]
    weights: Float[Tensor, "batch heads queries keys"]

    @property
    def is_causal(self) -> bool:
        """Whether no query gives weight to a key after it."""
        after = torch.ones_like(self.weights, dtype=torch.bool).triu(1)
        return not bool((self.weights[after] > 0).any())


@dataclass
class KeyValueCache:
    """The keys and values of the words decoded before, so that each word is computed once."""

    length: int = 0
    layers: dict[LayerId, tuple[Tensor, Tensor]] = field(default_factory=dict)


@dataclass
class ForwardPass:
    """The settings of a forward pass, and the records that it fills."""

    lengths: Int[Tensor, " batch"] | None = None  # English words of each example, where some have fewer than others
    cache: KeyValueCache | None = None
    records: list[AttentionRecord] | None = None  # of every attention, in the order in which they run


class LearnedScore(nn.Module):
    """A score with learned parameters, if it has any."""

    def __init__(self, kind: type[Score], width: int) -> None:
        super().__init__()
        self.kind = kind
        seed = int(torch.randint(10_000, ()))
        if kind is General:
            self.weight = nn.Parameter(General(seed=seed).matrix(width, width).clone())
        elif kind is Additive:
            matrices = Additive(hidden=HIDDEN, seed=seed).matrices(width, width)
            for name, matrix in zip(("query_weight", "key_weight", "vector"), matrices, strict=True):
                self.register_parameter(name, nn.Parameter(matrix.clone()))

    def forward(self) -> Score:
        """Returns the score with the current parameters."""
        return self.kind(**dict(self.named_parameters()))


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, 3.2.2) in one of its three uses."""

    def __init__(self, use: Use, layer: int, score: type[Score] = ScaledDot) -> None:
        super().__init__()
        self.use, self.layer = use, layer
        self.id = LayerId("encoder" if use == "encoder" else "decoder", layer, cross=use == "cross")
        self.query, self.key, self.value, self.output = (nn.Linear(D_MODEL, D_MODEL) for _ in range(4))
        self.similarity = LearnedScore(score, D_MODEL // HEADS)

    def mechanism(self) -> Mechanism:
        """Returns how it attends, with its current parameters."""
        return Mechanism(self.similarity(), mask=Causal() if self.use == "decoder" else Full())

    def forward(self, vectors: Vectors, forward_pass: ForwardPass, memory: Memory | None = None) -> Vectors:
        """Returns the output of attention to the memory, or to the vectors themselves and the cached ones before
        them."""
        start = forward_pass.cache.length if forward_pass.cache else 0
        query = _split_heads(self.query(vectors))
        key, value = self._keys_and_values(vectors if memory is None else memory, forward_pass.cache)
        queries, keys = start + query.shape[-2], key.shape[-2]
        mechanism = self.mechanism()
        bound = mechanism.bind(queries, keys, HEADS)
        b, h, k = torch.arange(len(query))[:, None, None, None], torch.arange(HEADS)[:, None, None], torch.arange(keys)
        positions = (b, h, torch.arange(start, queries)[:, None], k)
        allowed = bound.mask(*positions)
        if forward_pass.lengths is not None and self.use != "decoder":
            allowed = allowed & (k < forward_pass.lengths[b])
        attention = bound.stages(query, key, value, allowed, positions)
        if forward_pass.records is not None:
            forward_pass.records.append(
                AttentionRecord(self.id, self.use, mechanism, query, key, value, attention.weights)
            )
        return self.output(attention.output.transpose(-3, -2).flatten(-2))

    def _keys_and_values(self, vectors: Tensor, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
        if cache is None or self.use == "encoder":
            return _split_heads(self.key(vectors)), _split_heads(self.value(vectors))
        if self.use == "decoder" or self.id not in cache.layers:  # the encoder's words stay what they are
            key, value = _split_heads(self.key(vectors)), _split_heads(self.value(vectors))
            if self.id in cache.layers:
                keys, values = cache.layers[self.id]
                key, value = torch.cat([keys, key], -2), torch.cat([values, value], -2)
            cache.layers[self.id] = key, value
        return cache.layers[self.id]


def _split_heads(vectors: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch heads tokens d"]:
    return vectors.unflatten(-1, (HEADS, -1)).transpose(-3, -2)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, both pre-norm with residual connections."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention("encoder", layer)
        self.inner = _network()
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(2))

    def forward(self, vectors: Vectors, forward_pass: ForwardPass) -> Vectors:
        vectors = vectors + self.attention(self.norms[0](vectors), forward_pass)
        return vectors + self.inner(self.norms[1](vectors))


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the encoder's output, and a feed-forward network (pre-norm)."""

    def __init__(self, layer: int, score: type[Score]) -> None:
        super().__init__()
        self.attention = MultiHeadAttention("decoder", layer)
        self.cross = MultiHeadAttention("cross", layer, score)
        self.inner = _network()
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(3))

    def forward(self, vectors: Vectors, forward_pass: ForwardPass, memory: Memory) -> Vectors:
        vectors = vectors + self.attention(self.norms[0](vectors), forward_pass)
        vectors = vectors + self.cross(self.norms[1](vectors), forward_pass, memory)
        return vectors + self.inner(self.norms[2](vectors))


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(D_MODEL, D_FF), nn.ReLU(), nn.Linear(D_FF, D_MODEL))


class Transformer(nn.Module):
    """An encoder–decoder transformer (Vaswani et al. 2017) with pre-norm layers. Its inputs are word ids.

    With `fixed_vector`, the memory is one vector, the mean of the encoder's output: it has the same size for every
    sentence, as in the models before attention (Sutskever et al. 2014, Cho et al. 2014). All else is the same.
    """

    def __init__(self, score: type[Score] = ScaledDot, *, fixed_vector: bool = False) -> None:
        super().__init__()
        self.fixed_vector = fixed_vector
        self.english = nn.Embedding(len(SOURCE_VOCABULARY), D_MODEL)
        self.french = nn.Embedding(len(TARGET_VOCABULARY), D_MODEL)
        self.encoder = nn.ModuleList(EncoderLayer(i) for i in range(LAYERS))
        self.decoder = nn.ModuleList(DecoderLayer(i, score) for i in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(2))
        for words in (self.english, self.french):
            nn.init.normal_(words.weight, std=D_MODEL**-0.5)

    def encode(self, english: Int[Tensor, "batch words"], forward_pass: ForwardPass) -> Memory:
        """Returns the memory of the decoder: the output of the encoder, a vector for each word or one for all."""
        vectors = self.english(english) * D_MODEL**0.5 + POSITIONS[: english.shape[1]]
        for layer in self.encoder:
            vectors = layer(vectors, forward_pass)
        memory = self.norms[0](vectors)
        return _mean(memory, forward_pass.lengths) if self.fixed_vector else memory

    def decode(
        self, french: Int[Tensor, "batch words"], memory: Memory, forward_pass: ForwardPass
    ) -> Float[Tensor, "batch new scores"]:
        """Returns the logits of the next word at each position; with a cache, `french` are the new words only."""
        start = forward_pass.cache.length if forward_pass.cache else 0
        vectors = self.french(french[:, start:]) * D_MODEL**0.5 + POSITIONS[start : french.shape[1]]
        for layer in self.decoder:
            vectors = layer(vectors, forward_pass, memory)
        if forward_pass.cache:
            forward_pass.cache.length = french.shape[1]
        return self.norms[1](vectors) @ self.french.weight.T


def _mean(memory: Memory, lengths: Int[Tensor, " batch"] | None) -> Memory:
    """Returns the mean of each sentence's vectors, without padding."""
    if lengths is None:
        return memory.mean(1, keepdim=True)
    present = torch.arange(memory.shape[1]) < lengths[:, None]
    return (memory * present[..., None]).sum(1, keepdim=True) / lengths[:, None, None]


def create_model(variant: str) -> Transformer:
    """Returns an untrained model of a variant, or of FIXED_VECTOR. Raises ValueError if there is no such variant.

    Example:
        >>> create_model("fixed vector").fixed_vector
        True
    """
    return Transformer(score_class(variant), fixed_vector=variant == FIXED_VECTOR)
