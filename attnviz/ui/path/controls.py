"""Controls of the Path page: the model, its sentence, the word to write, the temperature and the mask."""

from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import N_, _
from attnviz.lessons.activations import ActivationRecord, NextWord, encoder_activations, translator_activations
from attnviz.masks import Causal, Mask
from attnviz.models.interventions import Intervention
from attnviz.models.minilm import NOT_INSTALLED, is_installed, minilm
from attnviz.text import EXAMPLE
from attnviz.translator import EXAMPLES, Translation, load, tokenize
from attnviz.translator.model import USE_LAYERS
from attnviz.ui import cache, widgets
from attnviz.ui.markdown import plain
from attnviz.ui.mechanism_controls import MASK_MENU
from attnviz.ui.menus import names_of

MODELS = (N_("Translator"), N_("MiniLM"))
MODEL, OPEN, HEAD, WORD, ENGLISH, DRAW = "path-model", "open", "path-head", "word", "english", "draw"
FIRST_WORD = 3
WHOLE = "model"  # what is open at first
MOST_DRAWS = 999


@dataclass(frozen=True, eq=False)
class PathSelection:
    """A forward pass, the choice of the next word, and what is open."""

    record: ActivationRecord
    mask: Mask  # of the decoder's self-attention
    next_word: NextWord | None = None
    open: str = ""  # the name of a layer or an activation; empty for the whole model
    head: int = 0


def choose_path(notes: DeltaGenerator) -> PathSelection:
    """Draws the controls; problems are shown in `notes`."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="path-controls"):
        model = st.selectbox(
            _("Model"), MODELS, key=MODEL, bind="query-params", width=122, format_func=names_of(MODEL, MODELS)
        )
        if missing := model == MODELS[1] and not is_installed():
            notes.info(
                plain(_("{not_installed} Until then, this is the translator.").format(not_installed=_(NOT_INSTALLED)))
            )
        selection = _choose_translation(notes) if missing or model == MODELS[0] else _choose_text(notes)
    return _choose_depth(selection)


def open_part(name: str) -> None:
    """Opens a layer or a part, or with an empty name the whole model."""
    st.session_state[OPEN] = name or WHOLE


def select_head(head: int) -> None:
    """Selects a head."""
    st.session_state[HEAD] = str(head)


def _choose_depth(selection: PathSelection) -> PathSelection:
    """Returns the selection with what is open and the head, which are chosen in the picture."""
    record = selection.record
    options = [WHOLE, *record.layers, *(name for name in record if name not in record.layers)]
    heads = list(map(str, range(record.heads)))
    for key, values in ((OPEN, options), (HEAD, heads)):
        if key in st.session_state and st.session_state[key] not in values:  # of another model
            st.session_state[key] = values[0]
    with st.container(key="path-depth"):
        name = st.selectbox(_("Open"), options, key=OPEN, bind="query-params")
        head = st.selectbox(_("Head"), heads, key=HEAD, bind="query-params")
    return replace(selection, open="" if name == WHOLE else name, head=int(head))


def _choose_text(notes: DeltaGenerator) -> PathSelection:
    text = st.text_input(_("Text"), EXAMPLE, key="text", bind="query-params", width=460)

    def record(chosen: str) -> ActivationRecord:
        return cache.once(lambda: encoder_activations(minilm(), chosen), "path", MODELS[1], chosen)

    return PathSelection(
        cache.or_last_good("path text", MODELS[1], lambda: record(text), lambda: record(EXAMPLE), notes), Causal()
    )


def _choose_translation(notes: DeltaGenerator) -> PathSelection:
    text = st.text_input(_("English"), EXAMPLES[0], key=ENGLISH, bind="query-params", width=330)
    st.menu_button(_("Examples"), EXAMPLES, key="examples", on_click=_set_example)
    place = st.container(width=170)
    temperature = st.slider(_("Temperature"), 0.0, 3.0, 1.0, 0.1, key="temperature", bind="query-params", width=150)
    with st.container(key="path-draws"):
        seed = widgets.whole_number(
            _("Draw"), min_value=0, max_value=MOST_DRAWS, value=0, key=DRAW, bind="query-params"
        )
    refused: list[str] = []
    with st.popover(_("Mask"), icon=":material/grid_off:"):
        st.caption(_("Where the decoder’s self-attention may look. The whole translation follows."))
        mask = widgets.choose_object(_("Mask"), MASK_MENU, Causal(), "path-mask", refused.append)
    for problem in refused:
        notes.error(problem, icon=":material/error:")
    interventions = () if mask == Causal() else (Intervention(mask, layers=USE_LAYERS["decoder"]),)

    def translate(english: str) -> Translation:
        return cache.once(
            lambda: load().translate(english, interventions), "path translation", english, repr(interventions)
        )

    translation = cache.or_last_good(
        "path translation",
        interventions,
        lambda: translate(" ".join(tokenize(text))),
        lambda: translate(EXAMPLES[0]),
        notes,
    )
    count = len(translation.steps)
    with place:
        step = _choose_word(count) - 1
    french = translation.french[:step]
    record = cache.once(
        lambda: translator_activations(load(), translation.english, french, interventions),
        "path", MODELS[0], translation.english, french, repr(interventions),
    )  # fmt: skip
    logits = record["output logits"]
    return PathSelection(record, mask, NextWord(logits.columns, logits.values[0], temperature, seed))


def _choose_word(count: int) -> int:
    """Draws a slider of the words of the translation; returns the number of the one to write."""
    start = min(FIRST_WORD, count)
    if st.session_state.get(WORD, start) not in range(1, count + 1):  # of a longer translation
        st.session_state[WORD] = count
    return st.select_slider(_("Word to write"), range(1, count + 1), start, key=WORD, bind="query-params")


def _set_example() -> None:
    st.session_state[ENGLISH] = st.session_state["examples"]


def draw_again() -> None:
    """Draws the next word with another random number."""
    st.session_state[DRAW] = (st.session_state[DRAW] + 1) % (MOST_DRAWS + 1)
