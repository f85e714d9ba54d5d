"""What if: another mask, score or temperature, or a head less, beside what was trained."""

from difflib import SequenceMatcher
from functools import partial
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.formatting import number, visible
from attnviz.translator import Translation, Translator
from attnviz.translator.model import Use
from attnviz.ui import cache
from attnviz.ui.color_range import largest_weight
from attnviz.ui.markdown import plain
from attnviz.ui.transformer import decoding, maps, what_if
from attnviz.ui.transformer.what_if import Interventions

SIDES = ("As trained", "Changed")
KEYS = ("trained", "changed")  # of their charts
KEPT = "what if"  # the name of what could be made last
FUTURE = (
    "While the decoder writes, its last row has no future to see. But the rows before it now see words after them, "
    "which they never did in training."
)
Both = tuple[Translation, Translation]


def show(translator: Translator, translation: Translation, step: int, heads: dict[Use, int]) -> None:
    """Draws the widgets, the translation as trained and as changed, and the maps of the use that is looked at."""
    top = st.container()
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    beside = st.columns(2, gap="medium")
    use, asked, refused = what_if.choose(translator, top)
    interventions, changed = _made(translator, translation, asked, refused, notes)
    both = (translation, changed)
    with notes:
        st.html(f"<p class='attnviz-summary' role='status'>{escape(verdict(both, interventions))}</p>")
    for i, column in enumerate(beside):
        column.html(words(SIDES[i], both[i], differing(both)[i], _at(both, step)[i]))
    _maps(translator, both, interventions, use, heads[use], _at(both, step))


def _at(both: Both, step: int) -> tuple[int, int]:
    """The step that is looked at in each translation: where the first is at its end, so is the second."""
    before, after = (len(one.steps) - 1 for one in both)
    return step, after if step == before else min(step, after)


def _maps(
    translator: Translator, both: Both, interventions: Interventions, use: Use, head: int, at: tuple[int, int]
) -> None:
    """Draws the maps of one use, as trained and as changed."""
    st.markdown(f"**{maps.USES[use]}**, {maps.HEAD_NAMES[head].lower()}")
    shown = [maps.of(one, use, step) for one, step in zip(both, at, strict=True)]
    linked = (shown[0].queries, shown[0].keys) == (shown[1].queries, shown[1].keys)
    end, rows = max(1.0, largest_weight([one.weights for one in shown])), max(len(one.queries) for one in shown)
    trained = what_if.trained(translator)[use]
    described = [what_if.described(what_if.of_use(one, use), use, trained, head) for one in ((), interventions)]
    for key, side, one, column in zip(KEYS, SIDES, shown, st.columns(2, gap="medium"), strict=True):
        with column:
            st.markdown(f"**{side}**")
            maps.show_mosaic(one, f"{key}-heads", chosen=head, largest=end, on_open=partial(maps.open_head, use))
    for i, column in enumerate(st.columns(2, gap="medium")):
        with column:
            maps.show_heatmap(
                shown[i], f"{KEYS[i]}-map", head=head, largest=end, pinned=None if use == "encoder" else at[i],
                link="what-if" if linked else "", rows=max(10, rows),
            )  # fmt: skip
            st.caption(plain(described[i]))


def _made(
    translator: Translator, translation: Translation, asked: Interventions, refused: list[str], notes: DeltaGenerator
) -> tuple[Interventions, Translation]:
    """The interventions and the translation under them; or the last that could be made of this sentence."""
    of = (translator.variant, translator.step, translation.english)
    if st.session_state.get(f"{KEPT} of") != of:
        st.session_state[f"{KEPT} of"] = of
        cache.remember(KEPT, ((), translation))

    def make() -> tuple[Interventions, Translation]:
        if refused:
            raise ValueError(" ".join(refused))
        return asked, translator.translate(" ".join(translation.english), asked)

    return cache.or_last_good(KEPT, make, lambda: ((), translation), notes)


def verdict(both: Both, interventions: Interventions) -> str:
    """What the interventions do to the translation, in a sentence or two."""
    before, after = both
    if not interventions:
        return "Nothing is changed. Try one of the changes above, or make one of your own below."
    told = "The translation changes where words are marked."
    if before.french == after.french and before.finished == after.finished:
        told = "The translation stays the same; its probabilities and maps change."
        if all(a.probability == b.probability for a, b in zip(before.steps, after.steps, strict=True)):
            told = "The translation stays the same, and so do its probabilities."
    sees_future = what_if.of_use(interventions, "decoder").mask and not all(
        one.looks_back for one in after.steps[-1].ran if one.use == "decoder"
    )
    return f"{told} {FUTURE}" if sees_future else told


def differing(both: Both) -> tuple[set[int], set[int]]:
    """The steps of each translation whose words the other has not."""
    before, after = ([step.word for step in one.steps] for one in both)
    moves = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changed = [places for kind, *places in moves if kind != "equal"]
    return (
        {i for start, end, _, _ in changed for i in range(start, end)},
        {i for _, _, start, end in changed for i in range(start, end)},
    )


def words(side: str, translation: Translation, differs: set[int], step: int) -> str:
    """A translation word by word with the probability of each, in HTML; the words that differ are marked."""
    said = "".join(
        f"<li class='{'attnviz-differs' if i in differs else ''}'{' aria-current=step' if i == step else ''}>"
        f"{escape(visible(one.word))}<small>{number(one.probability)}</small></li>"
        for i, one in enumerate(translation.steps)
    )
    mean = sum(one.probability for one in translation.steps) / len(translation.steps)
    endless = "" if translation.finished else "<p class='attnviz-verdict'>It comes to no end, and is cut off.</p>"
    return (
        f"<p class='attnviz-change'>{side} <small>mean probability {number(mean)}</small></p>"
        f"<ol class='attnviz-compared' lang='fr'>{said}</ol>{endless}{decoding.verdict(translation)}"
    )
