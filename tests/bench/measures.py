"""What the tables of `make bench` and `make load` share: how often and at which sizes something is measured, how it is
printed and written, and that both sides of a ratio are in the same state."""

import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from math import floor, inf, isnan, log10
from pathlib import Path
from typing import TypeVar

import torch
from playwright.sync_api import Browser, BrowserContext, Page

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
    """The milliseconds of two sides and their ratio, as `medians` of pairs."""
    return medians(repeated(lambda: (timed(one), timed(other)), runs))


def timed(make: Callable[[], object]) -> float:
    start = time.perf_counter()
    made = make()
    milliseconds = 1000 * (time.perf_counter() - start)
    del made
    return milliseconds


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Computes with so many threads, as the other side does."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def medians(times: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The median of each side, and of the ratios pair by pair."""
    ratios = [other / one for one, other in times]
    return statistics.median(one for one, _ in times), statistics.median(b for _, b in times), statistics.median(ratios)


# Tables ---------------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
FEATURES = re.compile(r"^(avx\w*|amx\w*|fma|f16c|asimd\w*|sve\w*|bf16|i8mm)$")  # of a processor: those for vectors
_written: list[str] = []  # the lines of the section that is being measured


@contextmanager
def section(name: str, title: str) -> Iterator[None]:
    """Prints what the tables of this block are measured with, and writes both as a section of docs/benchmarks.md, in
    the place of the last ones of this name. A run that is short, or was given arguments, writes nothing."""
    _written[:] = [f"## {title}", "", f"{date.today():%Y-%m-%d}: {machine()}."]
    print("\n".join(_written), flush=True)
    yield
    page = with_section(PAGE.read_text("utf-8"), name, "\n".join(_written))
    if not is_short() and len(sys.argv) == 1:
        PAGE.write_text(page, "utf-8")


def with_section(page: str, name: str, text: str) -> str:
    """Returns a page with this text between the marks of this name. Raises ValueError if it has no such marks."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, marked, rest = page.partition(start)
    _, ended, after = rest.partition(end)
    if not (marked and ended):
        raise ValueError(f"The page has no section between {start!r} and {end!r}.")
    return f"{before}{start}\n{text}\n\n{end}{after}"


def machine() -> str:
    """What the numbers of a section are measured with, and what else the machine did when they began."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().split("\n\n")[0].splitlines() if information.exists() else []
    about = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    features = sorted(filter(FEATURES.match, about.get("flags", about.get("Features", "")).split()))
    numbers = "".join(f", {name} {about[name]}" for name in ("cpu family", "model") if name in about)
    browser = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=True).stdout
    return (
        f"{os.cpu_count()} × {about.get('model name', platform.machine())}{numbers} ({', '.join(features)}); "
        f"Python {platform.python_version()}, torch {torch.__version__} with {torch.backends.cpu.get_cpu_capability()}"
        f" and {torch.get_num_threads()} threads, {' '.join(browser.split()[:2])}; before the run, the load of the "
        f"machine was {os.getloadavg()[0]:.1f}"
    )


def table(title: str, columns: Sequence[str]) -> None:
    """Begins a table."""
    print(f"\n{title}", flush=True)
    _written.extend(["", f"### {title}", ""])
    row(*columns)
    _written.append("|" + "-|" * len(columns))


def row(*values: float | str) -> None:
    """Adds a row to the table; numbers have about three digits."""
    cells = [value if isinstance(value, str) else number(value) for value in values]
    print("".join(f" {cell:>14}" for cell in cells), flush=True)
    _written.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")


def note(text: str) -> None:
    """Adds a sentence below the table."""
    print(f"\n{text}", flush=True)
    _written.extend(["", text])


def number(value: float) -> str:
    """Formats a number with about three digits."""
    if isnan(value) or value == inf:
        return "none" if isnan(value) else "never"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.{max(0, 2 - floor(log10(abs(value)))) if 1e-4 < abs(value) < 100 else 0}f}"


