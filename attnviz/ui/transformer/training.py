"""Live training: controls, the place in the queue, and progress."""

import streamlit as st

from attnviz.formatting import grouped
from attnviz.language import _
from attnviz.translator import VARIANTS
from attnviz.translator.live_training import STEPS, LiveTraining, TrainingHistory, TrainingQueue
from attnviz.translator.train import BATCH
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.widgets import whole_number

QUEUE = TrainingQueue()
TRAINING, ENDED, HISTORY = "live training", "live training ended", "live training history"  # in the session
SEEDS = 9999


def is_busy() -> bool:
    """Returns whether a training of this session runs or waits."""
    training = _training()
    return training is not None and not training.is_over


def is_running() -> bool:
    """Returns whether it runs and has a checkpoint."""
    training = _training()
    return training is not None and training.status == "running" and bool(training.history.checkpoints)


def has_ended() -> bool:
    """Returns whether a training with checkpoints has ended since the last call."""
    training = _training()
    is_new = (
        training is not None
        and training.is_over
        and bool(training.history.checkpoints)
        and st.session_state.get(ENDED) is not training
    )
    if is_new:
        st.session_state[ENDED] = training
    return is_new


def history() -> TrainingHistory | None:
    """Returns the history of the latest training of this session."""
    training = _training()
    if training and training.history.checkpoints:
        st.session_state[HISTORY] = training.history
    return st.session_state.get(HISTORY)


def keep_alive() -> None:
    """Reports periodically that the page is open, while its training runs or waits."""
    if is_busy():
        st.fragment(_report, run_every=2.0)()


def _report() -> None:
    """Reports once that the page is open; reruns the page when the training is over."""
    if training := _training():
        QUEUE.keep_alive(training)
        if training.is_over:
            st.rerun()


def controls() -> None:
    """Draws the settings of a training, and the button that starts or stops it."""
    training, busy = _training(), is_busy()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seed = whole_number(
            _("Seed"), value=0, min_value=0, max_value=SEEDS, key="train-seed", bind="query-params", disabled=busy,
            width=120,
        )  # fmt: skip
        variant = st.selectbox(
            _("Similarity"),
            list(VARIANTS),
            key="train-similarity",
            bind="query-params",
            disabled=busy,
            width=160,
            format_func=names_of("train-similarity", VARIANTS),
        )
        if training and busy:
            waits = training.status == "waiting"
            if st.button(_("Leave the queue") if waits else _("Stop"), key="train-stop", icon=":material/stop:"):
                QUEUE.cancel(training)
                st.rerun()
        elif st.button(_("Train"), key="train", type="primary", icon=":material/model_training:"):
            st.session_state[TRAINING] = training = LiveTraining(variant, seed)
            QUEUE.submit(training)
            st.rerun()


def progress() -> None:
    """Draws the progress as a sentence."""
    training = _training()
    if training is None:
        st.caption(
            _(
                "It starts with random weights and trains for {steps} steps of {batch} sentences each: about a minute."
            ).format(steps=grouped(STEPS), batch=BATCH)
        )
        return
    before = QUEUE.keep_alive(training)
    waits = training.status == "waiting"
    checkpoints, steps = training.history.checkpoints, training.history.steps
    name = plain(_("{variant}, seed {seed}").format(variant=_(training.history.variant), seed=training.seed))
    step = checkpoints[-1].evaluation.step if checkpoints else 0
    stays = _(" What it learned until step {step} stays.").format(step=grouped(step)) if checkpoints else ""
    if waits and before:
        place = _("next") if len(before) < 2 else _("number {count} in the queue").format(count=len(before))
        st.info(
            _(
                "Somebody else is training: about {seconds_left:.0f} s are left. You are {place}. "
                "Yours starts by itself, in about {value:.0f} s."
            ).format(seconds_left=before[0].seconds_left, place=place, value=sum(one.seconds_left for one in before)),
            icon=":material/hourglass_top:",
        )
    elif waits or training.status == "running":
        loss = (
            _("Step {step} of {steps} · loss {loss:.2f} · ").format(
                step=grouped(step), steps=grouped(steps), loss=checkpoints[-1].evaluation.loss
            )
            if checkpoints
            else ""
        )
        left = _("about {seconds} s left").format(seconds=f"{training.seconds_left:.0f}")
        st.progress(step / steps, (loss or _("It starts · ")) + left)
    elif training.status == "finished":
        st.success(
            _("Trained: {name}, {steps} steps.").format(name=name, steps=grouped(steps)), icon=":material/check:"
        )
    elif training.status == "failed":
        st.error(plain(f"{training.problem}{stays}"), icon=":material/error:")
    elif training.status == "left":
        st.info(
            _("Stopped, because its page was closed for a while.{stays}").format(stays=stays), icon=":material/stop:"
        )
    else:
        st.info(_("Stopped: {name}.{stays}").format(name=name, stays=stays), icon=":material/stop:")


def _training() -> LiveTraining | None:
    return st.session_state.get(TRAINING)
