"""Grouped-query attention, drawn: which query heads share keys and values."""

from html import escape

from attnviz.inputs import Inputs


def shared(inputs: Inputs) -> bool:
    """Whether query heads share keys (grouped-query or multi-query attention)."""
    return inputs.key.shape[0] < inputs.heads


def picture(inputs: Inputs, head: int | None) -> str:
    """A box for each head of keys and values, and in it the query heads that read it, in HTML; `head` is marked."""
    boxes = []
    for key_head in range(inputs.key.shape[0]):
        readers = [one for one in range(inputs.heads) if inputs.kv_head(one) == key_head]
        heads = "".join(f"<li{' class=attnviz-chosen' if one == head else ''}>{one}</li>" for one in readers)
        marked = " attnviz-chosen" if head in readers else ""
        boxes.append(f"<div class='attnviz-shared{marked}'><b>keys, values {key_head}</b><ul>{heads}</ul></div>")
    return (
        f"<div class='attnviz-groups' role='img' aria-label='{escape(said(inputs))}'>"
        f"<p>{escape(said(inputs))}</p><div>{''.join(boxes)}</div></div>"
    )


def said(inputs: Inputs) -> str:
    """How many heads share keys, in a sentence."""
    heads, key_heads = inputs.heads, inputs.key.shape[0]
    if key_heads == 1:
        return f"All {heads} query heads share one head of keys and values (multi-query attention)."
    return (
        f"{heads} query heads share {key_heads} heads of keys and values, {heads // key_heads} each "
        "(grouped-query attention)."
    )
