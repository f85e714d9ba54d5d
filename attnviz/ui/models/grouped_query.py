"""A diagram of grouped-query attention: which query heads share keys and values."""

from typing import TypeGuard

from attnviz.inputs import Inputs, MapAxes
from attnviz.language import _
from attnviz.page import html


def is_grouped(inputs: MapAxes) -> TypeGuard[Inputs]:
    """Returns whether query heads are known to share keys and values (grouped-query or multi-query attention)."""
    return isinstance(inputs, Inputs) and inputs.key.shape[0] < inputs.heads


def diagram(inputs: Inputs, head: int | None) -> html.Markup:
    """Returns a box for each key-value head with its query heads; `head` is marked."""
    boxes = []
    for kv_head in range(inputs.key.shape[0]):
        sharing = [i for i in range(inputs.heads) if inputs.kv_head(i) == kv_head]
        items = (html.element("li", i, class_="attnviz-chosen" if i == head else None) for i in sharing)
        marked = " attnviz-chosen" if head in sharing else ""
        label = html.element("b", _("keys, values {kv_head}", kv_head=kv_head))
        shared = html.element("ul", *items, class_="attnviz-row")
        boxes.append(html.element("div", label, shared, class_=f"attnviz-shared{marked}"))
    text = sharing_sentence(inputs)
    return html.element(
        "div", html.element("p", text), html.element("div", *boxes, class_="attnviz-row"),
        class_="attnviz-groups", role="img", aria_label=text,
    )  # fmt: skip


def sharing_sentence(inputs: Inputs) -> str:
    """Returns a sentence about how many heads share keys and values."""
    heads, kv_heads = inputs.heads, inputs.key.shape[0]
    if kv_heads == 1:
        return _("All {heads} query heads share one head of keys and values (multi-query attention).", heads=heads)
    return _(
        "{heads} query heads share {kv_heads} heads of keys and values, {group} each (grouped-query attention).",
        heads=heads,
        kv_heads=kv_heads,
        group=heads // kv_heads,
    )
