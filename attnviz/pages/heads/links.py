"""Links to Heads from sentences about one head in one text."""

from attnviz.base.language import N_, _
from attnviz.layer import LayerId, head_option
from attnviz.page.blocks import Anchor
from attnviz.pages.heads.state import MANY_TEXTS, HeadsState

IN_GENERAL = N_("Is it so in general?")


def in_general(model: str, layer: LayerId | str, head: int) -> Anchor:
    """Returns the anchor to what a head of a model does over many texts."""
    link = (
        (HeadsState.model.parameter, model),
        (HeadsState.inspect.parameter, MANY_TEXTS),
        (HeadsState.head.parameter, head_option(layer, head)),
    )
    return Anchor(_(IN_GENERAL), link, "heads", "attnviz-page-link")
