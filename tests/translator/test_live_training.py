"""Training in a process of its own, and the line before it."""

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
from attnviz.translator import Measured, Translator, live_training, weights
from attnviz.translator.live_training import KEPT, SENTENCES, Desk, Training, shipped
from attnviz.translator.model import LIMIT, START, TARGET, Pass
from attnviz.translator.train import EVERY, train
from attnviz.translator.translation import source

TEXT = "the small black cat does not look at the young birds ."
ENDLESS = 100_000


def until(condition: Callable[[], object], desk: Desk | None = None, here: tuple[Training, ...] = ()) -> None:
    """Waits, while the pages of those who are here look at the desk."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        for training in here if desk else ():
            desk.look(training)
        time.sleep(0.05)


def gone(training: Training) -> bool:
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
    desk, first, second = Desk(patience=60), Training("additive", 3, 12), Training("scaled dot", 1, ENDLESS)
    for training in (first, second):
        desk.ask(training)
    until(lambda: first.state == "running", desk, (first, second))
    assert second.state == "waiting"
    assert (desk.look(first), desk.look(second)) == ([], [first])
    assert first.seconds_left > 0
    until(lambda: first.over, desk, (first, second))
    assert (first.state, first.problem, first.seconds_left) == ("finished", "", 0)

    expected = list(train(3, "additive", 12))
    told = first.history
    assert (told.variant, told.steps) == ("additive", 12)
    assert [one.measured.step for one in told.points] == [0, 10, 12]
    assert told.losses == pytest.approx([one.loss for one in expected if one.step % EVERY == 0], abs=1e-3)
    last = expected[-1].translator()
    torch.testing.assert_close(halves(told.points[-1].translator()), halves(last), atol=1e-3, rtol=1e-2)
    measured = weights.measure(last, expected[-1].loss, SENTENCES)
    assert told.points[-1].measured.step == measured.step == 12
    assert told.points[-1].measured.loss == pytest.approx(measured.loss, abs=1e-3)
    torch.testing.assert_close(
        torch.tensor(told.points[-1].measured.agreement), torch.tensor(measured.agreement), atol=0.01, rtol=0
    )
    assert told.points[-1].translator().variant == "additive"

    # The second has begun meanwhile; it is stopped, and keeps what it has learnt.
    until(lambda: len(second.history.points) > 1, desk, (second,))
    assert desk.look(second) == []
    asked = time.monotonic()
    second.stop()
    assert (second.state, gone(second)) == ("stopped", True)
    assert time.monotonic() - asked < 30  # it is killed, not waited for
    kept = second.history
    assert kept.points[-1].translator().translate(TEXT).steps
    until(lambda: not desk._line)
    second.stop("left")
    assert (second.state, second.history) == ("stopped", kept)


def test_who_goes_away_loses_the_place_and_what_breaks_off_is_said() -> None:
    desk = Desk(patience=2.5)
    first, second, third, fourth = (Training("scaled dot", seed, ENDLESS) for seed in range(4))
    for training in (first, second, third, fourth):
        desk.ask(training)
    until(lambda: first.state == "running", desk, (first, second, third, fourth))
    assert desk.look(fourth) == [first, second, third]
    third.stop()
    until(lambda: second.over, desk, (first, fourth))
    assert (first.state, second.state, third.state) == ("running", "left", "stopped")
    assert desk.look(fourth) == [first]
    until(lambda: first.over, desk, (fourth,))
    assert first.state == "left"
    until(lambda: gone(first), desk, (fourth,))
    assert second._process is third._process is None

    until(lambda: fourth.history.points, desk, (fourth,))
    assert fourth._process
    os.kill(fourth._process.pid, signal.SIGKILL)
    until(lambda: fourth.over, desk, (fourth,))
    assert fourth.state == "failed"
    step = fourth.history.points[-1].measured.step
    assert fourth.problem == f"The training broke off after step {step}, by an error (exit code -9). Train again."


def test_a_process_that_nobody_listens_to_ends(capfd) -> None:
    command = [sys.executable, "-m", "attnviz.translator.live_training", "dot", "0", str(ENDLESS)]
    with subprocess.Popen(command, cwd=live_training.ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout
        said = json.loads(process.stdout.readline())
        assert (said["measured"]["step"], len(said["losses"])) == (0, 1)
        process.stdout.close()
        assert process.wait(60) == 0
    assert capfd.readouterr().err == ""


def test_what_cannot_be_started_is_said(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    desk, training = Desk(), Training("dot", 0)
    desk.ask(training)
    until(lambda: training.over)
    assert training.problem == "The training could not be started: No such file or directory. Try again."
    with pytest.raises(ValueError, match="variants are scaled dot, dot, general, additive; 'cosine' was asked for"):
        Training("cosine", 0)


def message(step: int) -> tuple[Measured, list[float], bytes]:
    return Measured(step, 1.0, 0.5, 0.5, ((0.0,),)), [1.0], b"weights"


def test_the_memory_of_a_training_is_bounded() -> None:
    training = Training("dot", 0)
    for step in range(1001):
        training._take(*message(step))
        assert training.history.points[-1].measured.step == step
        assert len(training.history.points) <= 20
    assert tuple(one.measured.step for one in training.history.points) == (*KEPT, 1000)
    assert len(training.history.losses) == 1001


def test_a_message_that_is_cut_off_is_the_end(tmp_path) -> None:
    said = {
        "measured": {"step": 1, "loss": 2.0, "exact": 0.0, "combinations": 0.0, "agreement": [[0.5, 1.0]]},
        "losses": [],
    }
    whole = json.dumps(said | {"bytes": 3}).encode() + b"\nabc"
    file = tmp_path / "said"
    for end in range(len(whole) + 1):
        file.write_bytes(whole[:end])
        with file.open("rb") as told:
            expected = (Measured(1, 2.0, 0.0, 0.0, ((0.5, 1.0),)), [], b"abc") if end == len(whole) else None
            assert live_training._heard(told) == expected


def test_the_shipped_history_is_the_log() -> None:
    history = shipped()
    assert (history.variant, history.losses) == ("scaled dot", translator.log().losses)
    assert tuple(one.measured for one in history.points) == translator.log().measured
    assert [one.translator().step for one in history.points] == list(translator.steps())
    assert history.steps == translator.steps()[-1]


# Given words.


def test_the_right_words_put_in_give_what_a_right_translation_gives() -> None:
    shown = translator.load()
    made = shown.translate(TEXT)
    told = shown.told(made.english, made.french)
    assert (told.french, told.alignment, told.finished) == (made.french, made.true.alignment, True)
    for one, same in zip(told.steps, made.steps, strict=True):
        torch.testing.assert_close(one.probabilities, same.probabilities, atol=1e-5, rtol=1e-4)
        for a, b in zip(one.ran, same.ran, strict=True):
            torch.testing.assert_close(a.weights, b.weights, atol=1e-5, rtol=1e-4)


def test_words_that_it_would_not_say_are_put_in_as_they_are() -> None:
    shown, right = translator.load(step=100), translator.load().translate(TEXT)
    assert shown.translate(TEXT).french != right.french
    told = shown.told(right.english, right.french)
    assert told.french == right.french
    memory = shown.model.encode(source([right.english]), Pass())
    words = torch.tensor([[START, *(TARGET.index(word) for word in right.french)]])
    rows = shown.model.decode(words, memory, Pass())[0].softmax(-1)
    for step, row, word in zip(told.steps, rows, (*right.french, "<end>"), strict=True):
        torch.testing.assert_close(step.probabilities, row, atol=1e-5, rtol=1e-4)
        assert step.probability == pytest.approx(float(row[TARGET.index(word)]), abs=1e-5)
    endless = shown.told(right.english, ("chat",) * (LIMIT + 5))
    assert (len(endless.steps), endless.finished) == (LIMIT, False)
    assert math.isclose(float(endless.steps[-1].probabilities.sum()), 1, abs_tol=1e-4)
