"""Training dynamics: the translator at checkpoints of its training, shipped or live."""

from collections.abc import Sequence
from itertools import groupby, zip_longest

import numpy as np
import streamlit as st

from attnviz.figures import curves
from attnviz.formatting import grouped, percent, visible
from attnviz.language import N_, _, option_name
from attnviz.translator import Translation
from attnviz.translator.live_training import EVALUATION_SENTENCES, Checkpoint, TrainingHistory, shipped_history
from attnviz.translator.model import Use
from attnviz.translator.train import LOG_EVERY
from attnviz.translator.weights import TEST_SENTENCES
from attnviz.ui import html, play_slider
from attnviz.ui.chart import chart
from attnviz.ui.classroom import teacher
from attnviz.ui.menus import chosen_option, names_of
from attnviz.ui.transformer import maps, training
from attnviz.ui.transformer.controls import TransformerSelection
from attnviz.ui.transformer.decoding import pieces
from attnviz.ui.transformer.maps import Maps
from attnviz.ui.widgets import take_older_values

SHIPPED, HERE = N_("Saved training"), N_("Train in this session")
OLDER_NAMES = {"As shipped": SHIPPED, "Trained here": HERE}  # in links
HEAD, STEP_HERE = "map", "trained-step"
BEST = N_("Encoder–decoder, the head that agrees best in the end")
BETWEEN = ", "  # a use and a head
HEADS: dict[str, tuple[Use, int]] = {
    f"{maps.SHORT[use]}{BETWEEN}{name.lower()}": (use, head)
    for use in reversed(maps.USES)
    for head, name in enumerate(maps.HEAD_NAMES)
}


def map_name(option: str, code: str | None = None) -> str:
    """Returns the name of an option of the menu of maps, in a language, by default the current one."""
    short, between, head = option.partition(BETWEEN)
    if option == BEST or not between:
        return option_name(option, code)
    return f"{option_name(short, code)}{BETWEEN}{option_name(head, code)}"


MANY = 4  # times that a word comes in a row, from which they are counted
CAPTION = N_(
    "**What you are seeing.** *Exact sentences*: the share of {count} test sentences with every "
    "word right. *Agreement*: the share of their French words for which the head’s largest weight "
    "lies on an English word that the French word stands for. Gray lines are the other heads of "
    "the encoder–decoder attention; each head has its percentage above its map. "
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


def show(selection: TransformerSelection) -> None:
    """Draws the tab; with a live training, again every second."""
    busy = training.is_busy()
    st.fragment(_show, run_every=1.0 if busy else None)(selection.translation, busy)


@teacher.lesson_fragment()
def _show(translation: Translation, busy: bool) -> None:
    if busy and not training.is_busy():
        st.rerun()  # the last time that it runs by the clock
    with st.container(key="forms"):  # one place for what comes and goes, so that the charts below stay what they are
        chosen = _chosen()
    if chosen is None:
        return
    history, checkpoint = chosen
    best = int(np.argmax(history.checkpoints[-1].evaluation.agreement))
    use, head = HEADS.get(chosen_option(HEAD, HEADS, name=map_name), ("cross", best))
    _show_curves(history, checkpoint, head if use == "cross" else best)
    _show_maps(translation, checkpoint, use, head)
    count = EVALUATION_SENTENCES if st.session_state["training"] == HERE else TEST_SENTENCES
    st.caption(_(CAPTION).format(count=count) + _(TEACHER_FORCED if translation.reference else UNKNOWN))


def _chosen() -> tuple[TrainingHistory, Checkpoint] | None:
    """Returns the chosen training and checkpoint; None before the first live training."""
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    kinds = [SHIPPED, HERE]
    with left:
        take_older_values("training", OLDER_NAMES)
        kind = st.segmented_control(
            _("Training"),
            kinds,
            default=SHIPPED,
            required=True,
            key="training",
            bind="query-params",
            format_func=names_of("training", kinds),
        )
    if kind == SHIPPED:
        with right:
            return (history := shipped_history()), _checkpoint(history, "step")
    with right:
        training.controls()
    training.progress()
    trained = training.history()
    if trained is None:
        return None
    if training.is_running():
        return trained, trained.checkpoints[-1]
    if training.has_ended():
        st.session_state[STEP_HERE] = trained.checkpoints[
            -1
        ].evaluation.step  # not a step that was chosen in another one
    return trained, _checkpoint(trained, STEP_HERE)


def _checkpoint(history: TrainingHistory, key: str) -> Checkpoint:
    """Draws a slider of checkpoints; returns the chosen one."""
    by_step = {one.evaluation.step: one for one in history.checkpoints}
    return by_step[
        play_slider.slider(_("Steps of training"), list(by_step), key, start=max(by_step), format_func=grouped)
    ]


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
            range(0, LOG_EVERY * len(history.losses), LOG_EVERY),
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
                chart(
                    picture,
                    f"curve-{key}",
                    label=name,
                    name=_("{name} over training").format(name=name),
                    description=_("After step {step}. {title}.").format(step=grouped(now.step), title=title),
                    height=170,
                    grows=False,
                )


def _show_maps(translation: Translation, checkpoint: Checkpoint, use: Use, head: int) -> None:
    """Draws the translation at a checkpoint, and the maps of its heads."""
    translator, english = checkpoint.translator(), translation.english
    translated = translator.translate(" ".join(english))
    right = translation.reference.french if translation.reference else None
    st.html(marked_words(translated, right, checkpoint.evaluation.step))
    forced = translator.teacher_forced(english, right or translation.french)
    left, column = st.columns(2)
    with left:
        st.selectbox(
            _("Map"), [BEST, *HEADS], key=HEAD, bind="query-params", label_visibility="collapsed",
            format_func=names_of(HEAD, [BEST, *HEADS], map_name),
        )  # fmt: skip
        maps.show_head(maps.use_maps(forced, use), "forms-map", head=head, rows=12)
    with column:
        agreement = [percent(float(share), 2) for share in np.ravel(checkpoint.evaluation.agreement)]
        _show_mosaic(maps.use_maps(forced, "cross"), head if use == "cross" else None, agreement)
    others: tuple[Use, ...] = ("encoder", "decoder")
    for other, place in zip(others, st.columns(2), strict=True):
        with place:
            _show_mosaic(maps.use_maps(forced, other), head if use == other else None)


def _show_mosaic(use_maps: Maps, chosen: int | None, labels: Sequence[str] = ()) -> None:
    """Draws the heads of one use; a click selects one."""

    def open_head(head: int) -> None:
        st.session_state[HEAD] = next(name for name, index in HEADS.items() if index == (use_maps.use, head))

    st.markdown(f"**{_(maps.USES[use_maps.use])}**")
    key = f"forms-{use_maps.use}"
    maps.show_heads(use_maps, key, chosen=chosen, on_open=open_head, labels=labels)


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
        html.element("small", _("After {step} steps it writes").format(step=grouped(step))),
        html.element("span", *parts, class_=verdict, lang="fr"),
        class_="attnviz-made",
        role="status",
    )


def _marked(piece: str, fits: bool) -> html.Markup:
    word = visible(piece.strip())
    return html.join([" " * piece.startswith(" "), word if fits else html.element("s", word)])
