"""The form of a lesson: its title, and its steps, which are added, moved, copied and removed."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import N_, _
from attnviz.lessons.lesson_files import ENGLISH, MOST_STEPS, parse_table
from attnviz.lessons.lesson_tables import NEW_STEP, LessonTable, Place, lesson_steps, step_places, with_steps
from attnviz.lessons.lesson_text import table_text
from attnviz.ui.lesson_draft import TEXT, Draft, take_typed_text
from attnviz.ui.lesson_editor.step_form import Fields, edit_step
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import write_widget

StepEntry = tuple[LessonTable, Place | None, int]  # a step, its place, and the number of its widgets
LONGEST_TITLE = 90  # characters of a question above its form
LANGUAGES = N_("The code of the language that you write in, such as en, de, fr or pt-BR.")


def edit_lesson(draft: Draft, table: LessonTable) -> tuple[LessonTable, list[DeltaGenerator]]:
    """Draws the form of a lesson; returns the lesson as it stands in the form, and a place in the form of each step."""
    fields = Fields(f"lesson-{draft.edition}", table)
    title, language = st.columns([0.8, 0.2], gap="small")
    with title:
        fields.text("title", _("Title"))
    with language:
        fields.text("language", _("Language"), otherwise=ENGLISH, help=_(LANGUAGES))
    fields.text("about", _("In one sentence: what there is to see"))
    steps, places = lesson_steps(table), step_places(table)
    keys = draft.step_keys(len(steps))
    shown = [_show_step(draft, *one, number) for number, one in enumerate(zip(steps, places, keys, strict=True))]
    st.button(
        _("Add a step"),
        key=f"add-step-{draft.edition}",
        icon=":material/add:",
        disabled=len(steps) >= MOST_STEPS,
        on_click=_change_steps,
        args=(draft, lambda steps: steps.append((dict(NEW_STEP), None, draft.new_step()))),
    )
    changed = [step for step, _place, _slot in shown], [place for _step, place, _slot in shown]
    edited = with_steps(fields.table, *changed) if changed != (steps, places) else fields.table
    return edited, [slot for _step, _place, slot in shown]


def _show_step(
    draft: Draft, step: LessonTable, place: Place | None, key: int, number: int
) -> tuple[LessonTable, Place | None, DeltaGenerator]:
    """Draws the form of one step; returns the step, its place, and a container above it."""
    ask = " ".join(str(step.get("ask", "")).split())
    name = f"{ask[:LONGEST_TITLE]}{'…' * (len(ask) > LONGEST_TITLE)}" or _("A new question")
    prefix = f"lesson-{draft.edition}-{key}"
    before = step_places(parse_table(draft.text))[:number]
    opened = next((one for one in reversed(before) if one), None)

    def move(steps: list[StepEntry], by: int) -> None:
        steps.insert(number + by, steps.pop(number))

    def duplicate(steps: list[StepEntry]) -> None:
        steps.insert(number + 1, (dict(steps[number][0]), steps[number][1], draft.new_step()))

    with st.expander(f"**{number + 1}** · {plain(name)}", expanded=not step.get("answer"), key=f"{prefix}-fold"):
        with st.container(horizontal=True, gap="xsmall", key=f"step-tools-{key}"):
            for icon, about, change, off in (
                ("arrow_upward", N_("Move up"), partial(move, by=-1), number == 0),
                ("arrow_downward", N_("Move down"), partial(move, by=1), number + 1 == len(draft.steps)),
                ("content_copy", N_("Duplicate"), duplicate, len(draft.steps) >= MOST_STEPS),
                ("delete", N_("Remove"), lambda steps: steps.pop(number), False),
            ):
                name, press = f"{prefix}-{about}", partial(_change_steps, draft, change)
                st.button(_(about), name, icon=f":material/{icon}:", type="tertiary", disabled=off, on_click=press)
            slot = st.container(width="content")
        return *edit_step(prefix, step, place, opened), slot


def _change_steps(draft: Draft, change: Callable[[list[StepEntry]], object]) -> None:
    """Changes the list of steps, in the text, if that can be read."""
    take_typed_text(draft)
    try:
        table = parse_table(draft.text)
    except ValueError:
        return
    steps = lesson_steps(table)
    every = [*zip(steps, step_places(table), draft.step_keys(len(steps)), strict=True)]
    change(every)
    draft.steps = [key for _step, _place, key in every]
    draft.change_in_form(
        table_text(with_steps(table, [step for step, _place, _key in every], [place for _step, place, _key in every]))
    )
    write_widget(TEXT, draft.text)
