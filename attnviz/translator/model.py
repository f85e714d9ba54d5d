"""A small transformer that translates, all of whose attention is this project's Mechanism."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnviz.layer import LayerId
from attnviz.masks import Causal, Full
from attnviz.mechanism import Mechanism
from attnviz.models.interventions import Intervention, intervene
from attnviz.positional_encodings import sinusoids
from attnviz.scores import Additive, Dot, General, ScaledDot, Score
from attnviz.translator.lexicon import ENGLISH, FRENCH

LAYERS, HEADS, WIDTH, INNER, HIDDEN = 2, 4, 64, 128, 32
LIMIT = 24  # positions that the decoder has; the longest translation of the grammar takes fewer
POSITIONS = sinusoids(LIMIT, WIDTH)
PAD, START, END = 0, 1, 2
SOURCE = ("<pad>", *ENGLISH)
TARGET = ("<pad>", "<start>", "<end>", *FRENCH)
VARIANTS: dict[str, type[Score]] = {"scaled dot": ScaledDot, "dot": Dot, "general": General, "additive": Additive}


def score_of(variant: str) -> type[Score]:
    """The score of a variant. Raises ValueError, in words, where there is none of that name."""
    if variant not in VARIANTS:
        raise ValueError(f"The translator's variants are {', '.join(VARIANTS)}; {variant!r} was asked for.")
    return VARIANTS[variant]


Use = Literal["encoder", "decoder", "cross"]


# The positions of the layers of each use, in the order in which they run: two of the encoder, then in each decoder
# layer self-attention and cross-attention.
USE_LAYERS: dict[Use, tuple[int, ...]] = {
    "encoder": tuple(range(LAYERS)),
    "decoder": tuple(LAYERS + 2 * i for i in range(LAYERS)),
    "cross": tuple(LAYERS + 2 * i + 1 for i in range(LAYERS)),
}


@dataclass(frozen=True, eq=False)
class Ran:
    """One attention as it ran."""

    id: LayerId
    use: Use
    mechanism: Mechanism
    query: Float[Tensor, "batch heads queries d"]
    key: Float[Tensor, "batch heads keys d"]
    value: Float[Tensor, "batch heads keys d"]
    weights: Float[Tensor, "batch heads queries keys"]

    @property
    def looks_back(self) -> bool:
        """Whether no query sees a key after it."""
        after = torch.ones_like(self.weights, dtype=torch.bool).triu(1)
        return not bool((self.weights[after] > 0).any())


@dataclass
class Cache:
    """The keys and values of what was decoded before, so that each word is computed once."""

    length: int = 0
    kept: dict[LayerId, tuple[Tensor, Tensor]] = field(default_factory=dict)


@dataclass
class Pass:
    """What one pass through the model is told, and what it leaves behind."""

    interventions: Sequence[Intervention] = ()
    lengths: Int[Tensor, " batch"] | None = None  # English words of each example, where some have fewer than others
    cache: Cache | None = None
    ran: list[Ran] | None = None


class Similarity(nn.Module):
    """A score whose weights, if it has any, are learned."""

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
        """The score with its weights as they are now."""
        return self.kind(**dict(self.named_parameters()))


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, 3.2.2) in one of its three uses."""

    def __init__(self, use: Use, layer: int, score: type[Score] = ScaledDot) -> None:
        super().__init__()
        self.use, self.layer = use, layer
        self.id = LayerId("encoder" if use == "encoder" else "decoder", layer, cross=use == "cross")
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.similarity = Similarity(score, WIDTH // HEADS)

    def mechanism(self, interventions: Sequence[Intervention] = ()) -> Mechanism:
        """Returns how it attends under the interventions."""
        trained = Mechanism(self.similarity(), mask=Causal() if self.use == "decoder" else Full())
        return intervene(trained, interventions, USE_LAYERS[self.use][self.layer])

    def forward(
        self,
        vectors: Float[Tensor, "batch queries width"],
        told: Pass,
        memory: Float[Tensor, "batch keys width"] | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """What the vectors gather from the memory, or from themselves and what the cache has of them."""
        start = told.cache.length if told.cache else 0
        query = _heads(self.query(vectors))
        key, value = self._keys_and_values(vectors if memory is None else memory, told.cache)
        queries, keys = start + query.shape[-2], key.shape[-2]
        mechanism = self.mechanism(told.interventions)
        bound = mechanism.bind(queries, keys, HEADS)
        b, h, k = torch.arange(len(query))[:, None, None, None], torch.arange(HEADS)[:, None, None], torch.arange(keys)
        at = (b, h, torch.arange(start, queries)[:, None], k)
        allowed = bound.mask(*at)
        if told.lengths is not None and self.use != "decoder":
            allowed = allowed & (k < told.lengths[b])
        done = bound.stages(query, key, value, allowed, at)
        if told.ran is not None:
            told.ran.append(Ran(self.id, self.use, mechanism, query, key, value, done.weights))
        return self.output(done.output.transpose(-3, -2).flatten(-2))

    def _keys_and_values(self, vectors: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        if cache is None or self.use == "encoder":
            return _heads(self.key(vectors)), _heads(self.value(vectors))
        if self.use == "decoder" or self.id not in cache.kept:  # the encoder's words stay what they are
            key, value = _heads(self.key(vectors)), _heads(self.value(vectors))
            if self.id in cache.kept:
                keys, values = cache.kept[self.id]
                key, value = torch.cat([keys, key], -2), torch.cat([values, value], -2)
            cache.kept[self.id] = key, value
        return cache.kept[self.id]


def _heads(vectors: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch heads tokens d"]:
    return vectors.unflatten(-1, (HEADS, -1)).transpose(-3, -2)


class EncoderLayer(nn.Module):
    """Attention, then a small network for each position; each reads what was normalized and adds to what was."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.attention = Attention("encoder", layer)
        self.inner = _network()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, vectors: Float[Tensor, "batch tokens width"], told: Pass) -> Float[Tensor, "batch tokens width"]:
        vectors = vectors + self.attention(self.norms[0](vectors), told)
        return vectors + self.inner(self.norms[1](vectors))


class DecoderLayer(nn.Module):
    """As a layer of the encoder, with a second attention, to what the encoder made."""

    def __init__(self, layer: int, score: type[Score]) -> None:
        super().__init__()
        self.attention = Attention("decoder", layer)
        self.cross = Attention("cross", layer, score)
        self.inner = _network()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(
        self, vectors: Float[Tensor, "batch tokens width"], told: Pass, memory: Float[Tensor, "batch keys width"]
    ) -> Float[Tensor, "batch tokens width"]:
        vectors = vectors + self.attention(self.norms[0](vectors), told)
        vectors = vectors + self.cross(self.norms[1](vectors), told, memory)
        return vectors + self.inner(self.norms[2](vectors))


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH))


class Transformer(nn.Module):
    """An encoder–decoder after Vaswani et al. 2017, whose layers normalize first; words are numbers here."""

    def __init__(self, score: type[Score] = ScaledDot) -> None:
        super().__init__()
        self.english = nn.Embedding(len(SOURCE), WIDTH)
        self.french = nn.Embedding(len(TARGET), WIDTH)
        self.encoder = nn.ModuleList(EncoderLayer(i) for i in range(LAYERS))
        self.decoder = nn.ModuleList(DecoderLayer(i, score) for i in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        for words in (self.english, self.french):
            nn.init.normal_(words.weight, std=WIDTH**-0.5)

    def encode(self, english: Int[Tensor, "batch words"], told: Pass) -> Float[Tensor, "batch words width"]:
        vectors = self.english(english) * WIDTH**0.5 + POSITIONS[: english.shape[1]]
        for layer in self.encoder:
            vectors = layer(vectors, told)
        return self.norms[0](vectors)

    def decode(
        self, french: Int[Tensor, "batch words"], memory: Float[Tensor, "batch keys width"], told: Pass
    ) -> Float[Tensor, "batch new scores"]:
        """Scores of the word that comes next, after each of these; with a cache, after each that is not in it."""
        start = told.cache.length if told.cache else 0
        vectors = self.french(french[:, start:]) * WIDTH**0.5 + POSITIONS[start : french.shape[1]]
        for layer in self.decoder:
            vectors = layer(vectors, told, memory)
        if told.cache:
            told.cache.length = french.shape[1]
        return self.norms[1](vectors) @ self.french.weight.T
