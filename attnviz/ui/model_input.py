"""The widgets of the source Model: the model, and what it reads, with the facts of the model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.formatting import grouped
from attnviz.base.language import N_, _, option_name, plural
from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, Layer
from attnviz.models import MINILM, model_cache
from attnviz.models.image_inputs import ImageInputs
from attnviz.models.minilm import minilm
from attnviz.models.model import LoadedModel
from attnviz.models.number_types import type_name
from attnviz.models.text_inputs import MOST_TOKENS
from attnviz.page.fields import ModelField, setting_field
from attnviz.page.head_state import HeadState
from attnviz.page.model_picture import model_image
from attnviz.page.parts import settings
from attnviz.page.picture_question import ABOUT_DRAWING
from attnviz.page.source_field import with_example
from attnviz.sources import Model, Source
from attnviz.sources.upload import File
from attnviz.trace import Trace
from attnviz.ui import model_menu
from attnviz.ui.field_widgets import draw_setting, hidden_container
from attnviz.ui.markdown import plain
from attnviz.ui.server.page_runs import PageEnd

FIDELITIES = {
    Fidelity.VERIFIED: N_("recomputed from the model's queries and keys, and compared with its own"),
    Fidelity.UNVERIFIED: N_("recomputed from the model's queries and keys; the model gives nothing to compare with"),
    Fidelity.WEIGHTS_ONLY: N_("as the model computed them, without queries and keys"),
}
LONGEST_PATH = 44  # characters of a folder's path
PICTURE_WIDTH = 64  # pixels of the image beside the upload, as high as this is
PICTURE_HEIGHT = 96
MOST_MISSING = 3  # layers that are named when they cannot be shown


def choose_model_source(
    start: Model, side: DeltaGenerator, more: DeltaGenerator, place: DeltaGenerator, notes: DeltaGenerator
) -> Model:
    """Draws the menu of models at the side, what the chosen one reads in its place, and in `more` other models and a
    second text; returns the source. If the model cannot be loaded, the reason is shown in `notes`, and the page
    ends."""
    setting = {each.name: each for each in settings(Model)}
    prefix = {name: HeadState.source.prefix(Model, name) for name in setting}
    with side:
        field = setting_field(setting["name"], prefix["name"], start)
        assert isinstance(field, ModelField)
        source = Model(name=model_menu.choose_model(field, more=more))
    source = with_example(source, source)
    # The default model is in memory, and a spinner would leave a gap above the figure.
    is_loaded = (source.name == MINILM and minilm.is_installed()) or model_menu.load(source.name, notes)
    modality = source.model().modality if is_loaded else "text"

    def draw_one(name: str, **options: Any) -> Any:
        return draw_setting(setting[name], prefix[name], source, **options)

    reads_text, image, drawing = "text" in modality, None, source.drawing
    with place if reads_text else hidden_container("text"):
        text = draw_one("text")
    with more if reads_text else hidden_container("second"):
        pair = choose_pair(partial(draw_one, "pair"), source.model() if is_loaded else None)
    if "picture" in modality:
        with side:
            drawing = draw_one("drawing", help=_(ABOUT_DRAWING))
        with side if reads_text else place:
            image = choose_picture(partial(draw_one, "image"), replace(source, drawing=drawing))
    if not is_loaded:
        raise PageEnd
    return Model(text, source.name, pair, image, drawing)


def show_facts(source: Source, layers: Sequence[Layer], place: DeltaGenerator) -> None:
    """Shows the facts of a model that has read a text or a picture; of another source nothing."""
    if isinstance(source, Model) and isinstance(layers, Trace):
        place.caption(plain(" ".join([f"{model_facts(source, layers)}.", *layer_facts(layers)])))


def show_model(source: Model, layers: Trace, side: DeltaGenerator, notes: DeltaGenerator) -> None:
    """Shows what is to be known of a model that has read a text or a picture, and of its layers."""
    model_menu.keep_model(source.name)
    for note in model_notes(source.model(), layers):
        side.info(plain(note))
    if leaks := [f"{option_name(layer.name)}: {layer.leak}" for layer in layers if layer.leak]:
        notes.warning(plain(" ".join(leaks)), icon=":material/visibility:")
    model_menu.show_word_pieces(source.name, source.text, notes)


def model_notes(model: LoadedModel, layers: Trace) -> list[str]:
    """Returns notes on a model and on its missing layers."""
    missing = layers.missing
    more = [_("{count} more are not shown.", count=len(missing) - MOST_MISSING)] if len(missing) > MOST_MISSING else []
    image_note = model.image_inputs.note if model.image_inputs and "picture" in model.modality else ""
    return [*model.notes, *filter(None, [image_note]), *missing[:MOST_MISSING], *more]


def model_facts(source: Model, layers: Trace) -> str:
    """Returns a sentence about the class and the size of a model."""
    model = source.model()
    heads = sorted({layer.inputs.heads for layer in layers})
    head_counts = f"{heads[0]}" if len(heads) == 1 else _("{fewest} to {most}", fewest=heads[0], most=heads[-1])
    name = shortened_path(source.name) if model_cache.is_path(source.name) else model.name
    title = f"{name} ({type(model.model).__name__})"
    size = _("{parameters} parameters", parameters=grouped(model.parameter_count))
    if model.model.dtype is not torch.float32:
        size = _("{size} in {type_name}", size=size, type_name=type_name(model.model.dtype))
    facts = _(
        "{title}: {count} attention layers of {head_counts} heads, {size}",
        title=title,
        count=layers.layer_count,
        head_counts=head_counts,
        size=size,
    )
    if "text" not in model.modality:
        return facts
    reader = _("the model") if model.limit < MOST_TOKENS else "attnviz"
    limit = _("{reader} reads at most {limit} tokens", reader=reader, limit=grouped(model.limit))
    return f"{facts}; {limit}"


def layer_facts(layers: Sequence[Layer]) -> list[str]:
    """Returns sentences about the heads of keys and values, and about where the weights of the layers come from."""
    grouped_inputs = [layer.inputs for layer in layers if isinstance(layer.inputs, Inputs)]
    counts = dict.fromkeys((inputs.heads, inputs.key.shape[0]) for inputs in grouped_inputs)
    sharing = [sharing_sentence(*count) for count in counts if count[1] < count[0]]
    fidelities = [layer.fidelity for layer in layers]
    origins = [
        plural("Weights of {count} layer: {origin}.", "Weights of {count} layers: {origin}.", count, count=count,
               origin=_(origin))
        for fidelity, origin in FIDELITIES.items() if (count := fidelities.count(fidelity))
    ]  # fmt: skip
    return [*sharing, *origins]


def sharing_sentence(heads: int, kv_heads: int) -> str:
    """Returns a sentence about how many query heads share how many heads of keys and values."""
    if kv_heads == 1:
        return _("All {heads} query heads share one head of keys and values (multi-query attention).", heads=heads)
    return _(
        "{heads} query heads share {kv_heads} heads of keys and values, {group} each (grouped-query attention).",
        heads=heads,
        kv_heads=kv_heads,
        group=heads // kv_heads,
    )


def shortened_path(path: str) -> str:
    """Returns a path, without its middle if it is long."""
    start, rest = path.split("/")[:2], path.split("/")[2:]
    while len(path) > LONGEST_PATH and len(rest) > 1:
        rest = rest[1:]
        path = "/".join([*start, "…", *rest])
    return path if len(path) <= LONGEST_PATH else f"…{path[1 - LONGEST_PATH :]}"


def choose_pair(draw_pair: Callable[..., str], model: LoadedModel | None) -> str:
    """Draws the second text, under the name of what the model does with it."""
    label, about = _("Second text"), _("Another sentence, which the model reads after the first.")
    if model and model.is_encoder_decoder:
        label, about = (
            _("Decoder’s input"),
            _("What the decoder reads, and continues; without it, it writes by itself."),
        )
    elif model and model.outputs == "next token":
        about = _("The model reads it right after the first, as one text, with a space between two words.")
    return draw_pair(label=label, help=about)


def choose_picture(draw_upload: Callable[..., File | None], source: Model) -> File | None:
    """Draws the upload, and the picture as the model sees it."""
    inputs = source.model().image_inputs
    about = _("It is resized and cropped as the model’s own image processor does.")
    if inputs is None or (isinstance(inputs, ImageInputs) and inputs.processor.square):
        about = _("The largest square from its middle is what the model sees.")
    with st.container(horizontal=True, key="model-picture"):
        with st.container():
            file = draw_upload(help=about)
        try:
            shown = model_image(replace(source, image=file))
        except ValueError:  # which is shown where the model reads it
            return file
        if shown is not None:
            (height, width, _channels), (left, top, right, bottom) = shown.colors.shape, shown.tiles[0]
            size = f"{right - left} × {bottom - top}"
            if (count := len(shown.tiles)) > 1:
                size = _("{count} tiles of {size}", count=count, size=size)
            st.image(shown.colors, size, width=min(PICTURE_WIDTH, PICTURE_HEIGHT * width // height or 1))
            if shown.note:
                st.caption(plain(shown.note))
    return file
