"""Training while somebody looks on, in a process of its own, one after the other.

`python -m attnviz.translator.live_training VARIANT SEED STEPS` is that process. It writes what it has learnt to its
output: each time a line of JSON, and the weights.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Literal

import torch
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

from attnviz.translator import weights
from attnviz.translator.model import Transformer, score_of
from attnviz.translator.train import EVERY, TIMELINE, train
from attnviz.translator.translation import Translator
from attnviz.translator.weights import Measured

ROOT = Path(__file__).parents[2]
STEPS = 1000
SECONDS = 40.0  # that so many steps take, about, until it is known better
KEPT = (0, 10, 25, 50, 75, 100, 125, 150, 175, 200, 250, 300, 350, 400, 500, 600, 700, 800, 900)  # and the last
SENTENCES = 48  # that are translated to measure how good it is
TICK = 0.1  # seconds from one look at the line to the next
State = Literal["waiting", "running", "finished", "stopped", "left", "failed"]


@dataclass(frozen=True, eq=False)
class Point:
    """How good a translator was at a point of its training, and the translator as it was."""

    measured: Measured
    translator: Callable[[], Translator]


@dataclass(frozen=True, eq=False)
class History:
    """A training, as far as it has come."""

    variant: str
    steps: int  # that it has in the end
    losses: tuple[float, ...] = ()  # every EVERY steps, from step 0
    points: tuple[Point, ...] = ()


def shipped() -> History:
    """The training of the weights that are shipped."""
    log, points = weights.log(TIMELINE), []
    for measured in log.measured:
        points.append(Point(measured, partial(weights.load, TIMELINE, measured.step)))
    return History(TIMELINE, points[-1].measured.step, log.losses, tuple(points))


class Training:
    """A training in a process of its own. What it has learnt stays when it is stopped.

    Raises ValueError for a variant that there is not.
    """

    def __init__(self, variant: str, seed: int, steps: int = STEPS) -> None:
        score_of(variant)
        self.seed = seed
        self.state: State = "waiting"
        self.problem = ""  # why it failed
        self.history = History(variant, steps)
        self._process: Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._began = self._heard = 0.0

    @property
    def over(self) -> bool:
        """Whether it neither runs nor waits."""
        return self.state not in ("waiting", "running")

    @property
    def seconds_left(self) -> float:
        """How long it will take from now, about."""
        done = self.history.points[-1].measured.step if self.history.points else 0
        if self.over or not done:
            return 0.0 if self.over else SECONDS
        each = (self._heard - self._began) / done
        return max(1.0, each * (self.history.steps - done) - (time.monotonic() - self._heard))

    def start(self) -> None:
        """Starts the process."""
        asked = (self.history.variant, str(self.seed), str(self.history.steps))
        command = [sys.executable, "-m", "attnviz.translator.live_training", *asked]
        try:
            self._process = Popen(  # noqa: S603
                command, stdin=DEVNULL, stdout=PIPE, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,  # an interrupt is for the server; its end is noticed
            )  # fmt: skip
        except OSError as error:
            self.state, self.problem = "failed", f"The training could not be started: {error.strerror}. Try again."
            return
        self.state = "running"
        self._reader.start()

    def stop(self, state: Literal["stopped", "left"] = "stopped") -> None:
        """Ends it, or gives up its place in the line; nothing comes after this. The desk's, which knows who starts."""
        if self.over:
            return
        self.state = state
        if self._process:
            self._process.kill()
            self._reader.join(1)

    def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        try:
            with self._process.stdout as told:
                while self.state == "running" and (heard := _heard(told)):
                    self._heard = time.monotonic()
                    self._began = self._began or self._heard
                    self._take(*heard)
        finally:  # also where it cannot be understood: those in the line must not wait for it
            code = self._process.wait()
            if self.state == "running":
                self._end(code)

    def _take(self, measured: Measured, losses: list[float], halves: bytes) -> None:
        before = self.history
        # What was shown in passing gives way.
        kept = [one for one in before.points if one.measured.step in KEPT]
        point = Point(measured, partial(_translator, before.variant, measured.step, halves))
        self.history = replace(before, losses=(*before.losses, *losses), points=(*kept, point))

    def _end(self, code: int) -> None:
        points = self.history.points
        step = points[-1].measured.step if points else 0
        if code == 0 and step == self.history.steps:
            self.state = "finished"
            return
        self.problem = f"The training broke off after step {step}, by an error (exit code {code}). Train again."
        self.state = "failed"


