"""A class as its people meet it: a server that can be killed, the teacher's screen and the phones."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import BrowserContext, Locator, Page, Playwright, expect

from tests.support.browser import ARGUMENTS, PATIENCE, ROOT, SHELL, AppPage, answers
from tests.support.ports import free_port

PHONE = {"width": 390, "height": 844}


class ClassServer:
    """A process of the app with a store of classes; it may be killed and started again at the same address."""

    def __init__(self, folder: Path, base_path: str = "", **environment: str) -> None:
        self.port, self.base_path = free_port(), base_path
        self.log = folder / f"log {self.port}"
        self.address = f"http://127.0.0.1:{self.port}{base_path}"
        store = {"ATTNVIZ_CLASS_STORE": str(folder / "classes.sqlite3")}
        self.environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | store | environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true"]
        command += [f"--server.port={self.port}", "--server.address=127.0.0.1", "--server.fileWatcherType=none"]
        command += [f"--server.baseUrlPath={self.base_path}"]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, env=self.environment)
        deadline = time.monotonic() + PATIENCE
        while not answers(f"{self.address}/_stcore/health"):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process
        self.process.send_signal(how)
        self.process.wait(20)


class Teacher(AppPage):
    """The teacher's screen: a page of the app with the panel of a class at its foot."""

    charts = ()

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.panel = page.locator(".attnviz-classroom")
        self.poll = self.panel.locator(".class-poll")
        self.count = self.poll.locator(".class-count")
        self.here = self.panel.locator(".class-here")

    def start_class(self) -> str:
        """Starts a class on the page that is open; returns its code."""
        self.page.locator(".attnviz-start-class button").click()
        screen = self.page.locator(".class-screen[open]")
        code = screen.locator("p.class-code").text_content()
        screen.get_by_role("button", name="Begin").click()
        assert code
        return code

    def ask(self, question: str) -> None:
        """Asks what the menu offers under this beginning."""
        self.choose_from("Ask", re.compile(f"^{re.escape(question)}"))
        expect(self.poll).to_be_visible()

    def choose_from(self, menu: str, item: re.Pattern[str]) -> None:
        self.press(menu)
        self.panel.locator(".class-list").get_by_text(item).first.click()

    def press(self, name: str) -> None:
        self.panel.get_by_role("button", name=re.compile(f"^{name}")).click()

    def expect_answers(self, answered: int, participants: int) -> None:
        expect(self.count).to_contain_text(f"{answered} of {participants} have answered")


class Phone:
    """The page of a follower."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.status = page.locator(".class-live")
        self.ballot = page.locator(".class-ballot")
        self.said = self.ballot.locator(".class-status")
        self.results = page.locator(".class-results")
        self.contents = page.locator(".class-contents")

    def join(self, code: str) -> Self:
        self.page.goto(f"{self.address}/class/{code.lower()}")
        expect(self.status).to_have_attribute("data-status", "live")
        return self

    def option(self, text: str) -> Locator:
        return self.ballot.get_by_role("button", name=text, exact=True)

    def vote(self, text: str) -> None:
        """Chooses one option, and waits until the server has acknowledged it."""
        self.option(text).tap()
        expect(self.said).to_have_text(re.compile("^Sent"))


class Participant:
    """A phone without a browser, which has joined a class."""

    def __init__(self, address: str, code: str) -> None:
        self.address = f"{address}/class/{code}"
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.opener.open(self.address, timeout=60).close()
        self.state()

    def state(self) -> dict[str, Any]:
        with self.opener.open(f"{self.address}/state", timeout=60) as response:
            return dict(json.load(response))

    def vote(self, *options: int) -> None:
        """Chooses options in the vote that is open, and waits until the server has acknowledged it."""
        poll = self.state()["poll"]
        body = {"poll": poll["id"], "round": poll["round"], "value": list(options)}
        self.opener.open(
            urllib.request.Request(f"{self.address}/answer", json.dumps(body).encode()), timeout=60
        ).close()


class HeadlessTeacher:
    """Who has started a class, without a browser."""

    def __init__(self, address: str) -> None:
        cookies = CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
        self.opener.open(f"{address}/class/start", b"", timeout=60).close()
        cookie = next(str(cookie.value) for cookie in cookies if cookie.name == "attnviz_teacher")
        self.code = cookie.partition(".")[0]
        self.address = f"{address}/class/{self.code}"

    def panel(self) -> dict[str, Any]:
        with self.opener.open(f"{self.address}/panel", timeout=60) as response:
            return dict(json.load(response))

    def do(self, action: str, **content: object) -> None:
        """Does what a button of the panel does, such as close."""
        request = urllib.request.Request(f"{self.address}/{action}", json.dumps(content).encode())
        self.opener.open(request, timeout=60).close()

    def ask(self, ask: str, *options: str) -> None:
        self.do("ask", question={"ask": ask, "rows": [""], "columns": options, "picks": 1, "truth": []})


@contextmanager
def contexts(
    playwright: Playwright, phones: int, theme: str = "light"
) -> Iterator[tuple[BrowserContext, list[BrowserContext]]]:
    """The browsers of a teacher and of several phones, which share nothing."""
    browser = playwright.chromium.launch(executable_path=SHELL, args=ARGUMENTS)
    teacher = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=theme)  # type: ignore[arg-type]
    others = [
        browser.new_context(viewport=PHONE, color_scheme=theme, has_touch=True, is_mobile=True, device_scale_factor=2)  # type: ignore[arg-type]
        for _ in range(phones)
    ]
    for context in (teacher, *others):
        context.set_default_timeout(1000 * PATIENCE)
    try:
        yield teacher, others
    finally:
        browser.close()
