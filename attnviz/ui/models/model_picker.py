"""Which model reads what."""

from dataclasses import dataclass, field, replace
from itertools import count
from typing import ClassVar
from weakref import WeakKeyDictionary

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.head_maps import Special, shown_positions
from attnviz.layer import Trace
from attnviz.models import model_cache
from attnviz.models.hub import MINILM, Away, allowed, named
from attnviz.models.image_inputs import FORMATS
from attnviz.models.model import Model
from attnviz.models.text_inputs import MOST_TOKENS
from attnviz.sources.source import MissingInput, Opening, Source
from attnviz.sources.upload import File
from attnviz.text import EXAMPLE
from attnviz.ui import cache, head_controls
from attnviz.ui.markdown import plain
from attnviz.ui.models import download

ANOTHER = (
    "Any model of the [Hugging Face hub](https://huggingface.co/models) that transformers itself can build, with "
    "weights as safetensors; or a folder on the computer that runs attnviz. No code that comes with a model is run."
)
SESSION, TAKEN, REFUSED, LINKED = "models of this session", "names taken", "refused model", "layer and head of a link"
HELP = "Models that are on this computer."
LONGEST = 44  # characters of a folder's path
SEEN = 120  # pixels of the picture beside the upload
PICTURE_MB = 16  # of a picture that someone brings
MOST_MISSING = 3  # layers that are named when they cannot be shown
_editions: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
_count = count()


@dataclass(frozen=True)
class Example(Source):
    """A text, a pair of texts or a picture through a model: an id of the hub, or a local folder."""

    name: str = ""  # as `shelf.model` takes it
    text: str = field(default=EXAMPLE, metadata={"label": "Text"})
    pair: str = field(default="", metadata={"label": "Second text"})
    image: File | None = None
    # Tells a folder's model from the one that was there before it was saved anew: `repr` is the key of what is kept.
    edition: int = field(default=0, compare=False)
    last: int | None = field(default=None, compare=False, repr=False)  # the position of its last token

    @property
    def opening(self) -> Opening:
        if self.name not in ("", MINILM):
            return Opening(0, 0, self.last)
        return Opening(layer=3, head=1, query=10 if self == Example() else self.last)

    def model(self) -> Model:
        """The model of that name, in memory."""
        return model_cache.model(self.name, model_cache.HUB)

    def layers(self) -> Trace:
        return self.model().layers(self.text, self.pair, self.image.data if self.image else None)

    def read(self) -> "Example":
        """The same, once its layers are there; raises ValueError, in words, where it cannot be read."""
        inputs = self.layers()[0].inputs
        typed = shown_positions(inputs.queries, inputs.special_queries, Special.HIDDEN)
        edition = _editions.setdefault(self.model(), next(_count))
        return replace(self, edition=edition, last=typed[-1] if typed else None)


class WithPicture(Example):
    """An example with a picture that a person has brought: it stays in the session, and is in no link."""

    private: ClassVar[bool] = True


def example(notes: DeltaGenerator) -> tuple[Example, Trace]:
    """What is asked for, or what could be read last, and its layers; what is in the way stands in `notes`."""
    with st.sidebar:
        name = _name()
        told = st.container()
    place = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="given")
    with notes, st.spinner("Loading the model …", show_time=True):
        refused = _refused(name)
    with place:
        given = _given(name if refused is None else _last(), told)
    with notes, st.spinner("Reading …", show_time=True):
        shown = cache.or_last_good("example", given.read, lambda: Example().read(), notes, refused)
        shown, layers = still_there(shown, Example())
    if refused is not None:
        with notes:
            _in_the_way(name)
    elif shown == given:
        st.session_state[SESSION] = list(dict.fromkeys([*st.session_state.get(SESSION, []), name]))
    _keep_link(name, refused, layers)
    told.caption(plain(_facts(shown, layers)))
    for note in notes_of(shown.model(), layers):
        notes.info(plain(note))
    return shown, layers


def choices() -> list[str]:
    """The models that can be chosen here by name: those that need no network, or that a hosted instance's owner lists,
    and those that were shown in this session."""
    return list(dict.fromkeys([*model_cache.choices(model_cache.HUB), *st.session_state.get(SESSION, [])]))


def still_there(shown: Example, otherwise: Example) -> tuple[Example, Trace]:
    """An example that was read once, or another where its folder has gone since; with its layers."""
    try:
        return shown, shown.layers()
    except ValueError:
        return otherwise.read(), otherwise.layers()


def notes_of(model: Model, layers: Trace) -> list[str]:
    """What is to be said of a model before its attention is looked at."""
    missing = layers.missing
    more = [f"{len(missing) - MOST_MISSING} more are not shown."] if len(missing) > MOST_MISSING else []
    return [*model.notes, *missing[:MOST_MISSING], *more]


def _facts(shown: Example, layers: Trace) -> str:
    """What kind of model it is, and how large."""
    model = shown.model()
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    heads = sorted({layer.inputs.heads for layer in layers})
    of = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
    who = "the model" if model.limit < MOST_TOKENS else "attnviz"
    limit = f"; {who} reads at most {model.limit:,} tokens" if "text" in model.modality else ""
    name = f"{shortened(shown.name) if model_cache.is_path(shown.name) else model.name} ({type(model.model).__name__})"
    return f"{name}: {len(layers)} attention layers of {of} heads, {parameters:,} parameters{limit}"


def shortened(path: str) -> str:
    """A path without what is in its middle, if it is long: its end tells folders apart."""
    start, rest = path.split("/")[:2], path.split("/")[2:]
    while len(path) > LONGEST and len(rest) > 1:
        rest = rest[1:]
        path = "/".join([*start, "…", *rest])
    return path if len(path) <= LONGEST else f"…{path[1 - LONGEST :]}"


