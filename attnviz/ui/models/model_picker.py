"""Controls of the model and its input on the Models page."""

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.formatting import grouped
from attnviz.language import _
from attnviz.models import model_cache
from attnviz.models.model import LoadedModel
from attnviz.models.number_types import type_name
from attnviz.models.text_inputs import MOST_TOKENS
from attnviz.server.page_runs import PageEnd
from attnviz.sources import Model
from attnviz.sources.model import load_model
from attnviz.sources.upload import File
from attnviz.state.models import ModelsState
from attnviz.trace import Trace
from attnviz.ui import cache, model_menu, presentation
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain

LAST = "model source"  # under which the last source that could be read is kept
LONGEST_PATH = 44  # characters of a folder's path
PICTURE_WIDTH = 120  # pixels of the picture beside the upload
MOST_MISSING = 3  # layers that are named when they cannot be shown


def choose_example(notes: DeltaGenerator) -> tuple[Model, Trace]:
    """Draws the widgets of the model and its input; returns the source and its layers.

    If the model cannot be loaded, the reason is shown in `notes`, and the page ends. If it cannot read the input, the
    last good source of the same model is returned.
    """
    with st.sidebar:
        name = model_menu.choose_model(ModelsState.model)
        facts = st.container()
    place = presentation.control("input", horizontal=True, gap="small")
    model_menu.load_or_end(name, notes)
    with place:
        text, pair, picture = _choose_input(name, facts)
    typed = Model(text, name, pair, picture)
    with notes, st.spinner(_("Reading …"), show_time=True):
        readable = read_or_last(LAST, typed, typed.own_example, notes)
    if readable is None:
        raise PageEnd
    source, layers = readable
    model_menu.keep_model(name)
    facts.caption(plain(_model_facts(source, layers)))
    model_menu.show_word_pieces(source.name, source.text, notes)
    for note in model_notes(source.model(), layers):
        notes.info(plain(note))
    return source, layers


def read_or_last(key: str, source: Model, example: Model, notes: DeltaGenerator) -> tuple[Model, Trace] | None:
    """Returns a source with its layers. If they cannot be made, the last good one of the same model that still can, or
    the example if it is of that model; else None."""

    def read() -> Model:
        source.layers()
        return source

    first = example if example.subject == source.subject else None
    readable = cache.or_last_good(key, source.subject, read, lambda: first, notes)
    if readable is None:
        return None
    try:
        return readable, readable.layers()
    except ValueError as problem:  # its folder has been removed or replaced
        cache.show_problem(problem, notes)
        return None


def model_notes(model: LoadedModel, layers: Trace) -> list[str]:
    """Returns notes on a model and on its missing layers."""
    missing = layers.missing
    more = [_("{count} more are not shown.", count=len(missing) - MOST_MISSING)] if len(missing) > MOST_MISSING else []
    image_note = model.image_inputs.note if model.image_inputs and "picture" in model.modality else ""
    return [*model.notes, *filter(None, [image_note]), *missing[:MOST_MISSING], *more]


def _model_facts(source: Model, layers: Trace) -> str:
    """Returns a sentence about the class and the size of a model."""
    model = source.model()
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    heads = sorted({layer.inputs.heads for layer in layers})
    head_counts = f"{heads[0]}" if len(heads) == 1 else _("{fewest} to {most}", fewest=heads[0], most=heads[-1])
    name = shortened_path(source.name) if model_cache.is_path(source.name) else model.name
    title = f"{name} ({type(model.model).__name__})"
    size = _("{parameters} parameters", parameters=grouped(parameters))
    if model.model.dtype is not torch.float32:
        size = _("{size} in {type_name}", size=size, type_name=type_name(model.model.dtype))
    facts = _(
        "{title}: {count} attention layers of {head_counts} heads, {size}",
        title=title, count=layers.layer_count, head_counts=head_counts, size=size,
    )  # fmt: skip
    if "text" not in model.modality:
        return facts
    reader = _("the model") if model.limit < MOST_TOKENS else "attnviz"
    limit = _("{reader} reads at most {limit} tokens", reader=reader, limit=grouped(model.limit))
    return f"{facts}; {limit}"


def shortened_path(path: str) -> str:
    """Returns a path, without its middle if it is long."""
    start, rest = path.split("/")[:2], path.split("/")[2:]
    while len(path) > LONGEST_PATH and len(rest) > 1:
        rest = rest[1:]
        path = "/".join([*start, "…", *rest])
    return path if len(path) <= LONGEST_PATH else f"…{path[1 - LONGEST_PATH :]}"


def _choose_input(name: str, facts: DeltaGenerator) -> tuple[str, str, File | None]:
    """Draws the widgets of the model's inputs; returns a text, a second one, and a picture."""
    text, pair, model = "", "", load_model(name)
    if "text" in model.modality:
        text, pair = draw(ModelsState.text, ModelsState.partial(model=name)), _choose_pair(model)
    return text, pair, _choose_picture(model, facts) if "picture" in model.modality else None


def _choose_picture(model: LoadedModel, facts: DeltaGenerator) -> File | None:
    """Draws the upload, and the picture as the model sees it."""
    inputs = model.image_inputs
    about = _("It is resized and cropped as the model’s own image processor does.")
    if inputs is None or inputs.processor.square:
        about = _("The largest square from its middle is what the model sees.")
    file = draw(ModelsState.picture, help=about)
    if inputs is not None:
        try:
            pixels = inputs.shown(file.data if file else None)
        except ValueError:  # which is shown where the model reads it
            return file
        *_channels, height, width = pixels.shape
        facts.image(
            (pixels * 255).byte().permute(1, 2, 0).numpy(),
            _("{width} × {height} pixels, as the model sees it", width=width, height=height),
            width=PICTURE_WIDTH,
        )
    return file


def _choose_pair(model: LoadedModel) -> str:
    label, about = _("Second text"), _("Another sentence, which the model reads after the first.")
    if model.is_encoder_decoder:
        label, about = (
            _("Decoder’s input"),
            _("What the decoder reads, and continues; without it, it writes by itself."),
        )
    elif model.outputs == "next token":
        about = _("The model reads it right after the first, as one text, with a space between two words.")
    return draw(ModelsState.second, label=label, help=about, width=260)
