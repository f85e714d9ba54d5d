"""Controls of a mechanism: score, biases, mask and normalizer."""

from dataclasses import replace
from typing import Any

from attnviz.masks import MASKS, Mask
from attnviz.mechanism import Mechanism
from attnviz.state.fields import Field
from attnviz.state.parts import fits_widgets
from attnviz.ui.field_widgets import configure, draw
from attnviz.ui.session_values import SessionValue, write_widget
from attnviz.ui.widget_values import field_state


def change_parts(start: Mechanism, *parts: Field[Any]) -> Mechanism:
    """Draws fields that are named as parts of a mechanism; returns `start` with the chosen parts."""
    return replace(start, **{part.name: draw(part, opening=getattr(start, part.name)) for part in parts})


def choose_unlinked_parameters(key: str, text: str, mask: Mask) -> Mask:
    """Draws the widgets of a mask's parameters, none of them in the link; returns the mask with their values.

    They show `mask`, which was parsed from `text`, whenever the text is new and was not written by them. A mask that is
    not in the catalogue by itself has none.
    """
    if not is_in_menu(mask):
        return mask
    followed_text = SessionValue(f"{key} followed", str)
    if followed_text.get() != text:
        for name, value in field_state(mask, key).items():
            write_widget(name, value)
    chosen = configure(mask, key, linked=False)
    followed_text.set(text if chosen == mask else str(chosen))
    return chosen


def is_in_menu(mask: Mask) -> bool:
    """Returns whether a mask is one of the catalogue, with parameters that widgets can hold."""
    return isinstance(mask, MASKS) and fits_widgets(mask)
