"""A real server, a real browser, and the pages as a person meets them: used by the browser tests and by make bench."""

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Playwright,
    TimeoutError,
    expect,
)

from attnviz.base.app_pages import GROUPS
from attnviz.models import MINILM, TRANSLATOR
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")  # as in .ci/browser
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
# All its pages draw as if they were in front: in Chromium a page behind another one has a frame a second.
SHELL = shutil.which("chromium-headless-shell") or CHROMIUM
QUIET = ("no-first-run", "disable-background-networking", "disable-component-update", "disable-sync")
# While a page is inspected, an error that is caught makes V8 parse a whole script again to find its position, which
# takes a second of every load and nobody else waits for: positions are written down at once.
POSITIONS = "js-flags=--no-enable-lazy-source-positions"
ARGUMENTS = [f"--{argument}" for argument in ("no-sandbox", "disable-gpu", "disable-quic", POSITIONS, *QUIET)]
PATIENCE = 180  # seconds that a page or a server may take on a busy machine before a test fails
UNTIL = """async arg => {
    const end = performance.now() + MILLISECONDS;
    while (!(FUNCTION)(arg)) {
        if (performance.now() > end) throw new Error("This is still not true: " + (FUNCTION));
        await new Promise(done => setTimeout(done, 20)); // to wait for frames would have the browser draw them
    }
}""".replace("MILLISECONDS", str(1000 * PATIENCE))
# The place of an element once it has a size and has not moved for three frames; null if it is replaced meanwhile.
PLACE = """async element => {
    const end = performance.now() + MILLISECONDS;
    for (let same = 0, before = ""; same < 3; ) {
        if (!element.isConnected) return null;
        if (performance.now() > end) throw new Error("An element still has no size, or moves.");
        const { x, y, width, height } = element.getBoundingClientRect();
        const now = [x, y, width, height].join();
        same = width > 0 && height > 0 && now === before ? same + 1 : 0;
        before = now;
        await new Promise(requestAnimationFrame);
    }
    const { x, y, width, height } = element.getBoundingClientRect();
    return { x, y, width, height };
}""".replace("MILLISECONDS", str(1000 * PATIENCE))
# Links of pages that measure each head, or many texts, to models and texts of which that takes a fraction of the time
# and has the same elements.
TWO_TEXTS = "When Mary and John met, John saw | Mary | John\nWhen Tom and Mary met, Mary saw | Tom | Mary"
QUICK_LINKS = {
    "effects": f"effects?why-model={TRANSLATOR}",
    "heads": f"heads?why-model={MINILM}",
    "why": f"why?{urlencode({'many-texts': TWO_TEXTS})}",
}
TITLE = "document.querySelector('.stMainBlockContainer :is(h1, h2, h3)')?.innerText"
# Opens a link as a click on it does: attnviz/ui/navigation/links.js.
OPEN_IN_PLACE = "link => (history.pushState({}, '', link), dispatchEvent(new PopStateEvent('popstate')))"
IS_SETTLED = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
IS_START = "document.querySelector('.st-key-start') !== null"
# What a widget was about to say may have its page run instead, in which case the start page is to be opened again.
IS_START_SOON = f"""async () => {{
    const end = performance.now() + 5000;
    while (!({IS_START} && {IS_SETTLED}) && performance.now() < end) await new Promise(done => setTimeout(done, 20));
    return {IS_START} && {IS_SETTLED};
}}"""
expect.set_options(timeout=1000 * PATIENCE)


@contextmanager
def serving(log: Path, script: Path | None = None, base_path: str = "", *options: str) -> Iterator[str]:
    """A fresh process of the app, or of another Streamlit script; gives its address once it answers."""
    with serving_process(log, script, base_path, *options) as (address, _):
        yield address


