"""The menu of models, which all pages share: those that are here, those that a visitor has named, and downloads."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.formatting import byte_size
from attnviz.base.language import N_, _
from attnviz.models import ENGLISH, MINILM, WITHOUT_TEXT, model_cache
from attnviz.models.hub import NotDownloaded, RemoteModel, allowed_models, model_id
from attnviz.page.fields import ModelField
from attnviz.sources.model import load_model
from attnviz.sources.source import MissingInput
from attnviz.ui import cache, model_download
from attnviz.ui.field_widgets import draw_text
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.server.page_runs import PageEnd
from attnviz.ui.server.scheduling import without_slot
from attnviz.ui.session_values import SessionValue, has_widget, widget_callback, write_widget
from attnviz.ui.widget_values import field_text

ANOTHER = N_(
    "Any model of the [Hugging Face hub](https://huggingface.co/models) that transformers itself "
    "can build, with weights as safetensors; or a folder or a GGUF file on the computer that runs attnviz. No "
    "code that comes with a model is run."
)
WORD = re.compile(r"[^\W\d_]+")
MOST_CHARACTERS = 500  # that are read: some tokenizers are slow
FEWEST_WORDS, PIECES = 3, 1.5  # and per word, from which there is a note; few English sentences have 1.3


def word_pieces_note(name: str, text: str) -> str:
    """Returns how many pieces the words of a text are for a model, if they are many, and whether it has been trained
    on English; else an empty text, as for a text that the model cannot read."""
    model, start = load_model(name), text[:MOST_CHARACTERS]
    words = len(WORD.findall(start))
    if model.tokenizer is None or words < FEWEST_WORDS:
        return ""
    try:
        spans = model.text_inputs.encode(start)[1].spans
    except ValueError:  # whose reason is shown where the text is read
        return ""
    pieces = sum(bool(WORD.search(start[first:end])) for first, end in spans)
    if pieces < PIECES * words:
        return ""
    message = N_("{name} reads the {words} words of this text as {pieces} word pieces.")
    message = (
        message if start == text else N_("{name} reads the first {words} words of this text as {pieces} word pieces.")
    )
    note = _(message, name=model.name, words=words, pieces=pieces)
    return f"{note} {_('It has been trained mostly on English.')}" if name in ENGLISH else note


@dataclass(frozen=True)
class _Refused:
    """A model that cannot be loaded, and why."""

    name: str
    problem: ValueError
    away: RemoteModel | None = None  # where it can be downloaded


_session_models = SessionValue[list[str]]("models of this session", list)
_names_submitted = SessionValue("submitted names", int)
_refused = SessionValue[_Refused | None]("refused model", lambda: None)


def choose_model(field: ModelField, *, more: DeltaGenerator | None = None, is_first: bool = True) -> str:
    """Draws the menu of models, and for the first one the widgets for others, by default below it, if this instance
    allows them; returns the model's name."""
    hosted = allowed_models() is not None
    current = field_text(field) or field.opening(None)  # even if it will be refused, with a reason
    if has_widget(field.parameter) and current != (name := typed_model(field.parse(current))):
        write_widget(field.parameter, current := name)
    choices = [name for name in model_choices() if not (field.needs_text and name in WITHOUT_TEXT)]
    options = list(dict.fromkeys([field.opening(None), *choices, current]))

    def menu(value: str, **more: Any) -> str | None:
        names = names_of(field.parameter, options)
        return st.selectbox(options=options, index=0, format_func=names, accept_new_options=not hosted, **more)

    name = draw_text(field, menu, **{"help": None} if hosted else {})
    if not hosted and is_first:
        # Each name has a box of its own: a box that is emptied in the run that closes its popover is no longer there
        # to hear of it, and its old text would be submitted once more when the popover is opened again.
        number = _names_submitted.get() or ""
        key = f"another model{number}"
        with (more or st).popover(_("Another model"), icon=":material/add:", width="stretch", key=key):
            box = f"another{number}"
            st.text_input(
                _("Its id on the hub, or the path of a folder or a GGUF file"),
                key=box,
                on_change=widget_callback(box, partial(_submit, field)),
                placeholder="openai-community/gpt2",
            )
            st.caption(_(ANOTHER))
    return typed_model(field.parse(name))


