"""Training in a process of its own, and the queue before it."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import torch

from attnviz import translator
from attnviz.app_files import PACKAGE_PARENT
from attnviz.translator import Evaluation, Translator, live_training, weights
from attnviz.translator.encoder_decoder import MAX_POSITIONS, START, TARGET_VOCABULARY, ForwardPass
from attnviz.translator.live_training import (
    CHECKPOINTS,
    EVALUATION_SENTENCES,
    LiveTraining,
    TrainingQueue,
    shipped_history,
)
from attnviz.translator.train import LOG_EVERY, train
from attnviz.translator.translation import source_ids

TEXT = "the small black cat does not look at the young birds ."
ENDLESS = 100_000


def until(
    condition: Callable[[], object], queue: TrainingQueue | None = None, here: tuple[LiveTraining, ...] = ()
) -> None:
    """Waits, while the pages of those who are here keep them alive."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        for training in here if queue else ():
            queue.keep_alive(training)
        time.sleep(0.05)


def gone(training: LiveTraining) -> bool:
    """Whether its process has ended."""
    assert training._process
    try:
        os.kill(training._process.pid, 0)
    except ProcessLookupError:
        return True
    return False


def halves(shown: Translator) -> dict[str, torch.Tensor]:
    return {name: numbers.half().float() for name, numbers in shown.model.state_dict().items()}


def test_one_trains_what_train_gives_and_the_next_starts_by_itself(as_installed) -> None:
    queue, first, second = (
        TrainingQueue(patience=60),
        LiveTraining("additive", 3, 12),
        LiveTraining("scaled dot", 1, ENDLESS),
    )
    for training in (first, second):
        queue.submit(training)
    until(lambda: first.status == "running", queue, (first, second))
    assert second.status == "waiting"
    assert (queue.keep_alive(first), queue.keep_alive(second)) == ([], [first])
    assert first.seconds_left > 0
    until(lambda: first.is_over, queue, (first, second))
    assert (first.status, first.problem, first.seconds_left) == ("finished", "", 0)

    expected = list(train(3, "additive", 12))
    history = first.history
    assert (history.variant, history.steps) == ("additive", 12)
    assert [one.evaluation.step for one in history.checkpoints] == [0, 10, 12]
    assert history.losses == pytest.approx([one.loss for one in expected if one.step % LOG_EVERY == 0], abs=1e-3)
    last = expected[-1].translator()
    torch.testing.assert_close(halves(history.checkpoints[-1].translator()), halves(last), atol=1e-3, rtol=1e-2)
    evaluation = weights.evaluate(last, expected[-1].loss, EVALUATION_SENTENCES)
    assert history.checkpoints[-1].evaluation.step == evaluation.step == 12
    assert history.checkpoints[-1].evaluation.loss == pytest.approx(evaluation.loss, abs=1e-3)
    torch.testing.assert_close(
        torch.tensor(history.checkpoints[-1].evaluation.agreement),
        torch.tensor(evaluation.agreement),
        atol=0.01,
        rtol=0,
    )
    assert history.checkpoints[-1].translator().variant == "additive"

    # The second has begun meanwhile; it is stopped, and keeps its checkpoints.
    until(lambda: len(second.history.checkpoints) > 1, queue, (second,))
    assert queue.keep_alive(second) == []
    started = time.monotonic()
    second.stop()
    assert (second.status, gone(second)) == ("stopped", True)
    assert time.monotonic() - started < 30  # it is killed, not waited for
    history = second.history
    assert history.checkpoints[-1].translator().translate(TEXT).steps
    until(lambda: not queue._queue)
    second.stop("left")
    assert (second.status, second.history) == ("stopped", history)


def test_who_goes_away_loses_the_place_and_what_breaks_off_is_said() -> None:
    queue = TrainingQueue(patience=2.5)
    first, second, third, fourth = (LiveTraining("scaled dot", seed, ENDLESS) for seed in range(4))
    for training in (first, second, third, fourth):
        queue.submit(training)
    until(lambda: first.status == "running", queue, (first, second, third, fourth))
    assert queue.keep_alive(fourth) == [first, second, third]
    third.stop()
    until(lambda: second.is_over, queue, (first, fourth))
    assert (first.status, second.status, third.status) == ("running", "left", "stopped")
    assert queue.keep_alive(fourth) == [first]
    until(lambda: first.is_over, queue, (fourth,))
    assert first.status == "left"
    until(lambda: gone(first), queue, (fourth,))
    assert second._process is third._process is None

    until(lambda: fourth.history.checkpoints, queue, (fourth,))
    assert fourth._process
    os.kill(fourth._process.pid, signal.SIGKILL)
    until(lambda: fourth.is_over, queue, (fourth,))
    assert fourth.status == "failed"
    step = fourth.history.checkpoints[-1].evaluation.step
    assert fourth.problem == f"The training broke off after step {step}, by an error (exit code -9). Train again."


