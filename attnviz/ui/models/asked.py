"""Which model reads what."""

from dataclasses import dataclass, field, replace
from itertools import count
from typing import ClassVar
from weakref import WeakKeyDictionary

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.inputs import Layer
from attnviz.measures import kept
from attnviz.sources.models import shelf
from attnviz.sources.models.hub import MINILM, Away, allowed
from attnviz.sources.models.model import Model
from attnviz.sources.models.picture import FORMATS
from attnviz.sources.source import NothingYet, Opening, Source
from attnviz.sources.text import EXAMPLE
from attnviz.sources.upload import File
from attnviz.ui import cache
from attnviz.ui.models import download
from attnviz.ui.plain import plain

ANOTHER = (
    "Any model of the [Hugging Face hub](https://huggingface.co/models) that transformers itself can build, with "
    "weights as safetensors; or a folder on the computer that runs attnviz. No code that comes with a model is run."
)
SESSION, MORE = "models of this session", "another model"
HELP = "Models that are on this computer."
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
        return shelf.model(self.name, shelf.HUB)

    def layers(self) -> list[Layer]:
        return self.model().layers(self.text, self.pair, self.image.data if self.image else None)

    def read(self) -> "Example":
        """The same, once its layers are there; raises ValueError, in words, where it cannot be read."""
        inputs = self.layers()[0].inputs
        typed = kept(inputs.queries, inputs.special_queries, "hidden")
        edition = _editions.setdefault(self.model(), next(_count))
        return replace(self, edition=edition, last=typed[-1] if typed else None)


class WithPicture(Example):
    """An example with a picture that a person has brought: it stays in the session, and is in no link."""

    private: ClassVar[bool] = True


def example(notes: DeltaGenerator) -> tuple[Example, list[Layer]]:
    """What is asked for, or what could be read last, and its layers; what is in the way stands in `notes`."""
    with st.sidebar:
        name = _name()
        told = st.container()
    place = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="given")
    with notes, st.spinner("Loading the model …", show_time=True):
        known = cache.or_last_good("model", lambda: _loaded(name), lambda: MINILM, notes)
    with notes:
        _in_the_way(name)
    with place:
        asked = _given(known, told)
    with notes, st.spinner("Reading …", show_time=True):
        shown = cache.or_last_good("example", asked.read, lambda: Example().read(), notes)
        shown, layers = still_there(shown, Example())
    told.caption(plain(_facts(shown.model(), layers)))
    for note in notes_of(shown.model(), layers):
        notes.info(plain(note))
    return shown, layers


def still_there(shown: Example, otherwise: Example) -> tuple[Example, list[Layer]]:
    """An example that was read once, or another where its folder has gone since; with its layers."""
    try:
        return shown, shown.layers()
    except ValueError:
        return otherwise.read(), otherwise.layers()


def notes_of(model: Model, layers: list[Layer]) -> list[str]:
    """What is to be said of a model before its attention is looked at."""
    missing = getattr(layers, "missing", [])
    more = [f"{len(missing) - MOST_MISSING} more are not shown."] if len(missing) > MOST_MISSING else []
    return [*model.notes, *missing[:MOST_MISSING], *more]


def _facts(model: Model, layers: list[Layer]) -> str:
    """What kind of model it is, and how large."""
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    heads = sorted({layer.inputs.heads for layer in layers})
    of = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
    limit = f", at most {model.limit:,} tokens" if "text" in model.reads else ""
    name = f"{model.name} ({type(model.model).__name__})"
    return f"{name}: {len(layers)} attention layers of {of} heads, {parameters:,} parameters{limit}"


def _name() -> str:
    """The model that is named: one of those that are here, or, unless that is not allowed, any other."""
    hosted = allowed() is not None
    options = shelf.choices(shelf.HUB)
    if not hosted:  # those of this session stay in the menu, once they are loaded
        asked = st.session_state.get("model", st.query_params.get("model")) or MINILM
        options = list(dict.fromkeys([*options, *st.session_state.get(SESSION, []), asked]))
    name = (
        st.selectbox("Model", options, 0, key="model", bind="query-params", accept_new_options=not hosted, help=HELP)
        or MINILM
    )
    if not hosted:
        with st.popover("Another model", icon=":material/add:", width="stretch", key=MORE, on_change="rerun"):
            st.text_input(
                "Its id on the hub, or the path of a folder", key="another", on_change=_take,
                placeholder="openai-community/gpt2",
            )  # fmt: skip
            st.caption(ANOTHER)
    return name


def _take() -> None:
    if name := st.session_state["another"].strip():
        st.session_state["model"] = name
        st.session_state["another"] = ""
        st.session_state[MORE] = False  # and the popover closes
        st.session_state.pop("refused model", None)


def _loaded(name: str) -> str:
    """The name of a model that is in memory now. What was refused is not tried again on every click of a widget."""
    refused = st.session_state.get("refused model")
    if refused and refused[0] == name:
        raise refused[1]
    st.session_state.pop("refused model", None)
    st.session_state.pop("away", None)
    try:
        shelf.model(name, shelf.HUB)
    except shelf.NotHere:
        st.session_state["refused model"] = name, _away(name)
        raise st.session_state["refused model"][1] from None
    except ValueError as problem:
        st.session_state["refused model"] = name, problem
        raise
    st.session_state[SESSION] = list(dict.fromkeys([*st.session_state.get(SESSION, []), name]))
    return name


def _away(name: str) -> ValueError:
    """What is in the way of a model that is not here."""
    try:
        away = shelf.HUB.away(name)
    except ValueError as problem:
        return problem
    st.session_state["away"] = away
    return NothingYet(download.takes(away))


def _in_the_way(name: str) -> None:
    """What can be done about a model that could not be loaded."""
    refused, away = st.session_state.get("refused model"), st.session_state.get("away")
    if not refused or refused[0] != name:
        return
    if isinstance(away, Away):
        if shelf.HUB.folder(name) is not None:  # meanwhile it has come
            _again()
            st.rerun()
        download.offer(away, shelf.HUB)
    else:
        st.button("Try again", icon=":material/refresh:", key="again", on_click=_again)


def _again() -> None:
    st.session_state.pop("refused model", None)


def _given(name: str, told: DeltaGenerator) -> Example:
    """What the model of that name is given to read or to see."""
    try:
        model, given = shelf.model(name, shelf.HUB), Example("" if name == MINILM else name, "")
    except ValueError:  # it was here, but its folder has gone since
        model, given = shelf.model(MINILM, shelf.HUB), Example("", "")
    if "text" in model.reads:
        given = replace(given, text=st.text_input("Text", EXAMPLE, key="text", bind="query-params"))
        given = replace(given, pair=_pair(model))
    uploaded = _picture(model, told) if "picture" in model.reads else None
    return WithPicture(given.name, given.text, given.pair, uploaded) if uploaded else given


def _picture(model: Model, told: DeltaGenerator) -> File | None:
    """A picture that is brought; what the model sees of it, or of the drawing that stands in for it, is shown."""
    kinds = [kind.lower() for kind in FORMATS]
    about = "The largest square from its middle is what the model sees."
    brought = st.file_uploader("Picture", kinds, key="picture", max_upload_size=PICTURE_MB, help=about)
    file = File(brought.name, brought.getvalue()) if brought else None
    view = model.view
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
    if model.decodes:
        label, about = "Written so far", "What the decoder has written; without it, it writes by itself."
    return st.text_input(label, key="second", bind="query-params", help=about, width=260)