@contextmanager
def serving_process(
    log: Path, script: Path | None = None, base_path: str = "", *options: str
) -> Iterator[tuple[str, int]]:
    """The same; gives the number of the process, too."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script or "app.py"), "--server.headless=true"]
    command += [f"--server.port={port}", "--server.address=127.0.0.1", "--server.fileWatcherType=none"]
    command += [f"--server.baseUrlPath={base_path}", *options]
    address = f"http://127.0.0.1:{port}{base_path}"
    with running(command, log, f"{address}/_stcore/health", OMP_NUM_THREADS="1") as process:
        yield address, process
    assert "Traceback" not in log.read_text()


@contextmanager
def running(command: list[str], log: Path, url: str, folder: Path = ROOT, **environment: str) -> Iterator[int]:
    """A server in a process of its own, from when it answers at an address; gives the number of the process."""
    variables = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    with (
        log.open("wb") as out,
        subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, env=variables) as server,
    ):
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(url):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, f"no answer in {PATIENCE} seconds: {log.read_text()}"
                time.sleep(0.1)
            yield server.pid
        finally:
            server.terminate()
            server.wait(20)


def answers(url: str) -> bool:
    """Returns whether a server answers at an address."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except (URLError, OSError):
        return False


class Browser:
    """Chromium with a profile for a mouse and one for touch; pages of a profile share caches and compiled scripts."""

    def __init__(self, playwright: Playwright, folder: Path) -> None:
        self.playwright, self.folder = playwright, folder
        self.profiles: dict[bool, BrowserContext] = {}
        self.shared_pages: dict[tuple[str, bool], Page] = {}

    def new_page(self, width: int = 1280, height: int = 800, theme: str = "light", touch: bool = False) -> Page:
        if touch not in self.profiles:
            self.profiles[touch] = self.playwright.chromium.launch_persistent_context(
                self.folder / f"touch {touch}",
                executable_path=SHELL,
                args=ARGUMENTS,
                has_touch=touch,
                is_mobile=touch,
                viewport={"width": width, "height": height},
            )
        page = self.profiles[touch].new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        page.set_default_timeout(1000 * PATIENCE)
        return page

    def shared_page(self, address: str, touch: bool = False) -> Page:
        """The page of an app that stays open for further tests."""
        if (address, touch) not in self.shared_pages:
            self.shared_pages[address, touch] = self.new_page(touch=touch)
        return self.shared_pages[address, touch]

    def close(self) -> None:
        for profile in self.profiles.values():
            profile.close()


@contextmanager
def opened(
    browser: Browser,
    address: str,
    width: int = 1280,
    height: int = 800,
    theme: str = "light",
    touch: bool = False,
    kind: "type[AppPage] | None" = None,
) -> Iterator:
    """A page; at the end nothing may have gone wrong in it, nor may another host have been requested."""
    page = browser.new_page(width, height, theme, touch)
    with without_troubles(page, address):
        try:
            yield (kind or Explore)(page, address)
            # A page that closes writes down where it was, and the start page of the next test would continue there.
            page.evaluate("localStorage.clear(), (Storage.prototype.setItem = () => undefined)")
        finally:
            page.close()


@contextmanager
def shared(
    browser: Browser,
    address: str,
    width: int = 1280,
    height: int = 800,
    theme: str = "light",
    touch: bool = False,
    kind: "type[AppPage] | None" = None,
) -> Iterator:
    """The page that tests share, which opens links in place: that takes a fraction of a load.

    For tests that leave nothing in the session but what a link says and what goes with its widget, such as an upload;
    tests of loads, of the history and of languages have a page of their own.
    """
    page = browser.shared_page(address, touch)
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=theme, reduced_motion="no-preference")
    page.mouse.move(1, 1)
    with without_troubles(page, address):
        app = (kind or Explore)(page, address)
        app.is_shared = True
        yield app


