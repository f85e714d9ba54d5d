"""Viewers of attention in a notebook."""

from collections.abc import Generator, Mapping
from importlib.util import find_spec
from typing import Any

from attnviz.base.token_texts import texts_of_batch
from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism
from attnviz.notebook.layer_maps import Tokens, apply, is_list_of_texts, layer_maps
from attnviz.notebook.page_viewer import to_html, unique_key
from attnviz.notebook.shown_heads import ShownLayers
from attnviz.notebook.viewer import Viewer

__all__ = ["Viewer", "show", "to_html"]


def show(
    source: Any,
    other: Any = None,
    *,
    tokens: Tokens = None,
    key_tokens: Tokens = None,
    layer: int = 0,
    head: int = 0,
    query: int | None = None,
    names: tuple[str, str] = ("A", "B"),
) -> Viewer:
    """Returns a viewer of all heads of `source`, which a notebook shows.

    The source is an array or a tensor of weights (queries, keys), (heads, queries, keys) or (layers, heads, queries,
    keys), where NaN is masked; the attentions of a transformers output, or the output, also of `generate`; a cache of
    TransformerLens, whose tokens are found, or of nnsight; what modules of attention returned, or their weights, in a
    list, or by the paths of the modules; attributions of inseq by the method `attention`; a layer, a trace, other
    layers, or a source of them; the traces of forward passes that continue one cache; steps of `attnviz.writing`, which
    are followed while the model writes, if anywidget is installed; or inputs, with a mechanism as `other`.

    `other` is tokens, a mechanism, or a second source: then the viewer compares the two, which have `names`. `tokens`
    are those of the queries, and of the keys where there are no `key_tokens`: texts, or what a tokenizer makes of one
    text. Of an encoder–decoder model `tokens` are the decoder's, and `key_tokens` the encoder's.
    Heads of `layer` and `head` are chosen first, and a `query` is pinned; all three can be read and set later. With
    anywidget installed, long maps are zoomed from Python.

    Raises ValueError for a source of another kind, or other numbers of tokens.

    Example:
        >>> import numpy as np
        >>> viewer = show(np.eye(3)[None].repeat(2, 0), ["the", "cat", "sat"], head=1)
        >>> viewer.head, viewer.to_html().startswith("<!doctype html>")
        (1, True)
    """
    has_widgets = find_spec("anywidget") is not None
    if isinstance(source, Generator):
        if has_widgets:
            from attnviz.notebook.writing_widget import WritingWidget

            return WritingWidget(source, layer, head, query)
        source = [*source]
    if isinstance(other, Mechanism):
        if not isinstance(source, Inputs):
            raise ValueError(f"A mechanism applies to attnviz.Inputs; the source is a {type(source).__name__}.")
        source, other = apply(other, source), None
    elif isinstance(source, Inputs):
        source = apply(Mechanism(), source)
    if tokens is None and (is_list_of_texts(other) or (isinstance(other, Mapping) and texts_of_batch(other, 0))):
        tokens, other = other, None
    if isinstance(other, Inputs):
        other = apply(Mechanism(), other)
    tokens, key_tokens = (texts_of_batch(one, 0) or one for one in (tokens, key_tokens))
    compared = None if other is None else ShownLayers(unique_key(), layer_maps(other, tokens, key_tokens))
    source = ShownLayers(unique_key(), layer_maps(source, tokens, key_tokens), compared, names)
    if not has_widgets:
        return Viewer(source, layer, head, query)
    from attnviz.notebook.widget import AttentionWidget

    return AttentionWidget(source, layer, head, query)
