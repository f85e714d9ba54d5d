"""Attention in the attributions of inseq, of the tokens that a model was given or wrote."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from attnviz.base.formatting import dimensions
from attnviz.layer import LayerId


def is_attribution(source: Any) -> bool:
    """Returns whether this is what `attribute` of inseq returns, or the attributions of one text in it."""
    return hasattr(source, "sequence_attributions") or hasattr(source, "target_attributions")


def attributed_attention(source: Any) -> Iterator[tuple[LayerId, Tensor, Sequence[str], Sequence[str]]]:
    """Yields the id of each layer, its weights (heads, queries, keys), and the tokens of queries and keys, where a
    query is the token before the attributed token: the model read it when that one was next.

    Raises ValueError for attributions of several texts, or of another method than `attention`.
    """
    texts = getattr(source, "sequence_attributions", [source])
    if len(texts) != 1:
        raise ValueError(f"These are attributions of {len(texts)} texts. Show one: out.sequence_attributions[0].")
    [text] = texts
    targets, sources = ([word.token for word in side or ()] for side in (text.target, text.source))
    queries = targets[text.attr_pos_start - 1 : text.attr_pos_end - 1]
    has_source = text.source_attributions is not None
    for scores, keys in ((text.target_attributions, targets), (text.source_attributions, sources)):
        if scores is None:
            continue
        if scores.ndim != 4:
            raise ValueError(
                f"These attributions have the shape {dimensions(scores.shape)}; attention has one of (keys, queries, "
                "layers, heads). Use inseq.load_model(…, 'attention'), and do not aggregate what attribute returns."
            )
        for index, weights in enumerate(scores.permute(2, 3, 1, 0)):
            yield LayerId("decoder" if has_source else "layer", index, keys is sources), weights, queries, keys
