"""Toy vectors, computed from the text; nothing is learned."""

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.language import _, value_error
from attnviz.base.text import EXAMPLE, LONGEST_TEXT, check_text, shorten_token, too_long_error
from attnviz.biases import Rotary, rotated, sinusoids
from attnviz.inputs import Inputs, cut_heads
from attnviz.layer import Kind, Layer, LayerId
from attnviz.mechanism import Mechanism
from attnviz.sources.source import Source


@dataclass(frozen=True)
class Toy(Source):
    """Vectors made from the words themselves: a vector for each word, a sinusoid for its position, and random
    projections for each head. Nothing is learned, so what you see is the mechanism alone.

    Words are separated by white space. The same word always has the same vector. Rotary positions replace the
    sinusoid: queries and keys are rotated by their position, in pairs of numbers
    from both halves of a head (half split, as Llama in Hugging Face) or side by side (interleaved, as GPT-J).

    Example:
        >>> [layer] = Toy("the cat sat").layers()
        >>> layer.inputs.query.shape
        torch.Size([4, 3, 16])
    """

    text: str = field(default=EXAMPLE, metadata={"label": "Text"})
    width: int = field(default=64, metadata={"min": 2, "max": 512, "label": "Embedding width"})
    heads: int = field(default=4, metadata={"min": 1, "max": 32, "label": "Number of heads"})
    seed: int = field(default=0, metadata={"min": 0, "max": 9999})
    rotary: Rotary = field(default="none", metadata={"label": "Rotary positions"})

    def layers(self) -> list[Layer]:
        """Returns one layer, whose heads are different projections of the same vectors (Vaswani et al. 2017)."""
        tokens = tuple(check_text(self.text).split())
        if len(tokens) > LONGEST_TEXT:
            raise too_long_error(len(tokens), LONGEST_TEXT, _("this page"))
        if self.width % 2:
            raise value_error(
                "The embedding width must be even, half sines and half cosines; it is {width}. Use {even}.",
                width=self.width,
                even=self.width + 1,
            )
        vectors = torch.stack([embedding(token, self.width) for token in tokens])
        if self.rotary == "none":
            vectors = vectors + sinusoids(len(tokens), self.width)
        query, key, value = (
            cut_heads(vectors @ self._projection(role), self.heads) for role in ("query", "key", "value")
        )
        query, key = rotated(query, self.rotary), rotated(key, self.rotary)
        names = tuple(map(shorten_token, tokens))
        return [Layer(LayerId(index=0), Kind.SELF, Inputs(query, key, value, names, names), Mechanism())]

    def _projection(self, role: str) -> Float[Tensor, "width width"]:
        """Returns the projections of all heads side by side, scaled so that vectors keep their length."""
        matrix = _random_numbers(f"{self.seed} {role}", self.width * self.width) / math.sqrt(self.width)
        return matrix.reshape(self.width, self.width)


def embedding(token: str, width: int) -> Float[Tensor, " width"]:
    """Returns the vector of a token, determined by its text: entries of mean 0 and variance 1.

    Example:
        >>> bool((embedding("cat", 4) == embedding("cat", 4)).all())
        True
    """
    return _random_numbers(f"token {token}", width)


def _random_numbers(name: str, count: int) -> Float[Tensor, " count"]:
    """Returns uniform numbers of mean 0 and variance 1 from a hash, which are the same in all versions of torch."""
    raw = np.frombuffer(hashlib.shake_256(name.encode()).digest(4 * count), dtype="<u4")
    return torch.from_numpy(((raw / 2**32 - 0.5) * math.sqrt(12)).astype("f4"))
