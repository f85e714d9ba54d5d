"""Live training: translators are trained in separate processes, one at a time.

`python -m attnviz.translator.live_training VARIANT SEED STEPS` is such a process. It writes checkpoints to standard
output: a line of JSON, then the weights.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Literal

import torch
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

from attnviz.app_files import PACKAGE_PARENT
from attnviz.translator import weights
from attnviz.translator.encoder_decoder import Transformer, score_class
from attnviz.translator.train import LOG_EVERY, TIMELINE, train
from attnviz.translator.translation import Translator
from attnviz.translator.weights import Evaluation

STEPS = 1000
EXPECTED_SECONDS = 40.0  # that STEPS steps take, about, until their time is measured
CHECKPOINTS = (0, 10, 25, 50, 75, 100, 125, 150, 175, 200, 250, 300, 350, 400, 500, 600, 700, 800, 900)  # and the last
EVALUATION_SENTENCES = 48  # that are translated to measure how good it is
TICK = 0.1  # seconds between two looks at the queue
Status = Literal["waiting", "running", "finished", "stopped", "left", "failed"]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A translator at one step of its training, with its evaluation."""

    evaluation: Evaluation
    translator: Callable[[], Translator]


@dataclass(frozen=True, eq=False)
class TrainingHistory:
    """The losses and checkpoints of a training so far."""

    variant: str
    steps: int  # that it has in the end
    losses: tuple[float, ...] = ()  # every EVERY steps, from step 0
    checkpoints: tuple[Checkpoint, ...] = ()


def shipped_history() -> TrainingHistory:
    """Returns the training of the shipped weights.

    Example:
        >>> history = shipped_history()
        >>> history.steps, history.checkpoints[0].evaluation.step
        (2400, 0)
    """
    log = weights.training_log(TIMELINE)
    checkpoints = [Checkpoint(one, partial(weights.load, TIMELINE, one.step)) for one in log.evaluations]
    return TrainingHistory(TIMELINE, log.evaluations[-1].step, log.losses, tuple(checkpoints))