@contextmanager
def without_troubles(page: Page, address: str) -> Iterator[None]:
    """Raises AssertionError at the end if anything went wrong in a page, or another host was requested."""
    troubles: list[str] = []
    listeners = {
        "pageerror": lambda error: troubles.append(str(error)),
        "console": lambda message: troubles.append(message.text) if _trouble(message) else None,
        "request": lambda request: None if _own(request.url, address) else troubles.append(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        yield
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    assert not troubles, troubles


def _trouble(message: ConsoleMessage) -> bool:
    # On a deep link Streamlit's client asks for its own addresses below the page's first, and learns from the 404.
    return message.type == "error" and "/_stcore/" not in message.location["url"]


def _own(url: str, address: str) -> bool:
    return url.startswith((address, address.replace("http", "ws"), "data:", "blob:", "about:", "file:"))


def place_of(locator: Locator) -> dict[str, float]:
    """Waits until an element has been laid out and does not move, and returns its place on the screen: x, y, width and
    height."""
    while (place := locator.first.evaluate(PLACE)) is None:
        pass
    return place


class AppPage:
    """What a person does on a page with heatmaps, and what they see."""

    path, charts = "", ("heatmap",)  # the first chart is the default
    is_shared = False  # whether other tests have the page, too

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.heatmap = self.chart(self.charts[0])
        self.sentence = self.heatmap.locator(".attnviz-sentence")
        self.live = self.heatmap.locator(".attnviz-live")
        self.stage = self.heatmap.locator(".attnviz-stage")
        self.alert = page.get_by_test_id("stAlert")

    def chart(self, key: str) -> Locator:
        return self.page.locator(f".st-key-{key} .attnviz-chart")

    def visit(self, query: str = "") -> None:
        """Opens a page that need not show a chart yet."""
        self.go(f"{self.path}{query}")
        self.settled()

    def open(self, query: str = "") -> Self:
        self.go(f"{self.path}{query}")
        return self.painted()

    def go(self, link: str) -> None:
        """Opens a link of the app; in a shared page in place, by way of the start page, so that nothing of the page
        before is left."""
        if not self.is_shared:
            self.page.goto(f"{self.address}/{link}")
            return
        if not self.page.url.startswith(self.address):
            self.page.goto(self.address)
        self.page.evaluate(OPEN_IN_PLACE, f"{self.address}/")
        while not self.page.evaluate(IS_START_SOON):
            self.page.evaluate(OPEN_IN_PLACE, f"{self.address}/")
        self.page.evaluate(OPEN_IN_PLACE, f"{self.address}/{link}")
        self.until(f"() => !({IS_START}) && {IS_SETTLED}")

    def choose_page(self, name: str) -> None:
        """Opens a page from the menu in the bar of a wide window."""
        bar = self.page.get_by_test_id("stTopNav")
        group = next((group.title for group in GROUPS if name in (page.title for page in group.pages)), None)
        if group is None:
            bar.get_by_role("link", name=name).click()
        else:
            bar.get_by_role("button", name=group).click()
            self.page.get_by_role("menuitem", name=name).click()

    def until(self, function: str, arg: object = None) -> None:
        """Waits until a function in the page returns what is true.

        Playwright's own wait evaluates text as a script, which the headers of the app forbid.
        """
        while True:
            try:
                return self.page.evaluate(UNTIL.replace("FUNCTION", function), arg)
            except Error as error:
                if "context was destroyed" not in error.message:  # by a link to another page
                    raise

    def painted(self, rows: int | None = None) -> Self:
        """Waits until no run of the page is under way and its charts are drawn, the first with this many rows.

        `expect` would describe the whole page at every try that fails, which takes longer than to draw it.
        """
        self.until(
            """([keys, rows]) => {
                const charts = keys.map(key => document.querySelector(`.st-key-${key} .attnviz-chart`)?.dataset);
                return document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'
                    && charts.every(chart => chart?.ready === 'true')
                    && (rows === null || Number(charts[0].rows) === rows);
            }""",
            arg=[self.charts, rows],
        )
        return self

    def settled(self) -> None:
        """Waits until no run of the page is under way: what is done meanwhile may be lost."""
        self.until(f"() => {IS_SETTLED}")

    def open_page(self, link: str, title: str) -> None:
        """Opens a page by its link and waits until it, with this title, has run. After another page it is opened in
        place, as by a click, which takes half the time of loading it."""
        address = f"{self.address}/{link}"
        if self.page.evaluate(TITLE) in (None, title):
            self.page.goto(address)
        else:
            self.page.evaluate(OPEN_IN_PLACE, address)
        self.until(f"title => {TITLE} === title", title)
        self.settled()

    def type(self, text: str) -> None:
        box = self.page.get_by_label("Text", exact=True)
        box.fill(text)
        box.press("Enter" if box.evaluate("box => box.tagName") == "INPUT" else "Control+Enter")

    def choose(self, label: str, option: str) -> None:
        key = label.lower().replace(" ", "-")
        menu = self.page.locator(f".st-key-{key} input[role=combobox]")
        folded = self.page.locator(f".st-key-more details:not([open]):has(.st-key-{key}) summary")
        if folded.count():
            folded.click()
        menu.scroll_into_view_if_needed()
        self.offered(menu, option, lambda choice: choice.click(timeout=4_000))

    def offered(self, menu: Locator, option: str, act: Callable[[Locator], None], typed: str = "") -> None:
        """Opens a menu, types a text there, and calls `act` with an option; again, if it does not get it in time."""
        choice = self.page.get_by_role("option", name=option, exact=True)
        for _ in range(15):
            self.settled()
            menu.click()
            if typed:
                menu.fill(typed)
            try:
                return act(choice)
            except TimeoutError:  # a run of the page that was still under way has closed the menu
                continue
        raise AssertionError(f"A menu does not offer {option}.")

    def chosen(self, label: str) -> Locator:
        return self.page.locator(f".st-key-{label.lower().replace(' ', '-')}")

    def upload(self, *files: Path | dict) -> None:
        self.page.locator("input[type=file]").set_input_files(files[0])

    def place(self, chart: Locator, row: float, column: float, rows: float, columns: float) -> tuple[float, float]:
        """The point on the screen of a cell of `rows` × `columns` that fill the plot."""
        box = place_of(chart.locator(".nsewdrag"))
        return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows

    def cell(self, row: int, column: int, chart: Locator | None = None) -> tuple[float, float]:
        chart = chart or self.heatmap
        rows, columns = (int(chart.get_attribute(f"data-{side}") or 0) for side in ("rows", "columns"))
        return self.place(chart, row, column, rows, columns)

    def drag(self, start: tuple[int, int], end: tuple[int, int], chart: Locator | None = None) -> None:
        self.page.mouse.move(*self.cell(*start, chart))
        self.page.mouse.down()
        self.page.mouse.move(*self.cell(*end, chart), steps=6)
        self.page.mouse.up()

    def swipe(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Moves a finger over the page, from and to places in pixels."""
        fingers = self.page.context.new_cdp_session(self.page)
        kinds = ["touchStart", *["touchMove"] * 6]
        for step, kind in enumerate(kinds):
            x, y = (a + (b - a) * step / 6 for a, b in zip(start, end, strict=True))
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    def weights(self, chart: Locator | None = None) -> list[list[float | None]]:
        """The numbers in the browser's heatmap; None where not allowed."""
        script = "e => e.data[0].z.map(row => Array.from(row, w => Number.isNaN(w) ? null : w))"
        return (chart or self.heatmap).locator(".attnviz-graph").evaluate(script)

    def expect_weights(self, expected: object, key: str = "") -> None:
        """Waits until the heatmap of a chart has these weights, NaN where masked, to within what the number of threads
        changes in a sum of float32."""
        script = """([key, expected]) => {
            const rows = document.querySelector(`.st-key-${key} .attnviz-graph`)?.data?.[0].z;
            return rows?.length === expected.length && expected.every((row, i) => row.length === rows[i].length
                && row.every((weight, j) => Object.is(weight, rows[i][j]) || Math.abs(weight - rows[i][j]) < 2e-6));
        }"""
        self.until(script, arg=[key or self.charts[0], np.asarray(expected, dtype=float).tolist()])
        self.painted()

    def zoom(self, chart: Locator | None = None) -> list[float]:
        script = "e => [...e._fullLayout.xaxis.range, ...e._fullLayout.yaxis.range]"
        return (chart or self.heatmap).locator(".attnviz-graph").evaluate(script)

    def expect_in_link(self, name: str, value: str | None) -> None:
        """Waits until the link says `name=value`, or says nothing of `name`."""
        pattern = rf"[?&]{name}={re.escape(value)}(&|$)" if value is not None else rf"^(?!.*[?&]{name}=)"
        self.page.wait_for_url(re.compile(pattern), wait_until="commit")


class Explore(AppPage):
    """The Explore page."""

    path, charts = "explore", ("heatmap", "heads")

    def __init__(self, page: Page, address: str) -> None:
        super().__init__(page, address)
        self.mosaic = self.chart("heads")


class Masks(AppPage):
    """The Masks page."""

    path, charts = "masks", ("map-a", "map-b", "change")

    def __init__(self, page: Page, address: str) -> None:
        super().__init__(page, address)
        self.a, self.b, self.change = map(self.chart, self.charts)

    def words(self, side: str) -> Locator:
        return self.page.get_by_label(f"Mask {side} in words", exact=True)

    def write(self, side: str, text: str) -> None:
        self.words(side).fill(text)
        self.words(side).press("Enter")

    def open_tab(self, query: str) -> None:
        """Opens a tab without the three maps."""
        self.go(f"{self.path}?{query}")
        expect(self.words("B")).to_be_visible()
        self.settled()
