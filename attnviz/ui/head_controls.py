"""Controls for the layer, the head, and the display of maps."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import streamlit as st

from attnviz.analysis.head_maps import Aggregate, HeadChoice, Special
from attnviz.language import N_, _
from attnviz.layer import Layer
from attnviz.sources.source import Opening
from attnviz.ui.color_range import ColorRange
from attnviz.ui.menus import names_of
from attnviz.ui.widgets import parameter

AGGREGATES = {N_("Mean of heads"): Aggregate.MEAN, N_("Maximum of heads"): Aggregate.MAXIMUM}
HEAD = N_("Head #")
SPECIAL = {
    N_("Shown"): Special.SHOWN, N_("Hidden"): Special.HIDDEN, N_("Hidden, rows rescaled"): Special.RESCALED
}  # fmt: skip
DISPLAY = ("special-tokens", "mosaic", "colors")  # the link parameters of `choose_display`
HELP = {
    "Layer": N_("Layers run one after the other: each looks at what the one before has made of the tokens."),
    "Head": N_("A layer looks several times at once: each head has queries and keys of its own."),
    "Special tokens": N_(
        "Tokens that the tokenizer adds, such as [CLS] and [SEP]. Many heads rest much of their "
        "attention there; hidden, they leave the others to be seen."
    ),
    "Mosaic": N_("The small maps: the heads of this layer, or all heads of all layers."),
    "Colors": N_("Which weight has the last color of the scale."),
}


@dataclass
class _MenuState:
    """The session state of a menu whose options depend on the layers."""

    layers: tuple[str, ...] = ()  # for which the menu was last shown
    opening: str = ""  # where it opened then
    choices: dict[tuple[str, ...], str] = field(default_factory=dict)  # what was last chosen, for each list of layers


def choose_layer_and_head(layers: Sequence[Layer], opening: Opening) -> tuple[int, HeadChoice]:
    """Draws the menus of layers and heads; returns the index of the layer, and the head or an aggregate."""
    names = _names(layers)
    layer = names.index(_follow(N_("Layer"), names, opening.layer, names))
    heads = head_names(layers[layer].inputs.heads)
    aggregates = list(AGGREGATES) if len(heads) > 1 else []
    name = _follow(N_("Head"), (*heads, *aggregates), opening.head, names)
    return layer, heads.index(name) if name in heads else AGGREGATES[name]


def reserve(layers: Sequence[Layer], **names: str) -> None:
    """Stores a `layer` and a `head`, by their names in the menus, for when these layers are shown."""
    for key, name in names.items():
        _menu_state(key).choices[_names(layers)] = name


def choose_display(layers: Sequence[Layer], layer: int) -> tuple[Special, bool, ColorRange]:
    """Draws the controls of the display; returns the treatment of special tokens, whether the mosaic shows all
    layers, and the range of the colors."""
    has_special = bool(layers[layer].inputs.special_keys)
    special = _menu(N_("Special tokens"), list(SPECIAL)) if has_special else "Shown"
    all_layers = len(layers) > 1 and _menu(N_("Mosaic"), [N_("One layer"), N_("All layers")]) == "All layers"
    return SPECIAL[special], all_layers, ColorRange(_menu(N_("Colors"), list(map(str, ColorRange))))


def open_head(layers: Sequence[Layer], index: int, head: int) -> None:
    """Selects a head in the menus."""
    st.session_state["layer"] = layers[index].name
    st.session_state["head"] = head_names(layers[index].inputs.heads)[head]


def head_names(heads: int) -> list[str]:
    """Returns the names of heads as options of a menu."""
    return [HEAD.replace("#", str(head)) for head in range(heads)]


def _names(layers: Sequence[Layer]) -> tuple[str, ...]:
    return tuple(layer.name for layer in layers)


def _menu_state(key: str) -> _MenuState:
    return st.session_state.setdefault(f"{key} menu", _MenuState())


def _follow(label: str, options: Sequence[str], index: int, layers: tuple[str, ...]) -> str:
    """Draws a menu whose options depend on the layers. It selects the last choice for these layers, or else the head
    that the source opens with."""
    key, opening = parameter(label), options[index]
    menu, state = _menu_state(key), st.session_state
    if key in state:
        if menu.layers != layers and layers in menu.choices:
            state[key] = menu.choices[layers]
        elif state[key] == menu.opening:
            state[key] = opening
        if state[key] not in options:  # set explicitly, because Streamlit would leave it in the link
            state[key] = opening
    menu.opening, menu.layers = opening, layers
    menu.choices[layers] = _menu(label, options, index)
    return menu.choices[layers]


def _menu(label: str, options: Sequence[str], index: int = 0) -> str:
    key = parameter(label)
    return st.selectbox(
        _(label), options, index, key=key, bind="query-params", help=_(HELP[label]), format_func=names_of(key, options)
    )
