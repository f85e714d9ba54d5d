"""Controls of the model and its input on the Models page."""

from dataclasses import dataclass
from typing import Any

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.formatting import grouped
from attnviz.language import N_, _
from attnviz.models import MINILM, model_cache
from attnviz.models.hub import NotDownloaded, RemoteModel, allowed_models, model_id
from attnviz.models.model import LoadedModel
from attnviz.models.number_types import type_name
from attnviz.models.text_inputs import MOST_TOKENS
from attnviz.server.page_runs import PageEnd
from attnviz.sources import Model
from attnviz.sources.model import load_model
from attnviz.sources.source import MissingInput
from attnviz.sources.upload import File
from attnviz.state.models import ModelsState
from attnviz.state.session_fields import text_note
from attnviz.trace import Trace
from attnviz.ui import cache, conversion, presentation
from attnviz.ui.field_widgets import draw, draw_text, field_text
from attnviz.ui.markdown import plain
from attnviz.ui.models import model_download
from attnviz.ui.session_values import SessionValue, has_widget, read_widget, write_widget

ANOTHER = N_(
    "Any model of the [Hugging Face hub](https://huggingface.co/models) that transformers itself "
    "can build, with weights as safetensors; or a folder on the computer that runs attnviz. No "
    "code that comes with a model is run."
)
LAST = "model source"  # under which the last source that could be read is kept
MODEL = ModelsState.model.parameter
LONGEST_PATH = 44  # characters of a folder's path
PICTURE_WIDTH = 120  # pixels of the picture beside the upload
MOST_MISSING = 3  # layers that are named when they cannot be shown


@dataclass(frozen=True)
class _Refused:
    """A model that cannot be loaded, and why."""

    name: str
    problem: ValueError
    away: RemoteModel | None = None  # where it can be downloaded


_session_models = SessionValue[list[str]]("models of this session", list)
_names_submitted = SessionValue("submitted names", int)
_refused = SessionValue[_Refused | None]("refused model", lambda: None)


def choose_model(notes: DeltaGenerator) -> tuple[Model, Trace]:
    """Draws the widgets of the model and its input; returns the source and its layers.

    If the model cannot be loaded, the reason is shown in `notes`, and the page ends. If it cannot read the input, the
    last good source of the same model is returned.
    """
    with st.sidebar:
        name = _choose_model()
        facts = st.container()
    place = presentation.control("input", horizontal=True, gap="small")
    with notes, st.spinner(_("Loading the model …"), show_time=True):
        refused = _load(name)
    if refused is not None:
        cache.show_problem(refused.problem, notes)
        with notes:
            _offer_remedy(refused)
        raise PageEnd
    with place:
        text, pair, picture = _choose_input(load_model(name), facts)
    with notes, st.spinner(_("Reading …"), show_time=True):
        readable = read_or_last(LAST, Model(text, name, pair, picture), Model(), notes)
    if readable is None:
        raise PageEnd
    source, layers = readable
    _session_models.set([*dict.fromkeys([*_session_models.get(), name])])
    facts.caption(plain(_model_facts(source, layers)))
    if note := text_note(text, pair):
        notes.caption(note)
    for note in model_notes(source.model(), layers):
        notes.info(plain(note))
    return source, layers


def model_choices() -> list[str]:
    """Returns the models of the menu: those available without a download or allowed by a hosted instance, and those
    used in this session."""
    return list(dict.fromkeys([*model_cache.available_models(model_cache.HUB), *_session_models.get()]))


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


def _choose_model() -> str:
    """Draws the menu of models, and the widgets for others if this instance allows them; returns the model's name."""
    hosted = allowed_models() is not None
    current = field_text(ModelsState.model) or MINILM  # even if it will be refused, with a reason
    if has_widget(MODEL) and current != typed_model(current):
        write_widget(MODEL, current := typed_model(current))
    options = list(dict.fromkeys([*model_choices(), current]))

    def menu(value: str, **more: Any) -> str | None:
        return st.selectbox(options=options, index=0, accept_new_options=not hosted, **more)

    name = draw_text(ModelsState.model, menu, **{"help": None} if hosted else {})
    if not hosted:
        # Each name has a box of its own: a box that is emptied in the run that closes its popover is no longer there
        # to hear of it, and its old text would be submitted once more when the popover is opened again.
        number = _names_submitted.get() or ""
        with st.popover(_("Another model"), icon=":material/add:", width="stretch", key=f"another model{number}"):
            st.text_input(
                _("Its id on the hub, or the path of a folder"), key=f"another{number}", on_change=_submit,
                placeholder="openai-community/gpt2", args=(f"another{number}",),
            )  # fmt: skip
            st.caption(_(ANOTHER))
    return typed_model(name)


def typed_model(name: str | None) -> str:
    """Returns the id in an address; an invalid address is returned unchanged, so that loading it gives the reason."""
    try:
        return model_id(name or MINILM)
    except ValueError:
        return name or MINILM


def _submit(box: str) -> None:
    if name := read_widget(box).strip():
        write_widget(MODEL, name)
        _names_submitted.set(_names_submitted.get() + 1)
        _refused.set(None)


def _load(name: str) -> _Refused | None:
    """Loads a model; returns why it cannot be loaded, or None. Refused models are not tried again in every run."""
    refused = _refused.get()
    if refused is None or refused.name != name:
        try:
            load_model(name, conversion.progress_bar())
            refused = None
        except NotDownloaded as problem:
            refused = _not_downloaded(name, problem)
        except ValueError as problem:
            refused = _Refused(name, problem)
        _refused.set(refused)
    return refused


def _not_downloaded(name: str, missing: NotDownloaded) -> _Refused:
    """Returns a message about a model that is not on this computer."""
    try:
        away = model_cache.HUB.find(name)
    except ValueError as problem:
        # A wheel can be installed without the hub.
        return _Refused(name, MissingInput(str(missing)) if name in model_cache.WHEEL_MODELS else problem)
    takes = model_download.takes(away)
    return _Refused(name, MissingInput(f"{missing} {takes}" if name in model_cache.WHEEL_MODELS else takes), away)


def _offer_remedy(refused: _Refused) -> None:
    """Draws a remedy for a model that could not be loaded."""
    if refused.away is not None:
        if model_cache.HUB.folder(refused.name) is not None:  # meanwhile it was downloaded
            _refused.set(None)
            st.rerun()
        model_download.offer(refused.away, model_cache.HUB)
    elif allowed_models() is None or refused.name in model_choices():
        st.button(_("Try again"), icon=":material/refresh:", key="again", on_click=_refused.set, args=(None,))


def _choose_input(model: LoadedModel, facts: DeltaGenerator) -> tuple[str, str, File | None]:
    """Draws the widgets of the model's inputs; returns a text, a second one, and a picture."""
    text = pair = ""
    if "text" in model.modality:
        text, pair = draw(ModelsState.text), _choose_pair(model)
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
