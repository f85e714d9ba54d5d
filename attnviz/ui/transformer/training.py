"""Live training: controls, the place in the queue, and progress."""

import streamlit as st

from attnviz.formatting import grouped
from attnviz.language import _
from attnviz.state.transformer import TransformerState
from attnviz.translator.live_training import STEPS, LiveTraining, TrainingHistory, TrainingQueue
from attnviz.translator.train import BATCH
from attnviz.ui.field_widgets import draw
from attnviz.ui.fragments import draw_repeatedly
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import SessionValue

QUEUE = TrainingQueue()
TRAINING = SessionValue[LiveTraining | None]("live training", lambda: None)
ENDED = SessionValue[LiveTraining | None]("live training ended", lambda: None)
HISTORY = SessionValue[TrainingHistory | None]("live training history", lambda: None)


def is_busy() -> bool:
    """Returns whether a training of this session runs or waits."""
    training = TRAINING.get()
    return training is not None and not training.is_over


def is_running() -> bool:
    """Returns whether it runs and has a checkpoint."""
    training = TRAINING.get()
    return training is not None and training.status == "running" and bool(training.history.checkpoints)


def has_ended() -> bool:
    """Returns whether a training with checkpoints has ended since the last call."""
    training = TRAINING.get()
    is_new = (
        training is not None and training.is_over and bool(training.history.checkpoints) and ENDED.get() is not training
    )
    if is_new:
        ENDED.set(training)
    return is_new


def history() -> TrainingHistory | None:
    """Returns the history of the latest training of this session."""
    training = TRAINING.get()
    if training and training.history.checkpoints:
        HISTORY.set(training.history)
    return HISTORY.get()


def keep_alive() -> None:
    """Reports periodically that the page is open, while its training runs or waits."""
    if is_busy():
        draw_repeatedly(_report, 2.0)


def _report() -> None:
    """Reports once that the page is open; reruns the page when the training is over."""
    if training := TRAINING.get():
        QUEUE.keep_alive(training)
        if training.is_over:
            st.rerun()


def controls() -> None:
    """Draws the settings of a training, and the button that starts or stops it."""
    training, busy = TRAINING.get(), is_busy()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seed = draw(TransformerState.train_seed, disabled=busy, width=120)
        variant = draw(TransformerState.train_similarity, disabled=busy, width=160)
        if training and busy:
            waits = training.status == "waiting"
            if st.button(_("Leave the queue") if waits else _("Stop"), key="train-stop", icon=":material/stop:"):
                QUEUE.cancel(training)
                st.rerun()
        elif st.button(_("Train"), key="train", type="primary", icon=":material/model_training:"):
            TRAINING.set(started := LiveTraining(variant, int(seed)))
            QUEUE.submit(started)
            st.rerun()


def progress() -> None:
    """Draws the progress as a sentence."""
    training = TRAINING.get()
    if training is None:
        st.caption(
            _(
                "It starts with random weights and trains for {steps} steps of {batch} sentences each: about a minute.",
                steps=grouped(STEPS),
                batch=BATCH,
            )
        )
        return
    before = QUEUE.keep_alive(training)
    waits = training.status == "waiting"
    checkpoints, steps = training.history.checkpoints, training.history.steps
    name = plain(_("{variant}, seed {seed}", variant=_(training.history.variant), seed=training.seed))
    step = checkpoints[-1].evaluation.step if checkpoints else 0
    stays = [_("What it learned until step {step} stays.", step=grouped(step))] if checkpoints else []
    if waits and before:
        place = _("next") if len(before) < 2 else _("number {count} in the queue", count=len(before))
        st.info(
            _(
                "Somebody else is training: about {seconds_left:.0f} s are left. You are {place}. "
                "Yours starts automatically, in about {value:.0f} s.",
                seconds_left=before[0].seconds_left,
                place=place,
                value=sum(one.seconds_left for one in before),
            ),
            icon=":material/hourglass_top:",
        )
    elif waits or training.status == "running":
        parts = [_("It starts")]
        if checkpoints:
            loss = _("loss {loss:.2f}", loss=checkpoints[-1].evaluation.loss)
            parts = [_("Step {step} of {steps}", step=grouped(step), steps=grouped(steps)), loss]
        parts.append(_("about {seconds} s left", seconds=f"{training.seconds_left:.0f}"))
        st.progress(step / steps, " · ".join(parts))
    elif training.status == "finished":
        st.success(_("Trained: {name}, {steps} steps.", name=name, steps=grouped(steps)), icon=":material/check:")
    elif training.status == "failed":
        st.error(plain(" ".join([training.problem, *stays])), icon=":material/error:")
    elif training.status == "left":
        st.info(" ".join([_("Stopped, because its page was closed for a while."), *stays]), icon=":material/stop:")
    else:
        st.info(" ".join([_("Stopped: {name}.", name=name), *stays]), icon=":material/stop:")