def test_a_process_that_nobody_listens_to_ends(capfd) -> None:
    command = [sys.executable, "-m", "attnviz.translator.live_training", "dot", "0", str(ENDLESS)]
    with subprocess.Popen(command, cwd=PACKAGE_PARENT, stdout=subprocess.PIPE) as process:
        assert process.stdout
        header = json.loads(process.stdout.readline())
        assert (header["evaluation"]["step"], len(header["losses"])) == (0, 1)
        process.stdout.close()
        assert process.wait(60) == 0
    assert capfd.readouterr().err == ""


def test_what_cannot_be_started_is_said(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    queue, training = TrainingQueue(), LiveTraining("dot", 0)
    queue.submit(training)
    until(lambda: training.is_over)
    assert training.problem == "The training could not be started: No such file or directory. Try again."
    with pytest.raises(ValueError, match="'cosine'"):
        LiveTraining("cosine", 0)


def message(step: int) -> tuple[Evaluation, list[float], bytes]:
    return Evaluation(step, 1.0, 0.5, 0.5, ((0.0,),)), [1.0], b"weights"


def test_the_memory_of_a_training_is_bounded() -> None:
    training = LiveTraining("dot", 0)
    for step in range(1001):
        training._add_checkpoint(*message(step))
        assert training.history.checkpoints[-1].evaluation.step == step
        assert len(training.history.checkpoints) <= 20
    assert tuple(one.evaluation.step for one in training.history.checkpoints) == (*CHECKPOINTS, 1000)
    assert len(training.history.losses) == 1001


def test_a_message_that_is_cut_off_is_the_end(tmp_path) -> None:
    header = {
        "evaluation": {"step": 1, "loss": 2.0, "exact": 0.0, "combinations": 0.0, "agreement": [[0.5, 1.0]]},
        "losses": [],
    }
    whole = json.dumps(header | {"bytes": 3}).encode() + b"\nabc"
    file = tmp_path / "message"
    for end in range(len(whole) + 1):
        file.write_bytes(whole[:end])
        with file.open("rb") as output:
            expected = (Evaluation(1, 2.0, 0.0, 0.0, ((0.5, 1.0),)), [], b"abc") if end == len(whole) else None
            assert live_training._read_message(output) == expected


def test_the_shipped_history_is_the_log() -> None:
    history = shipped_history()
    assert (history.variant, history.losses) == ("scaled dot", translator.training_log().losses)
    assert tuple(one.evaluation for one in history.checkpoints) == translator.training_log().evaluations
    assert [one.translator().step for one in history.checkpoints] == list(translator.checkpoints())
    assert history.steps == translator.checkpoints()[-1]


# Teacher forcing.


def test_teacher_forcing_with_the_right_words_is_the_right_translation() -> None:
    shown = translator.load()
    made = shown.translate(TEXT)
    forced = shown.teacher_forced(made.english, made.french)
    assert (forced.french, forced.alignment, forced.finished) == (
        made.french,
        made.reference.alignment,
        True,
    )
    for one, same in zip(forced.steps, made.steps, strict=True):
        torch.testing.assert_close(one.probabilities, same.probabilities, atol=1e-5, rtol=1e-4)
        for a, b in zip(one.records, same.records, strict=True):
            torch.testing.assert_close(a.weights, b.weights, atol=1e-5, rtol=1e-4)


def test_teacher_forcing_takes_words_that_it_would_not_predict() -> None:
    shown, right = translator.load(step=100), translator.load().translate(TEXT)
    assert shown.translate(TEXT).french != right.french
    forced = shown.teacher_forced(right.english, right.french)
    assert forced.french == right.french
    memory = shown.model.encode(source_ids([right.english]), ForwardPass())
    words = torch.tensor([[START, *(TARGET_VOCABULARY.index(word) for word in right.french)]])
    rows = shown.model.decode(words, memory, ForwardPass())[0].softmax(-1)
    for step, row, word in zip(forced.steps, rows, (*right.french, "<end>"), strict=True):
        torch.testing.assert_close(step.probabilities, row, atol=1e-5, rtol=1e-4)
        assert step.probability == pytest.approx(float(row[TARGET_VOCABULARY.index(word)]), abs=1e-5)
    endless = shown.teacher_forced(right.english, ("chat",) * (MAX_POSITIONS + 5))
    assert (len(endless.steps), endless.finished) == (MAX_POSITIONS, False)
    assert math.isclose(float(endless.steps[-1].probabilities.sum()), 1, abs_tol=1e-4)
