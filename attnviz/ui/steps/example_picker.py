"""What is to be written out: chosen in the sidebar."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import get_args

import streamlit as st

from attnviz.lessons.steps import LEAST, MOST, Example, Kind, Translated
from attnviz.masks import Causal, Full, Mask
from attnviz.translator.model import HEADS, LAYERS, Use
from attnviz.ui import head_controls, mechanism_controls, pinned_query, widgets
from attnviz.ui.similarity_picker import similarity

SECOND = "die Katze setzte sich"
MASKS: dict[str, Mask] = {"Full": Full(), "Causal": Causal()}
_ABOUT = {one.name: one.metadata for one in fields(Example)}


@dataclass(frozen=True)
class Asked:
    """What the controls say: an example, which may be refused when it is made, and the head that is shown."""

    example: Callable[[], Kind]
    first: Kind  # one of this kind that is good
    head: int = 0


def controlled() -> Asked:
    """The controls of the page, but for the query."""
    kind = st.selectbox(
        "Attention", list(KINDS), key="attention", bind="query-params",
        help=" ".join(f"**{name}**: {about}." for name, (about, _) in KINDS.items()),
    )  # fmt: skip
    return KINDS[kind][1]()


def followed(tokens: tuple[str, ...]) -> int:
    """The query that is followed."""
    names = pinned_query.numbered(range(len(tokens)), tokens)
    return names.index(st.selectbox("Query", names, min(1, len(names) - 1), key="query", bind="query-params"))


def follow(tokens: tuple[str, ...], row: int) -> None:
    """Follows another query."""
    if row < len(tokens):
        st.session_state["query"] = pinned_query.numbered(range(len(tokens)), tokens)[row]


def _sentence(cross: bool) -> Asked:
    """One or two sentences with small vectors and matrices, made from names."""
    text = st.text_input(
        _ABOUT["text"]["label"], Example.text, key="sentence", bind="query-params", help=f"{LEAST} to {MOST} words."
    )
    second = None
    if cross:
        about = "Keys and values are made of it."
        second = st.text_input(_ABOUT["second"]["label"], SECOND, key="second", bind="query-params", help=about)
    d_k, heads = _number("d_k"), _number("heads")
    names = head_controls.head_names(heads)
    head = names.index(st.selectbox("Head shown", names, key="head-shown", bind="query-params")) if heads > 1 else 0
    mask = st.selectbox("Mask", list(MASKS), key="masked", bind="query-params", help="Causal: no key after the query.")
    example = partial(Example, text, second, d_k, heads, MASKS[mask], mechanism_controls.choose_biases("Biases", ()))
    return Asked(example, Example(), head)


def _translator() -> Asked:
    """One head of the small translator, with learned numbers."""
    english = st.text_input("English", Translated.english, key="english", bind="query-params")
    variant = similarity()
    uses: tuple[Use, ...] = get_args(Use)
    use = st.selectbox(
        "Use", uses, uses.index(Translated.use), key="translator-use", bind="query-params",
        help="Self-attention of the encoder or of the decoder, or cross: encoder–decoder attention.",
    )  # fmt: skip
    layer, head = (
        int(st.selectbox(label, list(map(str, range(count))), key=f"translator-{label.lower()}", bind="query-params"))
        for label, count in (("Layer", LAYERS), ("Head", HEADS))
    )
    return Asked(partial(Translated, english, variant, use, layer, head), Translated())


KINDS: dict[str, tuple[str, Callable[[], Asked]]] = {
    "Self": ("keys and values from the same sentence", lambda: _sentence(cross=False)),
    "Cross": ("keys and values from a second sentence", lambda: _sentence(cross=True)),
    "Translator": ("a head of the small translator of the Transformer page", _translator),
}


def _number(name: str) -> int:
    about = _ABOUT[name]
    start = getattr(Example, name)
    limits = {"min_value": about["min"], "max_value": about["max"], "value": start}
    return widgets.whole_number(about["label"], **limits, key=name.replace("_", "-"), bind="query-params")
