"""What the tables of `make bench` share: how often and at which sizes something is measured, and how it is printed."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch
from playwright.sync_api import BrowserContext, Page

from tests.support.browser import CHROMIUM

T = TypeVar("T")
SHORT = "BENCH_SHORT"  # in the environment: one repetition of the smallest size, to see that everything runs
WORDS = ("the", "animal", "did", "not", "cross", "a", "street", "because", "it", "was", "too", "tired", "today")
# Both sides of a ratio end two frames after their map is drawn, the benchmark's own.
DRAWN_BARE = "Number(document.querySelector('.js-plotly-plot')?.calcdata?.[0]?.[0]?.z?.length)"
DRAWN = "Number(document.querySelector('.st-key-heatmap .attnviz-chart')?.dataset.rows)"


# What a person sees who types a text: no run is under way, and the browser has nothing left to draw.
AT_REST = """() => new Promise(done => {
    const isRunning = () => document.querySelector('[data-testid=stApp]').dataset.testScriptState !== 'notRunning';
    const look = () => isRunning() ? requestAnimationFrame(look) : requestIdleCallback(() => requestIdleCallback(done));
    look();
})"""


def is_short() -> bool:
    return SHORT in os.environ


def sizes(full: Sequence[T], short: Sequence[T] = ()) -> Sequence[T]:
    """Returns the sizes to measure: all, or in a short run the first one or those given for it."""
    return (short or full[:1]) if is_short() else full


def repeated(measure: Callable[[], T], runs: int) -> list[T]:
    """Returns `runs` measurements, after one that is not counted; in a short run a single one."""
    return [measure()] if is_short() else [measure() for _ in range(runs + 1)][1:]


def in_turn(one: Callable[[], object], other: Callable[[], object], runs: int) -> tuple[float, float, float]:
    return medians(repeated(lambda: (timed(one), timed(other)), runs))


def timed(make: Callable[[], object]) -> float:
    start = time.perf_counter()
    made = make()
    milliseconds = 1000 * (time.perf_counter() - start)
    del made
    return milliseconds


def medians(times: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The median of each side, and of the ratios pair by pair."""
    ratios = [other / one for one, other in times]
    return statistics.median(one for one, _ in times), statistics.median(b for _, b in times), statistics.median(ratios)


# Printing -------------------------------------------------------------------------------------------------------------


@cache
def machine() -> str:
    """What the numbers of a table were measured with."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    browser = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=True).stdout
    name, version = browser.split()[:2]
    return (
        f"{os.cpu_count()} × {model}, {name} {version}, torch {torch.__version__}, threads: {torch.get_num_threads()}"
    )


def table(title: str, columns: tuple[str, ...]) -> None:
    print(f"\n{title}\n{machine()}\n" + "".join(f"{column:>14}" for column in columns), flush=True)


def row(*values: float | str) -> None:
    print("".join(f"{value:>14,.2f}" if isinstance(value, float) else f"{value:>14}" for value in values), flush=True)


# In a browser ---------------------------------------------------------------------------------------------------------


def text_of(tokens: int, seed: int) -> str:
    """A text that MiniLM reads as `tokens` tokens, including the two that it adds; another for each seed."""
    return " ".join(WORDS[(i * 7 + seed * (i % 3 + 1)) % len(WORDS)] for i in range(tokens - 2))


@contextmanager
def visit(browser: BrowserContext, address: str) -> Iterator[Page]:
    """A page whose map is drawn; it counts the bytes that it is sent."""
    page = browser.new_page()
    page.sent = [0]  # type: ignore[attr-defined]

    def count(frame: str | bytes) -> None:
        page.sent[0] += len(frame)  # type: ignore[attr-defined]

    page.on("websocket", lambda socket: socket.on("framereceived", count))
    page.goto(address)
    page.get_by_label("Text", exact=True).wait_for()
    page.wait_for_selector(".heatmaplayer image", state="attached")
    yield page
    page.close()


def painted(page: Page, text: str, rows: int, drawn: str) -> float:
    """Milliseconds from Enter, on a page at rest, until a map with `rows` rows is on the screen."""
    box = page.get_by_label("Text", exact=True)
    box.fill(text)
    page.evaluate(AT_REST)
    page.evaluate("addEventListener('keydown', () => (window.entered = performance.now()), { once: true })")
    box.press("Enter")
    return page.evaluate(
        f"""rows => new Promise(done => {{
            const frame = next => requestAnimationFrame(next);
            const look = () => {drawn} === rows
                ? frame(() => frame(() => done(performance.now() - window.entered))) : frame(look);
            look();
        }})""",
        rows,
    )
