"""What a model says of an image where a region of it is hidden, and where a head looks then."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from attnviz.base.formatting import number, plain_word
from attnviz.base.language import N_, _, option_name
from attnviz.base.link import Link
from attnviz.effects.hidden_region import HiddenRegion, hide_region
from attnviz.layer import head_name
from attnviz.lessons.checks import Quantities
from attnviz.masks.grid import Grid
from attnviz.models.image_inputs import ImageInputs
from attnviz.page.blocks import AppNote, Block, Caption, Columns, Computed, Control, Figure, Note, Row, Summary, Table
from attnviz.page.model_picture import HEIGHT, model_image, row_picture
from attnviz.page.result_cache import result_cache
from attnviz.pages.effects.state import EffectsState

if TYPE_CHECKING:  # with huggingface_hub
    from attnviz.effects.intervention_run import Candidate

NOTES = {
    "gray": N_("The patches are gray for the model, which still looks at them."),
    "masked": N_(
        "No query looks at the masked patches, in any layer, so what is computed at them reaches no other token. A "
        "model that ends with a mean over all patches still includes them."
    ),
}


@dataclass(frozen=True, eq=False)
class RegionEffect:
    """The runs before and after a region is hidden, and the likeliest labels of a classifier; None while they run."""

    runs: HiddenRegion | None = None
    candidates: "Sequence[Candidate]" = ()


def region_blocks(state: EffectsState) -> Iterator[Block]:
    """Yields the image on which a region is marked, and what the model says without it. Raises ValueError if it is
    not known which token is which patch."""
    hidden = state.hidden  # which refuses a region at once
    yield Row([Control(EffectsState.hidden_as, state), Control(EffectsState.head, state),
               Control(EffectsState.looks_from, state)], "effects-region")  # fmt: skip
    work = 2 * state.source.forward_work
    yield Computed(
        "region",
        partial(region_effect, state),
        lambda: ("hidden region", state.source, hidden.tobytes(), state.hidden_as),
        lambda _effect: _("{model} sees the image with the region and without it.", model=state.source.model().title),
        partial(_of_effect, state),
        subject=state.source,
        work=work,
    )
    yield Caption(
        _(
            "**What you are seeing.** The first image is what the model sees, the second what it sees without the "
            "region. The more attention a patch gets, the brighter it is, on one scale in both. **What it does not "
            "say:** a gray region is still something to look at, and the model was not trained with such a mask, so "
            "compare both."
        )
    )


def region_effect(state: EffectsState, progress: Callable[[float, RegionEffect], object] | None = None) -> RegionEffect:
    """Returns the runs of a state. Raises ValueError if the region cannot be hidden."""
    from attnviz.effects.intervention_run import likeliest_labels  # with huggingface_hub

    if progress:
        progress(0.0, RegionEffect())
    source, model = state.source, state.source.model()
    batch, work = model.encode(*source.example).batch, source.forward_work
    hide, hidden = partial(hide_region, model.model, batch), state.hidden
    whole = result_cache().once(lambda: hide(np.zeros_like(hidden)), "whole picture", source, work=work)
    assert isinstance(model.image_inputs, ImageInputs)
    color = _gray(model.image_inputs).flatten().tolist()
    runs = hide(hidden, how=state.hidden_as, color=color, whole=whole)
    if model.outputs != "labels":
        return RegionEffect(runs)
    logits = [model.extract_output(output) for output in (runs.before, runs.after)]
    return RegionEffect(runs, likeliest_labels(model, logits[0], logits[1]))


def _of_effect(state: EffectsState, effect: RegionEffect) -> Iterator[Block]:
    runs, image, inputs = effect.runs, model_image(state.source), state.source.model().image_inputs
    if runs is None or image is None or not isinstance(inputs, ImageInputs):
        yield Summary("", None)  # where it will stand
        return
    (layer, head), query = state.shown_head, state.looks_from
    axes, weights = runs.layers_before[layer].inputs, runs.weights(layer, head, query).double().numpy()
    yield Summary(_sentence(state, effect, runs), partial(_quantities, state, effect, runs, weights))
    yield AppNote(_("Drag over patches of the first image to hide them, or to show them again."))
    yield Note(_("Click a patch of the second image to see where it looks."))
    columns = list[tuple[float, list[Block]]]()
    for side, shown in enumerate((image, inputs.shown(runs.pixels))):
        picture = row_picture(shown, axes, query, weights[side], runs.patches, float(weights[:, _keys(runs)].max()))
        paints = partial(_marked, state) if side == 0 else None
        title, name = (_("With the region"), _("Without it"))[side], ("whole-picture", "hidden-picture")[side]
        figure = Figure(
            picture, name, HEIGHT, None if paints else partial(_looks_from, state, runs),
            title=title, grows="beside", paints=paints,
        )  # fmt: skip
        columns.append((0.5, [figure]))
    yield Columns(columns)
    if runs.patches:
        yield Note(_mass_sentence(state, runs, weights))
        yield Note(_(NOTES[state.hidden_as]))
    if effect.candidates:
        rows = [(plain_word(one.text), number(one.before), number(one.after)) for one in effect.candidates]
        yield Table((_("label"), _("with the region"), _("without it")), rows)


def _keys(runs: HiddenRegion) -> list[int]:
    return list(runs.grid.positions)


def _marked(state: EffectsState, cells: np.ndarray, value: bool) -> Link:
    """Returns the link of the state in which patches are added to the region, or taken out of it."""
    hidden = state.hidden
    patches = cells[:, 0]
    hidden.flat[patches[(patches >= 0) & (patches < hidden.size)]] = value
    return state.link_with(region=Grid.from_array(hidden).cells)


def _looks_from(state: EffectsState, runs: HiddenRegion, patch: int, _column: int) -> Link | None:
    return state.link_with(looks_from=runs.grid.positions[patch])


def _gray(inputs: ImageInputs) -> Tensor:
    """Returns the mean color of the images that a model knows, (channels, 1, 1) as in its pixels: of one that is not
    told it, a medium gray."""
    pixels = torch.zeros(inputs.channels, 1, 1)
    return pixels if any(inputs.processor.mean) else inputs.processor.normalized(pixels + 127.5)


def _sentence(state: EffectsState, effect: RegionEffect, runs: HiddenRegion) -> str:
    """Returns what the model says before and after."""
    if not runs.patches:
        return _("No patch is hidden yet.")
    facts = {
        "hidden": len(runs.patches),
        "count": len(runs.grid.positions),
        "how": option_name(EffectsState.hidden_as.name_of(state, state.hidden_as)),
    }
    if not effect.candidates:
        vector = "[CLS]" if runs.has_class_token else _("the mean of all tokens")
        return _(
            "With {hidden} of {count} patches {how}, the final vector of {vector} has a cosine of {cosine} with that "
            "of the whole image.",
            vector=vector, cosine=number(runs.cosine), **facts,
        )  # fmt: skip
    first = max(effect.candidates, key=lambda one: one.before)
    last = max(effect.candidates, key=lambda one: one.after)
    sentence = _(
        "With {hidden} of {count} patches {how}, the probability of “{label}” is {after}, and was {before}.",
        label=plain_word(first.text), before=number(first.before), after=number(first.after), **facts,
    )  # fmt: skip
    if first is last:
        return sentence
    more = _("Now “{label}” is likeliest, with {after}.", label=plain_word(last.text), after=number(last.after))
    return f"{sentence} {more}"


def _mass_sentence(state: EffectsState, runs: HiddenRegion, weights: np.ndarray) -> str:
    """Returns what a query gives to the region before and after, and to which key outside more than before."""
    (layer, head), inputs = state.shown_head, runs.layers_before[state.shown_head[0]].inputs
    name = head_name(runs.layers_before[layer].name, head)
    before, after = weights[:, list(runs.positions)].sum(-1)
    gain = weights[1] - weights[0]
    gain[list(runs.positions)] = -np.inf
    key = int(gain.argmax())
    sentence = _(
        "{head}: “{query}” gives {before} of its attention to the region, and {after} once it is hidden.",
        head=f"{name[:1].upper()}{name[1:]}",
        query=plain_word(inputs.query_tokens[state.looks_from]),
        before=number(before),
        after=number(after),
    )
    if not gain[key] > 0:
        return sentence
    facts = {"key": plain_word(inputs.key_tokens[key]), "old": number(weights[0, key]), "new": number(weights[1, key])}
    return f"{sentence} {_('The key that gains most is “{key}”: from {old} to {new}.', **facts)}"


def _quantities(state: EffectsState, effect: RegionEffect, runs: HiddenRegion, weights: np.ndarray) -> Quantities:
    before, after = weights[:, list(runs.positions)].sum(-1).tolist()
    numbers = {"weight of the region before": before, "weight of the region after": after}
    for one in effect.candidates:
        name = f"probability of {plain_word(one.text)}"
        numbers |= {f"{name} before": one.before, f"{name} after": one.after}
    return numbers if effect.candidates else numbers | {"cosine": runs.cosine}
