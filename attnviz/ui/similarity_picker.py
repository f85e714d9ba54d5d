"""The choice of a translator by the score of its encoder–decoder attention."""

import streamlit as st

from attnviz.language import _
from attnviz.translator import VARIANTS
from attnviz.ui.menus import names_of

FORMULAS = {"scaled dot": "q · k / √d", "dot": "q · k", "general": "qᵀ W k", "additive": "vᵀ tanh(W_q q + W_k k)"}
SIMILARITIES = {variant.capitalize(): variant for variant in VARIANTS}  # named as on other pages, which share the link


def similarity() -> str:
    """Draws the menu; returns one of VARIANTS."""
    formulas = "\n\n".join(f"**{_(name)}:** {FORMULAS[variant]}" for name, variant in SIMILARITIES.items())
    chosen = st.selectbox(
        _("Similarity"), list(SIMILARITIES), key="similarity", bind="query-params",
        format_func=names_of("similarity", SIMILARITIES),
        help=_("How a French word is compared with each English word, in the encoder–decoder attention. "
"Each choice is a translator of its own, trained with it.\n\n{formulas}").format(formulas=formulas),
    )  # fmt: skip
    return SIMILARITIES[chosen]
