"""Attributions of inseq by the method `attention`: of each token to those before it, and to a source."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnviz.notebook.layer_maps import layer_maps

OWN = torch.rand(2, 3, 2, 4).tril(2).softmax(-1)  # (layers, heads, queries, keys)
CROSS = torch.rand(2, 3, 2, 5).softmax(-1)


def text(words: str, source: str = "", **more: Any) -> SimpleNamespace:
    """Attributions of the last two words of a text."""
    targets, sources = ([SimpleNamespace(token=word) for word in side.split()] for side in (words, source))
    scores = {"target_attributions": OWN.permute(3, 2, 0, 1), "source_attributions": None}
    if source:
        scores["source_attributions"] = CROSS.permute(3, 2, 0, 1)
    places = {"attr_pos_start": len(targets) - 2, "attr_pos_end": len(targets)}
    return SimpleNamespace(target=targets, source=sources or None, **scores | places | more)


def test_queries_are_the_tokens_before_the_attributed() -> None:
    layers = layer_maps(SimpleNamespace(sequence_attributions=[text("so it is here")]))
    assert [layer.name for layer in layers] == ["layer 0", "layer 1"]
    assert (layers[0].inputs.query_tokens, layers[0].inputs.key_tokens) == (("it", "is"), ("so", "it", "is", "here"))
    for layer, weights in zip(layers, OWN, strict=True):
        torch.testing.assert_close(layer.maps(), weights)


def test_an_encoder_and_a_decoder() -> None:
    layers = layer_maps(text("so it is here", "da ist es nun ja"), ["x", "y"])
    assert [layer.name for layer in layers] == ["decoder 0", "decoder 1", "decoder 0 cross", "decoder 1 cross"]
    assert (layers[2].inputs.query_tokens, layers[2].inputs.key_tokens) == (
        ("x", "y"),
        ("da", "ist", "es", "nun", "ja"),
    )
    torch.testing.assert_close(layers[3].maps(), CROSS[1])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (SimpleNamespace(sequence_attributions=[text("a b c d"), text("a b c d")]), r"Show one: out\.sequence_attri"),
        (text("a b c d", target_attributions=torch.rand(4, 2)), "do not aggregate"),
    ],
)
def test_what_has_no_attention_is_refused_in_a_sentence(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer_maps(source)
