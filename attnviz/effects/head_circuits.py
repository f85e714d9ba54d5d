"""Heads as circuits on the vocabulary and on each other, by their weights alone, without a text.

A head writes with W_O W_V, its OV circuit, and chooses what it looks at with W_Qᵀ W_K, its QK circuit (Elhage et al.
2021, "A Mathematical Framework for Transformer Circuits"). Scales of norms depend on a text, so that the circuits are
known up to a positive factor, on which no number here depends. Products of all tokens with all tokens are never in
memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from attnviz.attribution.linearized_pass import NO_HEAD, NO_LAYER, check_place
from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_, value_error
from attnviz.effects.linear_maps import TOLERANCE, LayerMaps, LinearMaps, linear_maps

Composition: TypeAlias = Literal["query", "key", "value"]
TokenVectors: TypeAlias = Literal["embedding", "first layer"]
BLOCK = 64  # vectors of the vocabulary's length that are in memory at a time


@dataclass(frozen=True, eq=False)
class HeadCircuits:
    """The circuits of all heads of a model. Layers are counted as they run; `tokens` is what each token is in the
    residual stream: its embedding, or what the first layer makes of it, which later layers then read."""

    maps: LinearMaps
    tokens: Float[Tensor, "vocabulary width"]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of layers, and the largest number of heads of a layer."""
        return len(self.maps.layers), max(layer.heads for layer in self.maps.layers)

    # OV: what a head writes

    def writes(self, layer: int, head: int, token: int) -> Float[Tensor, " vocabulary"]:
        """Returns the change of the logit of each token by a head that looks at a token, in standard deviations from
        the mean of all tokens. Raises ValueError if there is no such head or token, or if the head writes to no
        logits."""
        self.check_token(token)
        return _standard(self._written(layer, head, torch.tensor([token]))[0])

    def own_ranks(self, layer: int, head: int, tokens: Int[Tensor, " tokens"]) -> Int[Tensor, " tokens"]:
        """Returns the rank of each token among all that a head raises when it looks at this token: 0 if it raises no
        other one more, and the size of the vocabulary less 1 if it lowers no other one more. Raises ValueError as
        `writes` does."""
        ranks = []
        for block in tokens.split(BLOCK):
            written = self._written(layer, head, block)
            ranks.append((written > written.gather(1, block[:, None])).sum(1))
        return torch.cat(ranks)

    @cached_property
    def copying(self) -> Float[Tensor, "layers heads"]:
        """The sum of the eigenvalues of each OV circuit on the vocabulary, divided by the sum of their absolute values:
        1 if a head raises the logits of the tokens that it looks at, and combinations of them, −1 if it lowers them
        (Elhage et al. 2021). NaN where a head writes to no logits.

        Logits are taken without their mean over the vocabulary, on which probabilities do not depend. Raises ValueError
        if the model has no logits."""
        self.check_logits()
        first = self._products(self.maps.embedding)
        later = first if self.tokens is self.maps.embedding else self._products(self.tokens)
        scores = torch.full(self.shape, torch.nan)
        for i, layer in enumerate(self.maps.layers):
            if layer.output_stream == self.maps.logits_stream:
                # The nonzero eigenvalues of a product of matrices are those of the product in another order.
                small = layer.of_heads(layer.value) @ (later if i else first) @ layer.output
                values = torch.linalg.eigvals(small.double())
                scores[i, : layer.heads] = values.real.sum(-1) / values.abs().sum(-1)
        return scores

    def directions(self, tokens: Int[Tensor, " tokens"]) -> Float[Tensor, "tokens width"]:
        """Returns the direction of the residual stream that raises the logit of each token. Raises ValueError if the
        model has no logits."""
        self.check_logits()
        count = len(self.tokens)
        return torch.cat([self.maps.gradients(one_hot(block, count).float()) for block in tokens.split(BLOCK)])

    # QK: what a head looks at

    def preferred_keys(self, layer: int, head: int, token: int) -> Float[Tensor, " vocabulary"]:
        """Returns the score that a query token gives to each token as its key, at distance 0 and without what is added
        for positions, in standard deviations from the mean of all tokens.

        Each token is normalized by its own scale, as norms do but for their epsilon. Raises ValueError if there is no
        such head or token, and if the layer normalizes its keys once more.
        """
        self.check_token(token)
        maps, tokens = self._layer_of(layer, head), self._vectors(layer)
        if maps.normalizes_keys:
            raise value_error(
                "{layer} normalizes its keys once more, so which tokens it prefers is not known from its weights "
                "alone. Choose another model.",
                layer=maps.id,
            )
        key = maps.of_heads(maps.key)[head]
        # A norm that takes the mean away divides by the standard deviation.
        is_centered = key.sum(-1).norm() < TOLERANCE * key.norm()
        rest = tokens - tokens.mean(-1, keepdim=True) if is_centered else tokens
        scales = rest.square().mean(-1).sqrt().clamp(min=torch.finfo(tokens.dtype).tiny)
        return _standard(tokens @ (key.T @ (maps.query[head] @ tokens[token])) / scales)

    # Composition

    def composition(self, kind: Composition, layer: int, head: int) -> Float[Tensor, "layers heads"]:
        """Returns the composition of a head with each other one: those of earlier layers write what it reads as its
        query, key or value, and those of later layers read so what it writes.

        It is ‖W₂ W_OV‖ / (‖W₂‖ ‖W_OV‖), between 0 and 1, by Frobenius norms (Elhage et al. 2021): W_OV is the earlier
        head's circuit, and W₂ the later one's, W_QK from the side of its query or of its key, or W_OV. Circuits without
        any relation have `random_composition`. NaN where neither head reads the other. Raises ValueError if there is no
        such kind or head.
        """
        if kind not in get_args(Composition):
            raise value_error("{kind} is not a kind of composition. Choose query, key or value.", kind=kind)
        self._layer_of(layer, head)
        scores = torch.full(self.shape, torch.nan)
        layers = self.maps.layers
        for other, maps in enumerate(layers):
            if other < layer:
                scores[other, : maps.heads] = _composition(kind, layers[layer], maps)[head]
            elif other > layer:
                scores[other, : maps.heads] = _composition(kind, maps, layers[layer])[:, head]
        return scores

    @property
    def random_composition(self) -> float:
        """The composition of a circuit with one that is turned at random (root mean square): 1 / √width."""
        return self.tokens.shape[1] ** -0.5

    def _layer_of(self, layer: int, head: int) -> LayerMaps:
        check_place(NO_LAYER, layer, len(self.maps.layers))
        check_place(NO_HEAD, head, self.maps.layers[layer].heads)
        return self.maps.layers[layer]

    def check_token(self, token: int) -> None:
        """Raises ValueError if there is no such token."""
        check_place(N_("There is no token {index}: there are {count}, counted from 0."), token, len(self.tokens))

    def check_logits(self) -> None:
        """Raises ValueError if the model has no logits."""
        if self.maps.logits_stream is None:
            raise value_error(
                "This model has no logits that are read from its residual stream, so what its heads write to the "
                "vocabulary is not known. Choose a model that predicts tokens."
            )

    def _vectors(self, layer: int) -> Tensor:
        """Returns the tokens as a layer reads them: the first one reads embeddings."""
        return self.maps.embedding if layer == 0 else self.tokens

    def _written(self, layer: int, head: int, tokens: Tensor) -> Float[Tensor, "tokens vocabulary"]:
        """Returns the logits that a head writes when it looks at each of these tokens, up to a factor."""
        self.check_logits()
        maps = self._layer_of(layer, head)
        if maps.output_stream != self.maps.logits_stream:
            raise value_error("{layer} writes to no logits. Choose a layer of the decoder.", layer=maps.id)
        values = self._vectors(layer)[tokens] @ maps.of_heads(maps.value)[head].T
        return self.maps.logits(values @ maps.output[head].T)

    def _products(self, tokens: Tensor) -> Float[Tensor, "width width"]:
        """Returns the sum over the vocabulary of the products of tokens and their directions."""
        rows = tokens.T - tokens.mean(0)[:, None]  # which takes the mean of the logits away
        return torch.cat([self.maps.gradients(block) for block in rows.split(BLOCK)])