def model_choices() -> list[str]:
    """Returns the models of the menu: those available without a download or allowed by a hosted instance, and those
    used in this session."""
    return list(dict.fromkeys([*model_cache.available_models(model_cache.HUB), *_session_models.get()]))


def typed_model(name: str | None) -> str:
    """Returns the id in an address; an invalid address is returned unchanged, so that loading it gives the reason."""
    try:
        return model_id(name or MINILM)
    except ValueError:
        return name or MINILM


def _submit(field: ModelField, typed: str) -> None:
    if name := typed.strip():
        write_widget(field.parameter, name)
        _names_submitted.set(_names_submitted.get() + 1)
        _refused.set(None)


def load_or_end(name: str, notes: DeltaGenerator, text: str = "") -> None:
    """Loads a model for a text. If it cannot be loaded, the reason is shown in `notes` with a remedy, and the page
    ends; else what is to be known of its weights, and of the words of the text."""
    if not load(name, notes):
        raise PageEnd
    show_word_pieces(name, text, notes)


def load(name: str, notes: DeltaGenerator) -> bool:
    """Returns whether a model can be loaded. In `notes` is the reason with a remedy, or what is to be known of its
    weights."""
    with notes, st.spinner(_("Loading the model …"), show_time=True):
        refused = _load(name)
    if refused is not None:
        cache.show_problem(refused.problem, notes)
        with notes:
            _offer_remedy(refused)
    elif (model := load_model(name)).precision:
        notes.caption(plain(model.title))
    return refused is None


def show_word_pieces(name: str, text: str, notes: DeltaGenerator) -> None:
    """Shows in `notes` that a model reads the words of a text in many pieces, if it does."""
    if note := word_pieces_note(name, text):
        notes.caption(plain(note))


def keep_model(name: str) -> None:
    """Keeps a model that has read its input in the menus of this session."""
    _session_models.set([*dict.fromkeys([*_session_models.get(), name])])


def _load(name: str) -> _Refused | None:
    """Loads a model; returns why it cannot be loaded, or None. Refused models are not tried again in every run."""
    refused = _refused.get()
    if refused is None or refused.name != name:
        try:
            load_model(name, progress_bar())
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
        with without_slot():  # while the hub is asked, others' pages are drawn
            away = model_cache.HUB.find(name)
    except ValueError as problem:
        # A wheel can be installed without the hub.
        return _Refused(name, MissingInput(str(missing)) if name in model_cache.BUILT_IN_MODELS else problem)
    takes = model_download.takes(away)
    return _Refused(name, MissingInput(f"{missing} {takes}" if name in model_cache.BUILT_IN_MODELS else takes), away)


def _offer_remedy(refused: _Refused) -> None:
    """Draws a remedy for a model that could not be loaded."""
    if refused.away is not None:
        if model_cache.HUB.folder(refused.name) is not None:  # meanwhile it was downloaded
            _refused.set(None)
            st.rerun()
        model_download.offer(refused.away, model_cache.HUB)
    elif allowed_models() is None or refused.name in model_choices():
        st.button(_("Try again"), icon=":material/refresh:", key="again", on_click=_refused.set, args=(None,))


def progress_bar() -> Callable[[int, int], None]:
    """Returns a function of the bytes done and in total that draws a bar, and removes it at the end."""
    place, shown = st.empty(), -1

    def draw(done: int, size: int) -> None:
        nonlocal shown
        percent = 100 * done // max(1, size)
        if percent == shown:  # the browser is told of each percent once
            return
        shown = percent
        text = _("The file is read: {done} of {size}", done=byte_size(done), size=byte_size(size))
        if done < size:
            place.progress(percent, text)
        else:
            place.empty()

    return draw
