"""The number of tokens that cost and code are for: those of the example, or more."""

import streamlit as st

from attnviz.inputs import Inputs
from attnviz.language import N_, _
from attnviz.ui.menus import names_of

HERE = N_("this example (# × #)")  # an option of the menu
LENGTHS = (128, 512, 1_024, 4_096, 16_384, 65_536, 131_072)


def choose_length(inputs: Inputs) -> tuple[int, int]:
    """Draws the widget, which is the same on all tabs that have it; returns the numbers of queries and keys."""
    here = f"this example ({inputs.queries} × {inputs.keys})"
    options = [here, *(f"{n:,}" for n in LENGTHS)]
    length = st.select_slider(
        _("Tokens"), options, here, key="tokens", bind="query-params", format_func=names_of("tokens", options)
    )
    return (inputs.queries, inputs.keys) if length == here else (int(length.replace(",", "")),) * 2
