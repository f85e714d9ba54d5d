"""What can be exchanged in the running translator: the widgets of each use of attention, and changes worth trying."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.formatting import significant
from attnviz.masks import Band, Full
from attnviz.mechanism import Mechanism
from attnviz.models.interventions import Intervention
from attnviz.normalizers import NORMALIZERS, Normalizer, Softmax
from attnviz.scores import Cosine, Dot, ScaledDot, Score
from attnviz.translator import Translator
from attnviz.translator.model import HEADS, LAYERS, USE_LAYERS, Use
from attnviz.ui import mechanism_controls, widgets
from attnviz.ui.transformer import maps

T = TypeVar("T")
Interventions = tuple[Intervention, ...]  # one for each use that is changed
KEY = "change"  # of the use whose widgets and maps are shown
ALIGNS = 0.9  # a head aligns that agrees with the true alignment for so many words
# General and additive scores have weights of their own: of no use where they were not trained.
PLAIN_SCORES: tuple[type[Score], ...] = (ScaledDot, Dot, Cosine)
NORMALIZER_MENU: dict[str, type[Normalizer]] = {widgets.title(kind): kind for kind in NORMALIZERS}


def presets(translator: Translator) -> dict[str, Interventions]:
    """Interventions worth trying, by name."""
    agreement = maps.agreement(translator)
    align = [head for head, share in enumerate(agreement) if share >= ALIGNS]
    best = maps.first_head("cross", translator)
    return {
        "Everything as trained": (),
        "Let the decoder see the future": (Intervention(Full(), layers=USE_LAYERS["decoder"]),),
        "Show the decoder its last word only": (Intervention(Band(0), layers=USE_LAYERS["decoder"]),),
        "Cut the encoder to a window": (Intervention(Band(1), layers=USE_LAYERS["encoder"]),),
        "Ablate the head that aligns best": (_ablated("cross", best),),
        "Ablate all heads that align": (_ablated("cross", *align),),
        "Encoder–decoder: temperature 5": (Intervention(normalizer=Softmax(5.0), layers=USE_LAYERS["cross"]),),
        "Encoder–decoder: cosine": (Intervention(score=Cosine(), layers=USE_LAYERS["cross"]),),
    }


def _ablated(use: Use, *heads: int) -> Intervention:
    """The ablation of heads of a use, counted layer by layer."""
    places = (divmod(head, HEADS) for head in heads)
    return Intervention(ablated=tuple((USE_LAYERS[use][layer], head) for layer, head in places), layers=USE_LAYERS[use])


def of_use(interventions: Interventions, use: Use) -> Intervention:
    """The intervention in one use."""
    found = (one for one in interventions if one.layers == USE_LAYERS[use])
    return next(found, Intervention(layers=USE_LAYERS[use]))


def trained(translator: Translator) -> dict[Use, Mechanism]:
    """How each use attends as it was trained."""
    layer = translator.model.decoder[0]
    parts: Mapping[Use, object] = {
        "encoder": translator.model.encoder[0].attention,
        "decoder": layer.attention,
        "cross": layer.cross,
    }
    return {use: part.mechanism() for use, part in parts.items()}  # type: ignore[attr-defined]


def scores(start: Mechanism) -> dict[str, type[Score]]:
    """The scores that can take the place of the trained one, which is the same choice for every translator."""
    return {widgets.title(kind): kind for kind in PLAIN_SCORES if kind is not type(start.score)}


def choose(translator: Translator, top: DeltaGenerator) -> tuple[Use, Interventions, list[str]]:
    """Draws the widgets, and the presets in `top`; gives the use that is looked at, the interventions, and why some of
    them were refused."""
    refused: list[str] = []
    made: list[Intervention] = []
    looked_at: Use = "decoder"
    tabs = st.tabs(list(maps.SHORT.values()), default=maps.SHORT["decoder"], key=KEY, bind="query-params")
    for (use, start), tab in zip(trained(translator).items(), tabs, strict=True):
        with tab:
            made.append(_intervention(use, start, refused))
        looked_at = use if tab.open else looked_at
    interventions = tuple(one for one in made if not one.is_empty)
    with top:
        _menu(translator, interventions)
    return looked_at, interventions, refused


def _intervention(use: Use, start: Mechanism, refused: list[str]) -> Intervention:
    """The widgets of one use, and what they change in it."""
    mask_column, score_column, normalizer_column, off_column = st.columns(4, gap="medium")
    with mask_column:
        mask = widgets.choose("Mask", mechanism_controls.MASK_MENU, start.mask, f"{use}-mask", refused.append)
    with score_column:
        score = widgets.choose("Score", scores(start), start.score, f"{use}-score", refused.append)
    with normalizer_column:
        key = f"{use}-normalizer"
        normalizer = widgets.choose("Normalizer", NORMALIZER_MENU, start.normalizer, key, refused.append)
    with off_column:
        ablated = tuple((place, head) for layer, place in enumerate(USE_LAYERS[use]) for head in _off(use, layer))
    return Intervention(
        None if mask == start.mask else mask,
        None if score == start.score else score,
        None if normalizer == start.normalizer else normalizer,
        ablated,
        USE_LAYERS[use],
    )


def _off(use: Use, layer: int) -> list[int]:
    label = f"Ablated in layer {layer}"
    return sorted(st.pills(label, range(HEADS), selection_mode="multi", key=_off_key(use, layer), bind="query-params"))


def _off_key(use: Use, layer: int) -> str:
    return f"{use}-off-{layer}"


def _menu(translator: Translator, interventions: Interventions) -> None:
    """The presets; the one that is tried is marked."""
    choices = presets(translator)

    def try_it() -> None:
        if (name := st.session_state["try"]) is not None:
            _write(translator, choices[name])

    st.session_state["try"] = next((name for name, one in choices.items() if one == interventions), None)
    st.pills("Try", list(choices), key="try", on_change=try_it, label_visibility="collapsed")


def _write(translator: Translator, interventions: Interventions) -> None:
    """Makes the widgets show these interventions, and looks at the first use that is changed."""
    for use, start in reversed(trained(translator).items()):
        change = of_use(interventions, use)
        show_part(mechanism_controls.MASK_MENU, change.mask or start.mask, f"{use}-mask")
        show_part(scores(start), change.score or start.score, f"{use}-score")
        show_part(NORMALIZER_MENU, change.normalizer or start.normalizer, f"{use}-normalizer")
        for layer in range(LAYERS):
            ablated = [head for place, head in change.ablated if place == USE_LAYERS[use][layer]]
            st.session_state[_off_key(use, layer)] = ablated
        if not change.is_empty:
            st.session_state[KEY] = maps.SHORT[use]


def show_part(menu: Mapping[str, type[T]], part: T, key: str) -> None:
    """Makes this the part that the widgets under a key show."""
    usual = widgets.widget_state(menu, type(part)(), key)
    for name, value in widgets.widget_state(menu, part, key).items():
        # What is set before its widget is there, Streamlit 1.67 leaves out of the link.
        if name not in st.session_state and value != usual[name]:
            st.query_params[name] = str(value)
        st.session_state[name] = value


def described(change: Intervention, use: Use, start: Mechanism, head: int) -> str:
    """How a head of a use attends under an intervention, in words."""
    layer, number = divmod(head, HEADS)
    if (USE_LAYERS[use][layer], number) in change.ablated:
        return "This head is ablated: it sees nothing, and adds nothing."
    score, normalizer = named(change.score or start.score), named(change.normalizer or start.normalizer)
    return f"{(change.mask or start.mask).describe()} {score}, {normalizer}."


def named(part: Score | Normalizer) -> str:
    """What a part is called, with the values that are not what it begins with."""
    values = [
        f"{one.metadata.get('label', one.name)} {significant(getattr(part, one.name))}"
        for one in fields(part)  # type: ignore[arg-type]
        if one.metadata and getattr(part, one.name) != one.default
    ]
    return f"{widgets.title(type(part))} with {', '.join(values)}" if values else widgets.title(type(part))
