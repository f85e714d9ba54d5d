"""Controls of the model and its input on the Models page."""

from dataclasses import replace

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.formatting import grouped
from attnviz.language import N_, _
from attnviz.models import model_cache
from attnviz.models.hub import MINILM, NotDownloaded, RemoteModel, allowed_models, is_minilm, model_id
from attnviz.models.image_inputs import FORMATS
from attnviz.models.model import Model
from attnviz.models.number_types import type_name
from attnviz.models.text_inputs import MOST_TOKENS
from attnviz.settings import MB, upload_bytes
from attnviz.sources.source import MissingInput
from attnviz.sources.upload import File
from attnviz.text import EXAMPLE
from attnviz.trace import Trace
from attnviz.ui import cache, head_controls, presentation
from attnviz.ui.markdown import plain
from attnviz.ui.models import download
from attnviz.ui.models.model_source import ModelSource, UploadedPictureSource, load_model
from attnviz.ui.models.text_box import choose_text, not_linked_note
from attnviz.ui.page_runs import PageEnd

ANOTHER = N_(
    "Any model of the [Hugging Face hub](https://huggingface.co/models) that transformers itself "
    "can build, with weights as safetensors; or a folder on the computer that runs attnviz. No "
    "code that comes with a model is run."
)
# Keys of the session.
MODEL = "model"  # of the menu, and in the link
LAST = "model source"  # the last source that could be read
SESSION = "models of this session"
SUBMITTED = "submitted names"  # how many there were
REFUSED = "refused model"  # with the reason
LINKED = "layer and head of a link"
AWAY = "model to download"
HELP = N_("Models that are on this computer.")
LONGEST = 44  # characters of a folder's path
PICTURE_WIDTH = 120  # pixels of the picture beside the upload
PICTURE_MB = 16  # of an uploaded picture, where uploads may be as large
MOST_MISSING = 3  # layers that are named when they cannot be shown


def choose_model(notes: DeltaGenerator) -> tuple[ModelSource, Trace]:
    """Draws the widgets of the model and its input; returns the source and its layers.

    If the model cannot be loaded, the reason is shown in `notes`, and the page ends. If it cannot read the input, the
    last good source of the same model is returned.
    """
    with st.sidebar:
        name = _choose_model()
        facts = st.container()
    place = presentation.control("input", horizontal=True, gap="small")
    with notes, st.spinner(_("Loading the model …"), show_time=True):
        problem = _load(name)
    if problem is not None:
        _keep_link(name)
        cache.show_problem(problem, notes)
        with notes:
            _offer_remedy(name)
        raise PageEnd
    with place:
        chosen = _choose_input(name, facts)
    with notes, st.spinner(_("Reading …"), show_time=True):
        readable = read_or_last(LAST, chosen, ModelSource(), notes)
    if readable is None:
        raise PageEnd
    source, layers = readable
    if source == chosen:
        st.session_state[SESSION] = list(dict.fromkeys([*st.session_state.get(SESSION, []), name]))
    _take_link(name, layers)
    facts.caption(plain(_model_facts(source, layers)))
    if note := not_linked_note(chosen.text, chosen.pair):
        notes.caption(note)
    for note in model_notes(source.model(), layers):
        notes.info(plain(note))
    return source, layers


def model_choices() -> list[str]:
    """Returns the models of the menu: those available without a download or allowed by a hosted instance, and those
    used in this session."""
    return list(dict.fromkeys([*model_cache.available_models(model_cache.HUB), *st.session_state.get(SESSION, [])]))


