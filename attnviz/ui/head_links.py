"""Addresses of pages that show the heads of the translator."""

from attnviz.state.steps import TRANSLATOR, StepsState
from attnviz.state.transformer import HEAD_FIELDS, SYMBOLS, TransformerState
from attnviz.translator.encoder_decoder import HEADS, Use
from attnviz.ui import presentation


def steps_address(english: str, variant: str, use: Use, layer: int, head: int) -> str:
    """Returns the address of the Steps page with the numbers of a head. Raises ValueError if it does not have them."""
    state = StepsState(
        attention=TRANSLATOR, english=english, similarity=variant, translator_use=use, translator_layer=layer,
        translator_head=head,
    )  # fmt: skip
    return presentation.page_link("steps", state.link())


def notation_address(english: str, use: Use, layer: int, head: int) -> str:
    """Returns the address of the formulas of an attention layer on the Transformer page, with a head selected."""
    chosen = {HEAD_FIELDS[use].name: layer * HEADS + head}
    state = TransformerState(tab=SYMBOLS, symbols_of=use, english=english, **chosen)
    return presentation.page_link("transformer", state.link())
