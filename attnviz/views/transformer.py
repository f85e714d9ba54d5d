"""What Transformer shows."""

from dataclasses import dataclass

import numpy as np

from attnviz.language import _, in_sentence
from attnviz.lessons.checks import Quantities, map_quantities
from attnviz.models.interventions import Intervention
from attnviz.page.page_view import PageView, Panel
from attnviz.result_cache import result_cache
from attnviz.state.color_range import ColorRange
from attnviz.state.transformer import BEFORE, FORMS, HEAD_NAMES, SEVERAL, THREE_USES, WHAT_IF, TransformerState
from attnviz.translator import Translation, load
from attnviz.translator.encoder_decoder import HEADS, USE_LAYERS, USES, Use
from attnviz.translator.sentence_lengths import COMPARED, matching_words, shipped_accuracies
from attnviz.translator.training_history import Checkpoint, TrainingHistory
from attnviz.translator.weights import evaluation_sentences
from attnviz.views.translator_maps import Maps, use_maps

PLACES: dict[Use, str] = {  # in the names of quantities
    "encoder": " in the encoder",
    "decoder": " in the decoder",
    "cross": " in cross-attention",
}
SUFFIXES = (" with attention", " with one vector")  # in the names of quantities
ABLATION_SENTENCES = 60  # test sentences by which an ablation is measured


@dataclass(frozen=True, eq=False)
class HeadAblation:
    """The translator without one head: its output is zero."""

    layer: int
    head: int
    translation: Translation
    exact: float  # share of test sentences that are right in every word


def transformer(state: TransformerState) -> PageView:
    """Returns the maps of the selected heads of the three uses, on What if as they are changed; on How attention forms
    the map at a step of the training. Raises ValueError if the translator cannot run with what is changed."""
    if state.tab == FORMS:
        checkpoint = next(one for one in state.history.checkpoints if one.step == state.training_step)
        use, head = state.shown_map or ("cross", best_head(state.history))
        forced = use_maps(teacher_forced(state.translation, checkpoint), use)
        return PageView((_panel(forced, head, None),), {}, colors=ColorRange.ONE)
    before, after = state.translation, state.changed if state.tab == WHAT_IF else state.translation
    step = changed_step(before, after, state.step)
    rows = {"encoder": state.encoder_row, "decoder": step, "cross": step}
    panels = tuple(_panel(use_maps(after, use, step), head, rows[use]) for use, head in state.heads.items())
    is_above_one = any(np.nanmax(panel.weights, initial=0) > 1 for panel in panels)
    return PageView(panels, _quantities(state), colors=ColorRange.SHOWN if is_above_one else ColorRange.ONE)


def changed_step(before: Translation, after: Translation, step: int) -> int:
    """Returns the step of the changed translation that is shown with a step of the other; both are at the end
    together."""
    last = len(after.steps) - 1
    return last if step == len(before.steps) - 1 else min(step, last)


def best_head(history: TrainingHistory) -> int:
    """Returns the head of the encoder–decoder attention that agrees best with the true alignment in the end."""
    return int(np.argmax(history.checkpoints[-1].evaluation.agreement))


def teacher_forced(translation: Translation, checkpoint: Checkpoint) -> Translation:
    """Returns what a translator in training does when it is given the right French words, or where they are not known,
    those of a translation."""
    right = translation.reference.french if translation.reference else translation.french
    return checkpoint.translator().teacher_forced(translation.english, right)


def both_translations(english: str) -> tuple[Translation, Translation]:
    """Returns the translations with attention and with one vector."""
    attention, fixed_vector = COMPARED
    return result_cache().once(
        lambda: (load(attention).translate(english), load(fixed_vector).translate(english)), "before attention", english
    )


def head_ablations(state: TransformerState, use: Use) -> tuple[HeadAblation, ...]:
    """Returns what each head of a use changes when it is ablated, layer by layer."""
    translator, english = state.translator, " ".join(state.translation.english)

    def compute() -> tuple[HeadAblation, ...]:
        sentences, ablations = evaluation_sentences("test", ABLATION_SENTENCES), []
        for layer, place in enumerate(USE_LAYERS[use]):
            for head in range(HEADS):
                ablated = [Intervention(ablated=((place, head),))]
                exact = translator.exact_match(sentences, ablated)
                ablations.append(HeadAblation(layer, head, translator.translate(english, ablated), exact))
        return tuple(ablations)

    return result_cache().once(compute, "head ablations", state.similarity, english, use)


def use_quantities(state: TransformerState) -> Quantities:
    """Returns the weights of the shown heads, "… in the encoder", "… in the decoder" and "… in cross-attention"."""
    computed: dict[str, float] = {}
    for use, place in PLACES.items():
        shown = use_maps(state.translation, use, state.step)
        computed |= map_quantities(shown.queries, shown.keys, shown.weights[state.heads[use]], place)
    return computed


def length_quantities(both: tuple[Translation, Translation]) -> Quantities:
    """Returns how many words of this translation are right, and the words and the share of right sentences of its
    length, with attention and with one vector."""
    length, computed = len(both[0].english), {}
    for suffix, translation, accuracies in zip(SUFFIXES, both, shipped_accuracies().values(), strict=True):
        if translation.reference:
            right = matching_words(translation.french, translation.reference.french)
            computed[f"words right{suffix}"] = float(len(right))
        computed |= {f"sentences right{suffix}": one.sentences for one in accuracies if one.length == length}
    return computed | {"words": float(length)}


def ablation_quantities(translation: Translation, ablations: tuple[HeadAblation, ...]) -> Quantities:
    """Returns how many heads change this translation when they are ablated."""
    changing = sum(one.translation.french != translation.french for one in ablations)
    return {"heads that change the translation": float(changing)}


def _quantities(state: TransformerState) -> Quantities:
    if state.tab == THREE_USES:
        return use_quantities(state)
    if state.tab == BEFORE:
        return length_quantities(both_translations(state.english))
    if state.tab == SEVERAL:
        return ablation_quantities(state.translation, head_ablations(state, state.heads_of))
    return {}


def _panel(shown: Maps, head: int, row: int | None) -> Panel:
    title = _("{use}, {head}", use=_(USES[shown.use]), head=in_sentence(HEAD_NAMES[head]))
    return Panel(title, shown.weights[head], shown.queries, shown.keys, row)
