"""Training here: what is trained, who comes first, how far it is."""

import streamlit as st

from attnviz.translator import VARIANTS
from attnviz.translator.live_training import STEPS, Desk, History, Training
from attnviz.translator.train import BATCH
from attnviz.ui.markdown import plain
from attnviz.ui.widgets import whole_number

DESK = Desk()
ASKED, ENDED, LEARNT = "training asked for here", "training ended here", "learnt here"
SEEDS = 9999


def busy() -> bool:
    """Whether a training of this session runs or waits."""
    asked = _asked()
    return asked is not None and not asked.over


def running() -> bool:
    """Whether it runs, and something has been learnt."""
    asked = _asked()
    return asked is not None and asked.state == "running" and bool(asked.history.points)


def ended() -> bool:
    """Whether a training has come to its end, with something learnt, since this was asked before."""
    asked = _asked()
    new = asked is not None and asked.over and bool(asked.history.points) and st.session_state.get(ENDED) is not asked
    if new:
        st.session_state[ENDED] = asked
    return new


def history() -> History | None:
    """What this session has trained last, as far as it has come."""
    asked = _asked()
    if asked and asked.history.points:
        st.session_state[LEARNT] = asked.history
    return st.session_state.get(LEARNT)


def keep() -> None:
    """Has the page say, for as long as its training runs or waits, that it is still there."""
    if busy():
        st.fragment(_look, run_every=2.0)()


def _look() -> None:
    """Says once that the page is still there; when it is over the page runs once more, without the clock."""
    if asked := _asked():
        DESK.look(asked)
        if asked.over:
            st.rerun()


def controls() -> None:
    """What is to be trained, and the button that starts it or stops it."""
    asked = _asked()
    at_work = busy()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seed = whole_number(
            "Seed",
            value=0,
            min_value=0,
            max_value=SEEDS,
            key="train-seed",
            bind="query-params",
            disabled=at_work,
            width=120,
        )
        variant = st.selectbox(
            "Similarity", list(VARIANTS), key="train-similarity", bind="query-params", disabled=at_work, width=160
        )
        if asked and at_work:
            waits = asked.state == "waiting"
            if st.button("Leave the line" if waits else "Stop", key="train-stop", icon=":material/stop:"):
                DESK.stop(asked)
                st.rerun()
        elif st.button("Train", key="train", type="primary", icon=":material/model_training:"):
            st.session_state[ASKED] = training = Training(variant, seed)
            DESK.ask(training)
            st.rerun()


def progress() -> None:
    """How far it is, in a sentence."""
    asked = _asked()
    if asked is None:
        st.caption(f"It learns from nothing, in {STEPS:,} steps of {BATCH} sentences each, in about a minute.")
        return
    before = DESK.look(asked)
    waits = asked.state == "waiting"
    points, steps = asked.history.points, asked.history.steps
    what = plain(f"{asked.history.variant}, seed {asked.seed}")
    step = points[-1].measured.step if points else 0
    stays = f" What it had learnt by step {step:,} stays." if points else ""
    if waits and before:
        place = "next" if len(before) < 2 else f"number {len(before)} in line"
        st.info(
            f"Somebody else is training: about {before[0].seconds_left:.0f} s are left. You are {place}. Yours starts "
            f"by itself, in about {sum(one.seconds_left for one in before):.0f} s.",
            icon=":material/hourglass_top:",
        )
    elif waits or asked.state == "running":
        far = f"Step {step:,} of {steps:,} · loss {points[-1].measured.loss:.2f} · " if points else "It starts · "
        st.progress(step / steps, f"{far}about {asked.seconds_left:.0f} s left")
    elif asked.state == "finished":
        st.success(f"Trained: {what}, {steps:,} steps.", icon=":material/check:")
    elif asked.state == "failed":
        st.error(plain(f"{asked.problem}{stays}"), icon=":material/error:")
    elif asked.state == "left":
        st.info(f"Stopped, because nobody looked on for a while.{stays}", icon=":material/stop:")
    else:
        st.info(f"Stopped: {what}.{stays}", icon=":material/stop:")


def _asked() -> Training | None:
    return st.session_state.get(ASKED)
