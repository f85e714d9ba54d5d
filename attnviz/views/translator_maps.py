"""The weights of all heads of one use of attention, in one step of a translation."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from attnviz.analysis.head_maps import head_map
from attnviz.layer import Layer
from attnviz.translator import Translation
from attnviz.translator.encoder_decoder import HEADS, Use


@dataclass(frozen=True, eq=False)
class Maps:
    """The weights of all heads of one use in one step of decoding, layer by layer.

    NaN where masked, or where the step has no such word yet: maps have the same size in all steps. The cells that are
    `coming` will be allowed once the words are there.
    """

    use: Use
    weights: Float[np.ndarray, "heads queries keys"]
    coming: Bool[np.ndarray, "heads queries keys"]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    true: tuple[tuple[int, ...], ...] = ()  # for each row the keys that the true alignment gives it

    @property
    def marked(self) -> list[tuple[int, int]]:
        """The cells of the true alignment, in the rows that are there."""
        return [(row, key) for row, keys in enumerate(self.true) for key in keys if not self.coming[:, row].any()]

    def agreed(self, head: int) -> int:
        """Returns the number of rows whose largest weight agrees with the true alignment."""
        return sum(
            not np.isnan(row).all() and int(np.nanargmax(row)) in keys
            for row, keys in zip(self.weights[head], self.true, strict=False)
        )


def use_maps(translation: Translation, use: Use, step: int = -1) -> Maps:
    """Returns the maps of one use in a step of decoding, by default the last."""
    step %= len(translation.steps)
    layers = translation.layers(step, use)
    computed = np.stack([head_map(one.inputs, one.mechanism, head).numpy() for one in layers for head in range(HEADS)])
    queries = translation.english if use == "encoder" else translation.decoder_rows
    keys = translation.decoder_inputs if use == "decoder" else translation.english
    weights = np.full((len(computed), len(queries), len(keys)), np.nan, dtype="f4")
    weights[:, : computed.shape[1], : computed.shape[2]] = computed
    coming = np.concatenate([_allowed(layer, len(queries), len(keys)) for layer in layers]) & np.isnan(weights)
    return Maps(use, weights, coming, queries, keys, (translation.alignment or ()) if use == "cross" else ())


def _allowed(layer: Layer, queries: int, keys: int) -> Bool[np.ndarray, "heads queries keys"]:
    """Returns what each head may attend to with these numbers of words."""
    head, query, key = torch.arange(HEADS)[:, None, None], torch.arange(queries)[:, None], torch.arange(keys)
    allowed = layer.known_mechanism.bind(queries, keys, HEADS).mask(torch.tensor(0), head, query, key)
    return allowed.expand(HEADS, queries, keys).numpy()
