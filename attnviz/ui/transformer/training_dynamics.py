"""Training dynamics: the translator at checkpoints of its training, shipped or live."""

from collections.abc import Sequence
from itertools import groupby, zip_longest

import numpy as np
import streamlit as st

from attnviz.figures import curves
from attnviz.formatting import grouped, percent, visible
from attnviz.language import N_, _
from attnviz.page import html
from attnviz.state.transformer import TransformerState
from attnviz.translator import Translation
from attnviz.translator.encoder_decoder import USES, Use
from attnviz.translator.training_history import Checkpoint, TrainingHistory
from attnviz.translator.weights import TEST_SENTENCES
from attnviz.ui import play_slider
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.transformer import one_use
from attnviz.ui.transformer.word_by_word import pieces
from attnviz.ui.widget_values import set_field_value
from attnviz.views.transformer import best_head, teacher_forced
from attnviz.views.translator_maps import Maps, use_maps

MANY = 4  # repetitions of a word in a row; from here on their number is written
CAPTION = N_(
    "**What you are seeing.** *Exact sentences*: the share of {count} test sentences with every "
    "word right. *Agreement*: the share of their French words for which the head’s largest weight "
    "lies on an English word that the French word translates. Gray lines are the other heads of "
    "the encoder–decoder attention; each head has its percentage above its map."
)
TEACHER_FORCED = N_(
    "The maps are made with teacher forcing: the decoder is given the right French words, so the "
    "rows are the same whatever it predicts. An outline marks the true alignment."
)
UNKNOWN = N_(
    "The grammar does not know this sentence, so there is no right translation and no true "
    "alignment. The maps are made with teacher forcing: the decoder is given the French words "
    "above."
)


def show(state: TransformerState) -> None:
    """Draws the tab."""
    history, translation = state.history, state.translation
    step = play_slider.slider(TransformerState.training_step, state)
    checkpoint = next(one for one in history.checkpoints if one.step == step)
    curves, best = st.container(), best_head(history)
    use, head = _show_maps(translation, checkpoint, best)
    with curves:
        _show_curves(history, checkpoint, head if use == "cross" else best)
    st.caption(f"{_(CAPTION, count=TEST_SENTENCES)} {_(TEACHER_FORCED if translation.reference else UNKNOWN)}")


def _show_curves(history: TrainingHistory, checkpoint: Checkpoint, head: int) -> None:
    """Draws loss, exact sentences and agreement over the training, with a mark at the checkpoint."""
    now, checkpoints = checkpoint.evaluation, history.checkpoints
    steps = [one.evaluation.step for one in checkpoints]
    heads = np.array([np.ravel(one.evaluation.agreement) for one in checkpoints], dtype="f4").T
    losses = np.array([history.losses], dtype="f4")
    exact = np.array([[one.evaluation.exact for one in checkpoints]], dtype="f4")
    agrees = float(np.ravel(now.agreement)[head])
    charts = {
        ("loss", _("Loss"), f"{now.loss:.2f}"): curves(
            range(0, history.every * len(history.losses), history.every),
            losses,
            last=history.steps,
            marked=(now.step, now.loss),
        ),
        ("exact", _("Exact sentences"), percent(now.exact, 2)): curves(
            steps, exact, last=history.steps, marked=(now.step, now.exact), share=True
        ),
        ("agreement", _("Agreement"), percent(agrees, 2)): curves(
            steps, heads, line=head, last=history.steps, marked=(now.step, agrees), share=True
        ),
    }
    with st.container(key="curves"):
        for place, ((key, name, value), picture) in zip(st.columns(3), charts.items(), strict=True):
            title = f"{name}: {value}"
            picture.figure.update_layout(title_text=title)
            with place:
                description = _("After step {step}. {title}.", step=grouped(now.step), title=title)
                chart(picture.with_about(label=name, description=description), f"curve-{key}", height=170)


def _show_maps(translation: Translation, checkpoint: Checkpoint, best: int) -> tuple[Use, int]:
    """Draws the translation at a checkpoint, and the maps of its heads; returns the head of the large map."""
    translated = checkpoint.translator().translate(" ".join(translation.english))
    right = translation.reference.french if translation.reference else None
    st.html(marked_words(translated, right, checkpoint.evaluation.step))
    forced = teacher_forced(translation, checkpoint)
    left, column = st.columns(2)
    with left:
        use, head = draw(TransformerState.shown_map, label_visibility="collapsed") or ("cross", best)
        one_use.show_head(use_maps(forced, use), "forms-map", head=head, rows=12)
    with column:
        agreement = [percent(float(share), 2) for share in np.ravel(checkpoint.evaluation.agreement)]
        _show_mosaic(use_maps(forced, "cross"), head if use == "cross" else None, agreement)
    others: tuple[Use, ...] = ("encoder", "decoder")
    for other, place in zip(others, st.columns(2), strict=True):
        with place:
            _show_mosaic(use_maps(forced, other), head if use == other else None)
    return use, head


def _show_mosaic(shown: Maps, chosen: int | None, labels: Sequence[str] = ()) -> None:
    """Draws the heads of one use; a click selects one."""

    def open_head(head: int) -> None:
        set_field_value(TransformerState.shown_map, (shown.use, head))

    st.markdown(f"**{_(USES[shown.use])}**")
    key = f"forms-{shown.use}"
    one_use.show_heads(shown, key, chosen=chosen, on_open=open_head, labels=labels)


def marked_words(translated: Translation, right: Sequence[str] | None, step: int) -> html.Markup:
    """Returns the translation with wrong words struck out."""
    agrees = [right is None or word == other for word, other in zip_longest(translated.french, right or ())]
    parts: list[html.Markup] = []
    for _word, same in groupby(
        zip(translated.french, pieces(translated), agrees, strict=False), key=lambda one: one[0]
    ):
        run = [(piece, fits) for _, piece, fits in same]
        if len(run) < MANY:
            parts += [_marked(*one) for one in run]
        else:
            parts.append(_marked(run[-1][0], all(fits for _, fits in run)))
            parts.append(html.join([" ", html.element("small", f"× {len(run)}")]))
    verdict = "" if right is None else "attnviz-right" if translated.french == tuple(right) else "attnviz-wrong"
    return html.element(
        "p",
        html.element("small", _("After {step} steps it writes", step=grouped(step))),
        html.element("span", *parts, class_=verdict, lang="fr"),
        class_="attnviz-made",
        role="status",
    )


def _marked(piece: str, fits: bool) -> html.Markup:
    word = visible(piece.strip())
    return html.join([" " * piece.startswith(" "), word if fits else html.element("s", word)])
