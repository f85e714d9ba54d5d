"""Links to Steps."""

from attnviz.base.link import Link
from attnviz.pages.steps.state import TRANSLATOR
from attnviz.translator.encoder_decoder import USES, Use


def translator_link(english: str, use: Use, layer: int, head: int) -> Link:
    """Returns the link of the numbers of a head of the translator."""
    return (
        ("attention", TRANSLATOR),
        ("english", english),
        ("translator-use", USES[use]),
        ("translator-layer", str(layer)),
        ("translator-head", str(head)),
    )