def _name() -> str:
    """The model that is named: one of those that are here, or, unless that is not allowed, any other."""
    hosted, state = allowed() is not None, st.session_state
    if state.get("model") and state["model"] != _id(state["model"]):
        state["model"] = _id(state["model"])
    asked = state.get("model", st.query_params.get("model")) or MINILM  # also if it is refused, which is said then
    options = list(dict.fromkeys([*choices(), asked]))
    name = st.selectbox(
        "Model", options, 0, key="model", bind="query-params", accept_new_options=not hosted,
        help=None if hosted else HELP,
    )  # fmt: skip
    if not hosted:
        # Each name has a box of its own: a box that is emptied in the run that closes its popover is no longer there
        # to hear of it, and its old text would be sent, and taken, once more when the popover is opened again.
        taken = state.get(TAKEN) or ""
        with st.popover("Another model", icon=":material/add:", width="stretch", key=f"another model{taken}"):
            st.text_input(
                "Its id on the hub, or the path of a folder", key=f"another{taken}", on_change=_take,
                placeholder="openai-community/gpt2", args=(f"another{taken}",),
            )  # fmt: skip
            st.caption(ANOTHER)
    return _id(name)


def _id(name: str | None) -> str:
    """A name without the address around it; an address that is refused is refused later, in words."""
    try:
        return named(name or MINILM)
    except ValueError:
        return name or MINILM


def _take(box: str) -> None:
    if name := st.session_state[box].strip():
        st.session_state["model"] = name
        st.session_state[TAKEN] = st.session_state.get(TAKEN, 0) + 1
        st.session_state.pop(REFUSED, None)


def _refused(name: str) -> ValueError | None:
    """What is in the way of a model, or nothing once it is in memory. What was refused is not tried again on every
    click of a widget."""
    state = st.session_state
    if state.get(REFUSED, ("",))[0] != name:
        state.pop(REFUSED, None)
        state.pop("away", None)
        try:
            model_cache.model(name, model_cache.HUB)
        except model_cache.NotHere:
            state[REFUSED] = name, _away(name)
        except ValueError as problem:
            state[REFUSED] = name, problem
    return state[REFUSED][1] if REFUSED in state else None


def _last() -> str:
    """The model that could be shown last, if it is still there."""
    shown = cache.last("example")
    try:
        if shown is not None and shown.model():
            return shown.name or MINILM
    except ValueError:  # its folder has gone since
        cache.forget("example")
    return MINILM


def _away(name: str) -> ValueError:
    """What is in the way of a model that is not here."""
    try:
        away = model_cache.HUB.away(name)
    except ValueError as problem:
        return problem
    st.session_state["away"] = away
    return MissingInput(download.takes(away))


def _in_the_way(name: str) -> None:
    """What can be done about a model that could not be loaded."""
    away = st.session_state.get("away")
    if isinstance(away, Away):
        if model_cache.HUB.folder(name) is not None:  # meanwhile it has come
            _again()
            st.rerun()
        download.offer(away, model_cache.HUB)
    elif allowed() is None or name in choices():
        st.button("Try again", icon=":material/refresh:", key="again", on_click=_again)


def _again() -> None:
    st.session_state.pop(REFUSED, None)


def _keep_link(name: str, refused: ValueError | None, layers: Trace) -> None:
    """What a link says of the layer and the head of a model that cannot be shown yet is kept until it can."""
    link = {key: st.query_params[key] for key in ("layer", "head") if key in st.query_params}
    if refused is not None and "layer" not in st.session_state:
        st.session_state[LINKED] = name, link
    elif refused is None:
        of, link = st.session_state.pop(LINKED, (name, {}))
        if of == name:
            head_controls.reserve(layers, **link)


def _given(name: str, told: DeltaGenerator) -> Example:
    """What the model of that name is given to read or to see."""
    model, given = model_cache.model(name, model_cache.HUB), Example("" if name == MINILM else name, "")
    if "text" in model.modality:
        given = replace(given, text=st.text_input("Text", EXAMPLE, key="text", bind="query-params"))
        given = replace(given, pair=_pair(model))
    uploaded = _picture(model, told) if "picture" in model.modality else None
    return WithPicture(given.name, given.text, given.pair, uploaded) if uploaded else given


def _picture(model: Model, told: DeltaGenerator) -> File | None:
    """A picture that is brought; what the model sees of it, or of the drawing that stands in for it, is shown."""
    kinds = [kind.lower() for kind in FORMATS]
    about = "The largest square from its middle is what the model sees."
    brought = st.file_uploader("Picture", kinds, key="picture", max_upload_size=PICTURE_MB, help=about)
    file = File(brought.name, brought.getvalue()) if brought else None
    view = model.image_inputs
    if view is not None:
        try:
            seen = view.pixels(file.data if file else None)[0]
        except ValueError:  # which is said where the model is given it
            return file
        mean, spread = (torch.tensor(of[: len(seen)])[:, None, None] for of in (view.mean, view.spread))
        side = view.size // view.patch
        told.image(
            ((seen * spread + mean).clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy(),
            f"{side} × {side} patches, named row·column",
            width=SEEN,
        )
    return file


def _pair(model: Model) -> str:
    label, about = "Second text", "Another sentence, which the model reads after the first."
    if model.is_encoder_decoder:
        label, about = "Written so far", "What the decoder has written; without it, it writes by itself."
    return st.text_input(label, key="second", bind="query-params", help=about, width=260)