def head_circuits(
    model: nn.Module,
    batch: Any = None,
    *,
    tokens: TokenVectors = "embedding",
    progress: Callable[[float], None] = lambda done: None,
) -> HeadCircuits:
    """Returns the circuits of all heads of a model, from its weights.

    `tokens` is what later layers read of each token of the vocabulary: its "embedding", or the residual stream after
    the "first layer" for a text of this token alone, which is nearer to what they read in a text (as in Wang et al.
    2022 and McDougall et al. 2023, who take the first MLP); it takes a pass of the first layer over the vocabulary,
    whose `progress` is told. `batch` and errors are those of `linear_maps`.
    """
    if tokens not in get_args(TokenVectors):
        raise value_error("{name} is not a kind of tokens. Choose embedding or first layer.", name=tokens)
    maps = linear_maps(model, batch)
    return HeadCircuits(maps, maps.embedding if tokens == "embedding" else maps.after_first_layer(progress))


def _composition(kind: Composition, later: LayerMaps, earlier: LayerMaps) -> Float[Tensor, "later_heads earlier_heads"]:
    """Returns the composition of the heads of two layers; NaN where the later ones do not read what the earlier write.

    Of W₂ = Aᵀ B, where B reads what was written, ‖Aᵀ B W_O W_V‖² is the trace of (A Aᵀ) M (W_V W_Vᵀ) Mᵀ, M = B W_O.
    """
    if (later.query_stream if kind == "query" else later.key_stream) != earlier.output_stream:
        return torch.full((later.heads, earlier.heads), torch.nan)
    query, key, value = later.query, later.of_heads(later.key), later.of_heads(later.value)
    outer, reads = {"query": (key, query), "key": (query, key), "value": (later.output.mT, value)}[kind]
    outer, inner = _gram(outer), earlier.of_heads(_gram(earlier.value))
    middle = torch.einsum("hdw,gwe->hgde", reads, earlier.output)
    product = ((outer[:, None] @ middle) * (middle @ inner)).sum((-2, -1))
    later_size, earlier_size = (outer * _gram(reads)).sum((-2, -1)), (inner * _gram(earlier.output.mT)).sum((-2, -1))
    return (product / (later_size[:, None] * earlier_size)).clamp(min=0).sqrt()


def _gram(maps: Float[Tensor, "heads d width"]) -> Float[Tensor, "heads d d"]:
    return maps @ maps.mT


def _standard(numbers: Tensor) -> Tensor:
    return (numbers - numbers.mean()) / numbers.std().clamp(min=torch.finfo(numbers.dtype).tiny)
