"""Addresses of pages that show the heads of the translator."""

from collections.abc import Mapping
from urllib.parse import urlencode

from attnviz.translator.model import USES, Use
from attnviz.ui import presentation


def steps_address(english: str, variant: str, use: Use, layer: int, head: int) -> str:
    """Returns the address of the Steps page with the numbers of a head."""
    parameters = {
        "attention": "Translator", "english": english, "similarity": variant.capitalize(),
        "translator-use": USES[use], "translator-layer": layer, "translator-head": head,
    }  # fmt: skip
    return _address("steps", parameters)


def notation_address(english: str, use: Use, layer: int, head: int) -> str:
    """Returns the address of the formulas of an attention layer on the Transformer page, with a head selected."""
    parameters = {
        "tab": "In symbols", "symbols-of": USES[use], "english": english,
        f"{use}-head": f"Layer {layer}, head {head}",
    }  # fmt: skip
    return _address("transformer", parameters)


def several_heads_address(english: str, use: Use) -> str:
    """Returns the address of the table of all heads of one use on the Transformer page."""
    return _address("transformer", {"tab": "Several heads", "heads-of": USES[use], "english": english})


def _address(page: str, parameters: Mapping[str, object]) -> str:
    presented = dict([presentation.PRESENTING]) if presentation.presenting() else {}
    return f"./{page}?{urlencode({**parameters, **presented})}"
