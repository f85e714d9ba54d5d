"""make load: many visitors of Explore at once, who use every control.

A visitor is a websocket client without a browser. It opens the page, with MiniLM or with SmolLM2, thinks for 0 to 5
seconds, uses one control of the page, waits for the end of the run, and begins anew. Then all leave, and the memory of
the server is watched for two minutes. `python -m tests.bench.load --minutes 10 100` takes other numbers of visitors, at
most 100, `--smollm2` that model, and `--replicas 2` divides them between several servers; only servers of its own, on
this machine, are visited.
"""

import asyncio
import os
import random
import statistics
import tempfile
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from math import nan
from pathlib import Path
from urllib.parse import urlencode

from attnviz.base.app_files import ASSETS
from attnviz.models import MINILM, SMOLLM2
from tests.bench.measures import WORDS, is_short, note, row, section, sizes, table
from tests.support.browser import serving_process
from tests.support.visitor import Visitor, visit

# The model with which the page opens, visitors, and the servers between which they are divided.
VISITORS = sizes(
    ((MINILM, 1, 1), (MINILM, 30, 1), (SMOLLM2, 30, 1), (MINILM, 100, 1), (SMOLLM2, 100, 1), (MINILM, 100, 2)),
    ((MINILM, 2, 2),),
)
MOST_VISITORS = 100
MINUTES, THINKING = (0.1, 0.2) if is_short() else (1.0, 5.0)
# Seconds of the visitor before them, until its session has ended, and for which the memory is watched after all have
# left.
FIRST, FORGOTTEN, LEAVING = (1.0, 0.0, 0.0) if is_short() else (20.0, 60.0, 120.0)
EVERY = 2.0  # seconds between two looks at the memory
BACK = 1.1  # the memory is back when it is within this of what it was before the visitors
NUMBERS = "2 5"  # for text fields that hold whole numbers
SAMPLE = ASSETS / "samples" / "four-heads.npz"
LEFT_ALONE = {"Present", "lesson", "lesson-step", "right"}  # hidden fields, and what hides the controls
LIGHT = {"heatmap", "heads", "Pinned query", "Layer", "Head", "Mask"}  # controls that need no forward pass
PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Replicas:
    """Servers on this machine, and their processes as the system sees them."""

    addresses: list[str]
    processes: list[int]

    @property
    def cpu_seconds(self) -> float:
        """The processor time that they have taken."""
        after_names = (Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in self.processes)
        return sum(int(after[11]) + int(after[12]) for after in after_names) / PER_SECOND

    @property
    def memory(self) -> float:
        """Their memory in MB; what they share with others counts in parts."""
        lines = (line for one in self.processes for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@contextmanager
def replicas(folder: Path, count: int) -> Iterator[Replicas]:
    """So many servers of the app, which end with the block."""
    with ExitStack() as stack:
        served = [stack.enter_context(serving_process(folder / f"log {number}")) for number in range(count)]
        yield Replicas([address for address, _ in served], [process for _, process in served])


@dataclass
class Figures:
    """What is measured while visitors come, and after they have left."""

    seconds: list[float] = field(default_factory=list)  # of each run but those that opened the page
    light: list[float] = field(default_factory=list)  # of those of light controls
    opened: int = 0  # pages
    errors: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)  # controls, by how often
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds from the start, and MB
    cpu_seconds: float = 0  # of the server
    before: float = 0  # MB before the visitors
    left_at: float = 0  # seconds from the start

    @property
    def cpu_per_run(self) -> float:
        """The seconds of processor time that a run took, those that opened the page included."""
        return self.cpu_seconds / max(1, len(self.seconds) + self.opened)

    @property
    def growth(self) -> float:
        """The memory in the last tenth of the visits divided by that at the end of their second tenth."""
        visits = [memory for when, memory in self.memory if when < self.left_at]
        tenth = max(1, len(visits) // 10)
        return statistics.mean(visits[-tenth:]) / statistics.mean(visits[tenth : 2 * tenth] or visits[-1:])

    @property
    def seconds_until_back(self) -> float:
        """The seconds after the visits until the memory was back; infinite if it was not."""
        after = [when for when, memory in self.memory if when >= self.left_at and memory <= BACK * self.before]
        return after[0] - self.left_at if after else float("inf")


def load(counts: Sequence[tuple[str, int, int]] = VISITORS, minutes: float = MINUTES) -> None:
    """Prints the times of the runs, the errors, the processor time and the memory, for several models and numbers of
    visitors and servers."""
    columns = (
        *("model", "visitors", "servers", "runs", "errors", "p50 ms", "p95 ms", "max ms", "light p50", "light p95"),
        *("CPU ms", "MB before", "MB", "growth", "MB left", "s to back"),
    )
    table(f"Visitors of Explore who think for 0 to {THINKING:.0f} seconds, for {60 * minutes:g} seconds", columns)
    errors = Counter[str]()
    for model, count, servers in counts:
        with tempfile.TemporaryDirectory() as folder, replicas(Path(folder), servers) as visited:
            figures = asyncio.run(measure(visited, count, 60 * minutes, model=model))
        at_end = [memory for when, memory in figures.memory if when <= figures.left_at][-1]
        row(
            *(model.partition("/")[2].partition("-")[0], count, servers, len(figures.seconds), len(figures.errors)),
            *(*three(figures.seconds), *three(figures.light)[:2]),
            1000 * figures.cpu_per_run,
            *(figures.before, at_end, figures.growth, figures.memory[-1][1], figures.seconds_until_back),
        )
        errors.update(figures.errors)
    note_errors(errors)


def three(seconds: Sequence[float]) -> tuple[float, float, float]:
    """The median, the 95th percentile and the largest, in milliseconds; NaN if there are none."""
    if not seconds:
        return nan, nan, nan
    ordered = sorted(seconds)
    return 1000 * statistics.median(ordered), 1000 * ordered[len(ordered) * 95 // 100], 1000 * ordered[-1]


def note_errors(errors: Counter[str]) -> None:
    """Prints the most frequent errors."""
    for error, times in errors.most_common(5):
        note(f"Errors: {times} × {error}")


async def measure(
    visited: Replicas, count: int, seconds: float, leaving: float = LEAVING, model: str = MINILM
) -> Figures:
    """Returns what was measured of `count` visitors for some seconds, and after they have left."""
    figures = Figures()
    # One before them uses what is loaded once, and is forgotten.
    first = (visitor(address, random.Random(count), FIRST, Figures(), 0.2, model) for address in visited.addresses)
    await asyncio.gather(*first)
    await asyncio.sleep(FORGOTTEN)
    figures.before, cpu, start = visited.memory, visited.cpu_seconds, time.perf_counter()

    async def watch() -> None:
        while True:
            figures.memory.append((time.perf_counter() - start, visited.memory))
            await asyncio.sleep(EVERY)

    watching = asyncio.create_task(watch())
    addresses = cycle(visited.addresses)
    await asyncio.gather(
        *(visitor(next(addresses), random.Random(one), seconds, figures, model=model) for one in range(count))
    )
    figures.cpu_seconds = visited.cpu_seconds - cpu
    figures.left_at = time.perf_counter() - start
    while time.perf_counter() - start < figures.left_at + leaving and figures.seconds_until_back == float("inf"):
        await asyncio.sleep(EVERY)
    figures.memory.append((time.perf_counter() - start, visited.memory))
    watching.cancel()
    return figures


async def visitor(
    address: str,
    chance: random.Random,
    seconds: float,
    figures: Figures,
    thinking: float = THINKING,
    model: str = MINILM,
) -> None:
    """Visits Explore for `seconds`, with up to `thinking` seconds between two clicks; comes back after an error."""
    end = time.perf_counter() + seconds
    await asyncio.sleep(chance.uniform(0, min(seconds, thinking)))
    while True:
        control = ("", "open")
        try:
            async with visit(address, "explore", urlencode({"model": model})) as one:
                await one.run()
                figures.opened += 1
                for pause in _pauses(chance, end, thinking):
                    await asyncio.sleep(pause)
                    control = choose(one, chance)
                    figures.used[control[1]] += 1
                    await act(one, control, chance)
                    figures.seconds.append(await one.run())
                    if control[1] in LIGHT:
                        figures.light.append(figures.seconds[-1])
                return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
            figures.errors.append(f"{control[1]}: {traceback.format_exception_only(error)[-1].strip()[:200]}")
            if time.perf_counter() >= end:
                return


def choose(one: Visitor, chance: random.Random) -> tuple[str, str]:
    """Returns a control of the page."""
    source = one.values[one.widgets["selectbox", "Source"].id][1]
    controls = [name for name in one.widgets if name[1] not in LEFT_ALONE and one.is_enabled(name)]
    often = {("text_input", "Text"): 6.0, ("bidi_component", "heatmap"): 3.0, ("bidi_component", "heads"): 3.0}
    if source != "Model":
        often["selectbox", "Source"] = 4.0
    return chance.choices(controls, [often.get(name, 1.0) for name in controls])[0]


async def act(one: Visitor, control: tuple[str, str], chance: random.Random) -> None:
    """Uses a control of the page, for its next run."""
    kind, label = control
    widget = one.widgets[kind, label]
    match kind:
        case "selectbox":
            one.set(kind, label, chance.choice([name for name in widget.options if not name.startswith("—")]))
        case "multiselect":
            one.set(kind, label, chance.sample([*widget.options], chance.randint(0, min(2, len(widget.options)))))
        case "checkbox":
            one.set(kind, label, not one.values[widget.id][1])
        case "number_input":
            least = widget.min if widget.has_min else 0
            most = min(widget.max, least + 12) if widget.has_max else least + 12
            whole = widget.data_type == widget.INT
            one.set(kind, label, float(chance.randint(int(least), int(most))) if whole else chance.uniform(least, most))
        case "slider" if widget.options:
            one.set(kind, label, [chance.choice(widget.options) for _ in widget.default])
        case "slider":
            one.set(
                kind, label, sorted(float(chance.randint(int(widget.min), int(widget.max))) for _ in widget.default)
            )
        case "text_input" | "text_area":
            words = " ".join(chance.choices(WORDS, k=chance.randint(6, 24)))
            one.set(kind, label, words if label == "Text" else NUMBERS)
        case "button":
            one.set(kind, label, True)
        case "bidi_component" if label in one.stamps:
            rows, columns = one.sizes[label]
            one.click(label, chance.randrange(rows), chance.randrange(columns))
        case "download_button":
            await one.download(label)
        case "file_uploader":
            await one.upload(label, SAMPLE)


def _pauses(chance: random.Random, end: float, thinking: float) -> Iterator[float]:
    while time.perf_counter() + (pause := chance.uniform(0, thinking)) < end:
        yield pause


if __name__ == "__main__":
    parser = ArgumentParser("python -m tests.bench.load", description="Measures many visitors of Explore at once.")
    parser.add_argument("visitors", type=int, nargs="*", help=f"at most {MOST_VISITORS}")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each visit")
    parser.add_argument("--smollm2", action="store_true", help="open the page with SmolLM2")
    parser.add_argument("--replicas", type=int, default=1, help="servers between which the visitors are divided")
    chosen = parser.parse_args()
    if max(chosen.visitors, default=0) > MOST_VISITORS:
        parser.error(f"at most {MOST_VISITORS} visitors")
    with section("make load: visitors", "Many visitors"):
        model = SMOLLM2 if chosen.smollm2 else MINILM
        load([(model, count, chosen.replicas) for count in chosen.visitors] or VISITORS, chosen.minutes)