def picture_megabytes() -> int:
    """Returns the largest size of an uploaded picture in megabytes."""
    return min(PICTURE_MB, upload_bytes() // MB)


def read_or_last(
    name: str, chosen: ModelSource, example: ModelSource, notes: DeltaGenerator
) -> tuple[ModelSource, Trace] | None:
    """Returns a source with its layers. If it cannot be read, the last good one of the same model, or the example if it
    is of that model; else None."""
    is_of_model = example.subject == chosen.subject
    source = cache.or_last_good(name, chosen.subject, chosen.run, lambda: example.run() if is_of_model else None, notes)
    try:
        return None if source is None else (source, source.layers())
    except ValueError as problem:  # its folder has been removed or replaced
        cache.show_problem(problem, notes)
        return None


def model_notes(model: Model, layers: Trace) -> list[str]:
    """Returns notes on a model and on its missing layers."""
    missing = layers.missing
    more = (
        [_("{count} more are not shown.").format(count=len(missing) - MOST_MISSING)]
        if len(missing) > MOST_MISSING
        else []
    )
    image_note = model.image_inputs.note if model.image_inputs and "picture" in model.modality else ""
    return [*model.notes, *filter(None, [image_note]), *missing[:MOST_MISSING], *more]


def _model_facts(source: ModelSource, layers: Trace) -> str:
    """Returns a sentence about the class and the size of a model."""
    model = source.model()
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    heads = sorted({layer.inputs.heads for layer in layers})
    head_counts = f"{heads[0]}" if len(heads) == 1 else _("{head} to {head_2}").format(head=heads[0], head_2=heads[-1])
    reader = _("the model") if model.limit < MOST_TOKENS else "attnviz"
    limit = (
        _("; {reader} reads at most {limit} tokens").format(reader=reader, limit=grouped(model.limit))
        if "text" in model.modality
        else ""
    )
    name = shortened_path(source.name) if model_cache.is_path(source.name) else model.name
    title = f"{name} ({type(model.model).__name__})"
    dtype = (
        ""
        if model.model.dtype is torch.float32
        else _(" in {type_name}").format(type_name=type_name(model.model.dtype))
    )
    return _("{title}: {count} attention layers of {head_counts} heads, {parameters} parameters{dtype}{limit}").format(
        title=title,
        count=layers.layer_count,
        head_counts=head_counts,
        parameters=grouped(parameters),
        dtype=dtype,
        limit=limit,
    )


def shortened_path(path: str) -> str:
    """Returns a path, without its middle if it is long."""
    start, rest = path.split("/")[:2], path.split("/")[2:]
    while len(path) > LONGEST and len(rest) > 1:
        rest = rest[1:]
        path = "/".join([*start, "…", *rest])
    return path if len(path) <= LONGEST else f"…{path[1 - LONGEST :]}"


def _choose_model() -> str:
    """Draws the menu of models, and the widgets for others if this instance allows them; returns the model's name."""
    hosted, state = allowed_models() is not None, st.session_state
    if state.get(MODEL) and state[MODEL] != _model_id(state[MODEL]):
        state[MODEL] = _model_id(state[MODEL])
    current = state.get(MODEL, st.query_params.get(MODEL)) or MINILM  # even if it will be refused, with a reason
    options = list(dict.fromkeys([*model_choices(), current]))
    name = st.selectbox(
        _("Model"), options, 0, key=MODEL, bind="query-params", accept_new_options=not hosted,
        help=None if hosted else _(HELP),
    )  # fmt: skip
    if not hosted:
        # Each name has a box of its own: a box that is emptied in the run that closes its popover is no longer there
        # to hear of it, and its old text would be submitted once more when the popover is opened again.
        number = state.get(SUBMITTED) or ""
        with st.popover(_("Another model"), icon=":material/add:", width="stretch", key=f"another model{number}"):
            st.text_input(
                _("Its id on the hub, or the path of a folder"), key=f"another{number}", on_change=_submit,
                placeholder="openai-community/gpt2", args=(f"another{number}",),
            )  # fmt: skip
            st.caption(_(ANOTHER))
    return _model_id(name)


def _model_id(name: str | None) -> str:
    """Returns the id in an address; an invalid address is returned unchanged, so that loading it gives the reason."""
    try:
        return model_id(name or MINILM)
    except ValueError:
        return name or MINILM


def _submit(box: str) -> None:
    if name := st.session_state[box].strip():
        st.session_state[MODEL] = name
        st.session_state[SUBMITTED] = st.session_state.get(SUBMITTED, 0) + 1
        st.session_state.pop(REFUSED, None)


def _load(name: str) -> ValueError | None:
    """Loads a model; returns why it cannot be loaded, or None. Refused models are not tried again in every run."""
    state = st.session_state
    if state.get(REFUSED, ("",))[0] != name:
        state.pop(REFUSED, None)
        state.pop(AWAY, None)
        try:
            load_model(name)
        except NotDownloaded as problem:
            state[REFUSED] = name, _not_downloaded(name, problem)
        except ValueError as problem:
            state[REFUSED] = name, problem
    return state[REFUSED][1] if REFUSED in state else None


def _not_downloaded(name: str, missing: NotDownloaded) -> ValueError:
    """Returns a message about a model that is not on this computer."""
    try:
        away = model_cache.HUB.find(name)
    except ValueError as problem:
        return MissingInput(str(missing)) if is_minilm(name) else problem  # it can be installed without the hub
    st.session_state[AWAY] = away
    return MissingInput(f"{missing} {download.takes(away)}" if is_minilm(name) else download.takes(away))


def _offer_remedy(name: str) -> None:
    """Draws a remedy for a model that could not be loaded."""
    away = st.session_state.get(AWAY)
    if isinstance(away, RemoteModel):
        if model_cache.HUB.folder(name) is not None:  # meanwhile it was downloaded
            _retry()
            st.rerun()
        download.offer(away, model_cache.HUB)
    elif allowed_models() is None or name in model_choices():
        st.button(_("Try again"), icon=":material/refresh:", key="again", on_click=_retry)


def _retry() -> None:
    st.session_state.pop(REFUSED, None)


def _keep_link(name: str) -> None:
    """Stores the layer and head of a link until its model can be shown."""
    if "layer" not in st.session_state:
        link = {key: st.query_params[key] for key in ("layer", "head") if key in st.query_params}
        st.session_state[LINKED] = name, link


def _take_link(name: str, layers: Trace) -> None:
    """Selects the layer and head of a link whose model could not be shown before."""
    linked, link = st.session_state.pop(LINKED, (name, {}))
    if linked == name:
        head_controls.reserve(layers, **link)


def _choose_input(name: str, facts: DeltaGenerator) -> ModelSource:
    """Draws the widgets of the model's inputs."""
    model, source = load_model(name), ModelSource("" if is_minilm(name) else name, "")
    if "text" in model.modality:
        source = replace(source, text=choose_text(_("Text"), EXAMPLE, "text"))
        source = replace(source, pair=_choose_pair(model))
    picture = _choose_picture(model, facts) if "picture" in model.modality else None
    return UploadedPictureSource(source.name, source.text, source.pair, picture) if picture else source


def _choose_picture(model: Model, facts: DeltaGenerator) -> File | None:
    """Draws the upload, and the picture as the model sees it."""
    kinds = [kind.lower() for kind in FORMATS]
    inputs = model.image_inputs
    about = _("It is resized and cropped as the model’s own image processor does.")
    if inputs is None or inputs.processor.square:
        about = _("The largest square from its middle is what the model sees.")
    uploaded = st.file_uploader(_("Picture"), kinds, key="picture", max_upload_size=picture_megabytes(), help=about)
    file = File(uploaded.name, uploaded.getvalue()) if uploaded else None
    if inputs is not None:
        try:
            pixels = inputs.shown(file.data if file else None)
        except ValueError:  # which is shown where the model reads it
            return file
        *_channels, height, width = pixels.shape
        facts.image(
            (pixels * 255).byte().permute(1, 2, 0).numpy(),
            _("{width} × {height} pixels, as the model sees it").format(width=width, height=height),
            width=PICTURE_WIDTH,
        )
    return file


def _choose_pair(model: Model) -> str:
    label, about = _("Second text"), _("Another sentence, which the model reads after the first.")
    if model.is_encoder_decoder:
        label, about = (
            _("Decoder’s input"),
            _("What the decoder reads, and goes on with; without it, it writes by itself."),
        )
    elif model.outputs == "next token":
        about = _("The model reads it right after the first, as one text.")
    return choose_text(label, "", "second", help=about, width=260)