class LiveTraining:
    """A training in a separate process. Its checkpoints remain after it is stopped.

    Raises ValueError if there is no such variant.
    """

    def __init__(self, variant: str, seed: int, steps: int = STEPS) -> None:
        score_class(variant)
        self.seed = seed
        self.status: Status = "waiting"
        self.problem = ""  # why it failed
        self.history = TrainingHistory(variant, steps)
        self._process: Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._first_message = self._last_message = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it is neither running nor waiting."""
        return self.status not in ("waiting", "running")

    @property
    def seconds_left(self) -> float:
        """The estimated remaining time in seconds."""
        done = self.history.checkpoints[-1].evaluation.step if self.history.checkpoints else 0
        if self.is_over or not done:
            return 0.0 if self.is_over else EXPECTED_SECONDS
        each = (self._last_message - self._first_message) / done
        return max(1.0, each * (self.history.steps - done) - (time.monotonic() - self._last_message))

    def start(self) -> None:
        """Starts the process."""
        arguments = (self.history.variant, str(self.seed), str(self.history.steps))
        command = [sys.executable, "-m", "attnviz.translator.live_training", *arguments]
        try:
            self._process = Popen(  # noqa: S603
                command, stdin=DEVNULL, stdout=PIPE, cwd=PACKAGE_PARENT, env=os.environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,  # an interrupt is for the server; its end is noticed
            )  # fmt: skip
        except OSError as error:
            self.status, self.problem = "failed", f"The training could not be started: {error.strerror}. Try again."
            return
        self.status = "running"
        self._reader.start()

    def stop(self, status: Literal["stopped", "left"] = "stopped") -> None:
        """Stops the training, or gives up its place in the queue. Use TrainingQueue.cancel, which also starts the
        next one."""
        if self.is_over:
            return
        self.status = status
        if self._process:
            self._process.kill()
            self._reader.join(1)

    def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        try:
            with self._process.stdout as output:
                while self.status == "running" and (message := _read_message(output)):
                    self._last_message = time.monotonic()
                    self._first_message = self._first_message or self._last_message
                    self._add_checkpoint(*message)
        finally:  # also where a message cannot be read: those in the queue must not wait for it
            code = self._process.wait()
            if self.status == "running":
                self._end(code)

    def _add_checkpoint(self, evaluation: Evaluation, losses: list[float], weights_in_half: bytes) -> None:
        before = self.history
        # Of the checkpoints between those in CHECKPOINTS only the last one is kept.
        earlier = [one for one in before.checkpoints if one.evaluation.step in CHECKPOINTS]
        checkpoint = Checkpoint(evaluation, partial(_translator, before.variant, evaluation.step, weights_in_half))
        self.history = replace(before, losses=(*before.losses, *losses), checkpoints=(*earlier, checkpoint))

    def _end(self, code: int) -> None:
        checkpoints = self.history.checkpoints
        step = checkpoints[-1].evaluation.step if checkpoints else 0
        if code == 0 and step == self.history.steps:
            self.status = "finished"
            return
        self.problem = f"The training broke off after step {step}, by an error (exit code {code}). Train again."
        self.status = "failed"


def _read_message(output: IO[bytes]) -> tuple[Evaluation, list[float], bytes] | None:
    """Returns the next message of the process; None at the end of its output."""
    line = output.readline()
    if not line.endswith(b"\n"):
        return None
    header = json.loads(line)
    weights_in_half = output.read(header["bytes"])
    if len(weights_in_half) < header["bytes"]:
        return None
    agreement = tuple(map(tuple, header["evaluation"]["agreement"]))
    return Evaluation(**header["evaluation"] | {"agreement": agreement}), header["losses"], weights_in_half


def _translator(variant: str, step: int, weights_in_half: bytes) -> Translator:
    model = Transformer(score_class(variant))
    model.load_state_dict(unpacked(weights_in_half))
    return Translator(model, variant, step)


class TrainingQueue:
    """A queue of live trainings: the first one runs, the others wait.

    A training whose page has not called `keep_alive` for more than `patience` seconds is stopped, or loses its place,
    if others are in the queue. Time in which the whole server was suspended does not count.
    """

    def __init__(self, patience: float = 20.0) -> None:
        self.patience = patience
        self._queue: list[LiveTraining] = []
        self._last_alive: dict[LiveTraining, int] = {}  # in ticks
        self._ticks = 0
        self._lock = threading.Lock()

    def submit(self, training: LiveTraining) -> None:
        """Adds a training to the end of the queue."""
        with self._lock:
            self._queue.append(training)
            self._last_alive[training] = self._ticks
            if len(self._queue) == 1:
                threading.Thread(target=self._serve, daemon=True).start()

    def cancel(self, training: LiveTraining) -> None:
        """Stops a training, or removes it from the queue."""
        with self._lock:  # it may be about to start
            training.stop()

    def keep_alive(self, training: LiveTraining) -> list[LiveTraining]:
        """Records that the page of a training is open; returns the trainings before it, the running one first."""
        with self._lock:
            if training not in self._queue:
                return []
            self._last_alive[training] = self._ticks
            return self._queue[: self._queue.index(training)]

    def _serve(self) -> None:
        """Runs until the queue is empty."""
        while self._advance():
            time.sleep(TICK)

    def _advance(self) -> bool:
        with self._lock:
            self._ticks += 1
            for one in self._queue:
                is_alone = len(self._queue) == 1  # then it is in nobody's way, and its page may come back
                if not is_alone and (self._ticks - self._last_alive[one]) * TICK > self.patience:
                    one.stop("left")
            self._queue = [one for one in self._queue if not one.is_over]
            self._last_alive = {one: self._last_alive[one] for one in self._queue}
            if self._queue and self._queue[0].status == "waiting":
                self._queue[0].start()
            return bool(self._queue)


def main(variant: str, seed: int, steps: int) -> None:
    """Trains, and writes a checkpoint about once a second, until the output is closed."""
    os.nice(10)  # visitors come first
    torch.set_num_threads(1)
    # What anything else prints must not get between.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    written, duration, losses = 0.0, 0.0, list[float]()
    for now in train(seed, variant, steps):
        if now.step % LOG_EVERY == 0:
            losses.append(round(now.loss, 4))
        began = time.monotonic()
        if now.step not in (*CHECKPOINTS, steps) and began - written < max(1, 10 * duration):
            continue
        translator = now.translator()
        evaluation = weights.evaluate(translator, now.loss, EVALUATION_SENTENCES, new=False)
        weights_in_half = packed({name: tensor.half() for name, tensor in translator.model.state_dict().items()})
        header = {"evaluation": asdict(evaluation), "losses": losses, "bytes": len(weights_in_half)}
        try:
            out.write(json.dumps(header).encode() + b"\n" + weights_in_half)
            out.flush()
        except BrokenPipeError:
            os._exit(0)  # nobody reads any more; there is nothing to put in order
        written, losses = time.monotonic(), []
        duration = written - began


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
