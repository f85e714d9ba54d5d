"""The receptive field of stacked layers of each mask, or of layers whose masks follow a pattern of both."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from attnviz.analysis.receptive_field import field_sizes, layers_needed
from attnviz.base.formatting import quoted
from attnviz.base.language import N_, _, value_error
from attnviz.figures import heatmap
from attnviz.figures.sentences import CellSentences
from attnviz.inputs import Inputs
from attnviz.page.blocks import Block, Caption, Columns, Control, Figure, Heading, Note, Row, available
from attnviz.page.selected_maps import zoom_key
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.state import SIDES, MasksState

HEIGHT = 330  # pixels
SENTENCES = CellSentences(
    N_("{query} depends on {key} from {weight} layers on."),
    N_("{query} does not depend on {key} through these layers."),
)


def stacked_layer_blocks(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    """Yields for each mask, and for a pattern of both, the number of layers through which a query depends on a key."""
    yield Row([Control(MasksState.stacked_layers, state), Control(MasksState.pattern, state)], "mask-layers")
    masks = dict(zip(SIDES, pair.allowed, strict=True))
    stacks: dict[str, Sequence[np.ndarray]] = {side: [mask] for side, mask in masks.items()}
    try:
        if pattern := _read_pattern(state.pattern):
            stacks[pattern] = [masks[side] for side in pattern]
    except ValueError as problem:
        yield Note(str(problem))
    count = int(state.stacked_layers)
    stacked = [available(_stack(pair.inputs, name, stack, count)) for name, stack in stacks.items()]
    yield Columns([(1 / len(stacked), blocks) for blocks in stacked])
    yield Caption(_("Each position also keeps itself from layer to layer, through the residual stream."))


def _read_pattern(text: str) -> str:
    """Returns the sides of the layers, one letter each; empty if there is no pattern, or it is of one layer."""
    if wrong := re.search(rf"[^{''.join(SIDES)}\s,]", text, re.IGNORECASE):
        raise value_error(
            "A pattern is made of the letters A and B, such as AAAAAB; it has {wrong}. Delete that.",
            wrong=quoted(wrong[0]),
        )
    pattern = re.sub(r"[\s,]", "", text).upper()
    return pattern if len(pattern) > 1 else ""


def _stack(inputs: Inputs, name: str, stack: Sequence[np.ndarray], count: int) -> Iterator[Block]:
    kind = _("mask {name}", name=name) if name in SIDES else _("the pattern {name}", name=name)
    needed = layers_needed(stack, count)
    each = field_sizes(needed, count)
    depth = torch.where(needed > 0, needed.float(), torch.nan).numpy()
    shown: dict[str, Any] = {"largest": float(count), "sentences": SENTENCES, "whole_numbers": True, "fan": False}
    tokens = inputs.query_tokens, inputs.key_tokens
    picture = heatmap(depth, *tokens, zoom_key=zoom_key(inputs), link="layers", **shown).with_about(
        label=_("Layers until a query depends on a key, {kind}", kind=kind),
        hint=_("Mask {name}: the color is the number of layers.", name=name),
    )
    yield Heading(name)
    yield Figure(picture, f"reach-{name.lower()}" if name in SIDES else "reach-pattern", HEIGHT)
    growth = " → ".join(map(str, each.each[:, -1].tolist()))
    yield Note(
        _(
            "Under {name} the last query depends on {growth} of {count} keys, layer by layer.",
            name=name,
            growth=growth,
            count=len(stack[0]),
        )
    )