# In a browser ---------------------------------------------------------------------------------------------------------

# Every page is measured in this state, so that both sides of a ratio are: a page behind another draws a second later.
IN_FRONT = {"visible": True, "focused": True, "width": 1280, "height": 800, "pixels": 1}
STATE = """() => ({
    visible: document.visibilityState === 'visible', focused: document.hasFocus(),
    width: innerWidth, height: innerHeight, pixels: devicePixelRatio,
})"""


def text_of(tokens: int, seed: int) -> str:
    """A text that MiniLM reads as `tokens` tokens, including the two that it adds; another for each seed."""
    return " ".join(WORDS[(i * 7 + seed * (i % 3 + 1)) % len(WORDS)] for i in range(tokens - 2))


def new_context(browser: Browser) -> BrowserContext:
    """A context with nothing in its cache, for pages that are measured."""
    context = browser.new_context(viewport={"width": IN_FRONT["width"], "height": IN_FRONT["height"]})
    context.set_default_timeout(300_000)  # also on a busy machine
    return context


def new_page(context: BrowserContext) -> Page:
    """A page that knows whether it has the focus; Playwright lets every page believe that."""
    page = context.new_page()
    context.new_cdp_session(page).send("Emulation.setFocusEmulationEnabled", {"enabled": False})
    return page


def check_in_front(page: Page) -> None:
    """Raises RuntimeError if a page is not in the state in which all are measured."""
    if (state := page.evaluate(STATE)) != IN_FRONT:
        raise RuntimeError(f"A page is measured only in the state {IN_FRONT}; {page.url} is in {state}.")


@contextmanager
def in_front(page: Page) -> Iterator[None]:
    """Brings a page to the front, and sees that it stays there until the measurement is done."""
    page.bring_to_front()
    page.wait_for_function("() => document.hasFocus()")
    check_in_front(page)
    yield
    check_in_front(page)


@contextmanager
def visit(context: BrowserContext, address: str) -> Iterator[Page]:
    """A page whose map is drawn; it counts the bytes that it is sent."""
    page = new_page(context)
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
    """Milliseconds from Enter, on a page in front and at rest, until a map with `rows` rows is on the screen."""
    with in_front(page):
        box = page.get_by_label("Text", exact=True)
        box.fill(text)
        page.evaluate(AT_REST)
        page.evaluate("addEventListener('keydown', () => (window.entered = performance.now()), { once: true })")
        box.press("Enter")
        milliseconds: float = page.evaluate(
            f"""rows => new Promise(done => {{
                const frame = next => requestAnimationFrame(next);
                const look = () => {drawn} === rows
                    ? frame(() => frame(() => done(performance.now() - window.entered))) : frame(look);
                look();
            }})""",
            rows,
        )
    return milliseconds


def repainted(
    page: Page, event: str, act: Callable[[], object], charts: Sequence[str], rows: int | None = None
) -> float:
    """Milliseconds from what is done on a page in front until these charts are painted again, the map with `rows`
    rows."""
    with in_front(page):
        page.evaluate(
            """([event, charts]) => {
                for (const key of charts) document.querySelector(`.st-key-${key} .attnviz-chart`).dataset.ready = 'old';
                const options = { once: true, capture: true };
                addEventListener(event, () => (window.entered = performance.now()), options);
            }""",
            [event, list(charts)],
        )
        act()
        milliseconds: float = page.evaluate(
            """([charts, rows]) => new Promise((done, fail) => {
                setTimeout(() => fail(new Error('Nothing was painted in five minutes.')), 300000);
                const chart = key => document.querySelector(`.st-key-${key} .attnviz-chart`)?.dataset;
                const frame = next => requestAnimationFrame(next);
                const isPainted = () => charts.every(key => chart(key)?.ready === 'true')
                    && (rows === null || Number(chart('heatmap').rows) === rows);
                const look = () => isPainted() ? done(performance.now() - window.entered) : frame(look);
                look();
            })""",
            [list(charts), rows],
        )
    return milliseconds