def _heard(told: IO[bytes]) -> tuple[Measured, list[float], bytes] | None:
    """What the process says next; None at its end, also in the middle of a word."""
    line = told.readline()
    if not line.endswith(b"\n"):
        return None
    said = json.loads(line)
    halves = told.read(said["bytes"])
    if len(halves) < said["bytes"]:
        return None
    measured = said["measured"] | {"agreement": tuple(map(tuple, said["measured"]["agreement"]))}
    return Measured(**measured), said["losses"], halves


def _translator(variant: str, step: int, halves: bytes) -> Translator:
    model = Transformer(score_of(variant))
    model.load_state_dict(unpacked(halves))
    return Translator(model, variant, step)


class Desk:
    """Where trainings are asked for: one runs, the others wait in a line, and start by themselves.

    Who has not looked for more than `patience` seconds has gone: the place is lost, or the training stopped, if anybody
    else is in the line. Seconds in which the whole server was held up do not count.
    """

    def __init__(self, patience: float = 20.0) -> None:
        self.patience = patience
        self._line: list[Training] = []
        self._seen: dict[Training, int] = {}  # when each was looked at, in ticks
        self._ticks = 0
        self._lock = threading.Lock()

    def ask(self, training: Training) -> None:
        """Puts a training at the end of the line."""
        with self._lock:
            self._line.append(training)
            self._seen[training] = self._ticks
            if len(self._line) == 1:
                threading.Thread(target=self._serve, daemon=True).start()

    def stop(self, training: Training) -> None:
        """Ends a training, or gives up its place in the line."""
        with self._lock:  # it may be about to start
            training.stop()

    def look(self, training: Training) -> list[Training]:
        """Those that come before a training that waits, the one that runs first. Who looks is still there."""
        with self._lock:
            if training not in self._line:
                return []
            self._seen[training] = self._ticks
            return self._line[: self._line.index(training)]

    def _serve(self) -> None:
        """Goes on until nobody is left."""
        while self._next():
            time.sleep(TICK)

    def _next(self) -> bool:
        with self._lock:
            self._ticks += 1
            for one in self._line:
                alone = len(self._line) == 1  # whoever has gone is in nobody's way, and may come back
                if not alone and (self._ticks - self._seen[one]) * TICK > self.patience:
                    one.stop("left")
            self._line = [one for one in self._line if not one.over]
            self._seen = {one: self._seen[one] for one in self._line}
            if self._line and self._line[0].state == "waiting":
                self._line[0].start()
            return bool(self._line)


def main(variant: str, seed: int, steps: int) -> None:
    """Trains, and says where it is about once a second, until nobody listens."""
    os.nice(10)  # visitors come first
    torch.set_num_threads(1)
    # What anything else prints must not get between.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    said, took, losses = 0.0, 0.0, list[float]()
    for now in train(seed, variant, steps):
        if now.step % EVERY == 0:
            losses.append(round(now.loss, 4))
        began = time.monotonic()
        if now.step not in (*KEPT, steps) and began - said < max(1, 10 * took):
            continue
        translator = now.translator()
        measured = weights.measure(translator, now.loss, SENTENCES, new=False)
        halves = packed({name: tensor.half() for name, tensor in translator.model.state_dict().items()})
        header = {"measured": asdict(measured), "losses": losses, "bytes": len(halves)}
        try:
            out.write(json.dumps(header).encode() + b"\n" + halves)
            out.flush()
        except BrokenPipeError:
            os._exit(0)  # who asked is gone; there is nothing to put in order
        said, losses = time.monotonic(), []
        took = said - began


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
