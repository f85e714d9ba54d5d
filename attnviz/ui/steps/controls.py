"""Controls of the Steps page: the example, its edits, the head and the query."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import N_, _
from attnviz.lessons.steps import (
    FEWEST_WORDS,
    MOST_WORDS,
    Edits,
    SentenceExample,
    Steps,
    StepsExample,
    TranslatorExample,
)
from attnviz.masks import Causal, Full, Mask
from attnviz.translator.model import HEADS, LAYERS, USES
from attnviz.ui import cache, mechanism_controls, pinned_query, widgets
from attnviz.ui.head_controls import head_names
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.similarity_picker import similarity
from attnviz.ui.steps import edits

SECOND = "die Katze setzte sich"
MASKS: dict[str, Mask] = {N_("Full"): Full(), N_("Causal"): Causal()}
QUERY, USE = "query", "translator-use"  # in the session and in the link
_FIELDS = {one.name: one.metadata for one in fields(SentenceExample)}


@dataclass(frozen=True, eq=False)
class StepsSelection:
    """A computed example with its edits, and the selected head and query."""

    example: StepsExample
    edits: Edits
    steps: Steps
    head: int
    row: int
    problem: str  # why the chosen example cannot be shown; empty if it is the one that is


@dataclass(frozen=True)
class _Choice:
    """The state of the controls: an example, which may be refused when it is made, and a head."""

    make: Callable[[], StepsExample]
    fallback: StepsExample
    head: int = 0


def choose_steps(notes: DeltaGenerator) -> StepsSelection:
    """Draws the controls in the sidebar; problems are shown in `notes`."""
    with st.sidebar:
        choice = _choose_example()
        place = st.container()
    chosen_edits, lost = edits.linked_edits(choice.make)
    if lost:
        notes.warning(plain(lost))

    def computed(example: StepsExample, changes: Edits) -> tuple[StepsExample, Edits, Steps]:
        return example, changes, edits.cached_steps(example, changes)

    subject = type(choice.fallback).__name__
    example, valid_edits, steps = cache.or_last_good(
        "steps", subject, lambda: computed(choice.make(), chosen_edits), lambda: computed(choice.fallback, {}), notes
    )
    with place:
        row = _choose_query(steps.inputs.query_tokens)
    head = min(choice.head, steps.inputs.heads - 1)  # the last good example may have fewer
    return StepsSelection(example, valid_edits, steps, head, row, edits.example_error(choice.make, chosen_edits))


def show_query(tokens: tuple[str, ...], row: int) -> None:
    """Selects a query."""
    if row < len(tokens):
        st.session_state[QUERY] = pinned_query.numbered(range(len(tokens)), tokens)[row]


def _choose_query(tokens: tuple[str, ...]) -> int:
    names = pinned_query.numbered(range(len(tokens)), tokens)
    pinned_query.take_older_names(QUERY, names)
    return names.index(st.selectbox(_("Query"), names, min(1, len(names) - 1), key=QUERY, bind="query-params"))


def _choose_example() -> _Choice:
    kind = st.selectbox(
        _("Attention"), list(EXAMPLES), key="attention", bind="query-params",
        format_func=names_of("attention", EXAMPLES),
        help=" ".join(f"**{_(name)}**: {_(about)}." for name, (about, choose) in EXAMPLES.items()),
    )  # fmt: skip
    return EXAMPLES[kind][1]()


def _choose_sentence(cross: bool) -> _Choice:
    text = st.text_input(
        _(_FIELDS["text"]["label"]), SentenceExample.text, key="sentence", bind="query-params",
        help=_("Use {fewest_words} to {most_words} words.").format(fewest_words=FEWEST_WORDS, most_words=MOST_WORDS),
    )  # fmt: skip
    second = None
    if cross:
        about = _("Keys and values are made of it.")
        second = st.text_input(_(_FIELDS["second"]["label"]), SECOND, key="second", bind="query-params", help=about)
    d_k, heads = _choose_number("d_k"), _choose_number("heads")
    names = head_names(heads)
    head = (
        names.index(
            st.selectbox(
                _("Head shown"), names, key="head-shown", bind="query-params", format_func=names_of("head-shown", names)
            )
        )
        if heads > 1
        else 0
    )
    mask = st.selectbox(
        _("Mask"),
        list(MASKS),
        key="masked",
        bind="query-params",
        format_func=names_of("masked", MASKS),
        help=_("Causal: no key after the query."),
    )
    biases = mechanism_controls.choose_biases(_("Biases"), ())
    return _Choice(partial(SentenceExample, text, second, d_k, heads, MASKS[mask], biases), SentenceExample(), head)


def _choose_translator_head() -> _Choice:
    english = st.text_input(_("English"), TranslatorExample.english, key="english", bind="query-params")
    variant = similarity()
    uses = {name: use for use, name in USES.items()}
    widgets.take_older_values(USE, {str(use): name for use, name in USES.items()})
    opening = list(USES).index(TranslatorExample.use)
    use = uses[
        st.selectbox(_("Use"), list(uses), opening, key=USE, bind="query-params", format_func=names_of(USE, uses))
    ]
    layer, head = (
        int(
            st.selectbox(_(label), list(map(str, range(count))), key=f"translator-{label.lower()}", bind="query-params")
        )
        for label, count in ((N_("Layer"), LAYERS), (N_("Head"), HEADS))
    )
    return _Choice(partial(TranslatorExample, english, variant, use, layer, head), TranslatorExample())


EXAMPLES: dict[str, tuple[str, Callable[[], _Choice]]] = {
    N_("Self"): (N_("keys and values from the same sentence"), lambda: _choose_sentence(cross=False)),
    N_("Cross"): (N_("keys and values from a second sentence"), lambda: _choose_sentence(cross=True)),
    N_("Translator"): (N_("a head of the small translator of the Transformer page"), _choose_translator_head),
}


def _choose_number(name: str) -> int:
    about = _FIELDS[name]
    limits = {"min_value": about["min"], "max_value": about["max"], "value": getattr(SentenceExample, name)}
    return widgets.whole_number(_(about["label"]), **limits, key=name.replace("_", "-"), bind="query-params")
