"""make load: a class of a hundred followers. How long until a change of the teacher's page is on all of them, while
nothing else runs and while thirty visitors use Explore; and a hundred votes within a second.
"""

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.bench.load import Figures, note_errors, three, visitor
from tests.bench.measures import is_short, row, section, sizes, table
from tests.support.browser import serving_process
from tests.support.visitor import visit

FOLLOWERS, VISITORS = 2 if is_short() else 100, sizes((0, 30), (1,))
CHANGES, PAUSE = 1 if is_short() else 10, 1.5  # changes of the teacher's page, and seconds between them
QUESTION = {"ask": "Where does “it” look?", "columns": ["animal", "street", "it"], "picks": 1, "truth": [1, 0, 0]}
KEPT = 4.0  # seconds for which a connection is used again; the server closes it after five
PATIENCE = 60.0  # seconds until all followers have what is new
LONGEST = 600.0  # seconds that the visitors stay
VOTING = 1.0  # seconds within which all vote


class Browser:
    """The requests of a browser to one server, on one connection that is kept; httpx takes longer for a request than
    the server for the answer."""

    def __init__(self, address: str) -> None:
        self.host, self.cookies = urlsplit(address).netloc, dict[str, str]()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._last = 0.0  # when something was sent

    @property
    def cookie(self) -> str:
        """The cookies as they are sent."""
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def get(self, path: str) -> tuple[int, bytes]:
        """Returns the status and the content of an address."""
        reader, length = await self.open("GET", path)
        return self.status, await self._content(reader, length)

    async def post(self, path: str, content: object) -> tuple[int, bytes]:
        """Sends JSON, or a form that is text; returns the status and the answer."""
        is_form = isinstance(content, str)
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        kind = "application/x-www-form-urlencoded" if is_form else "application/json"
        reader, length = await self.open("POST", path, body, f"content-type: {kind}\r\n")
        return self.status, await self._content(reader, length)

    async def open(
        self, method: str, path: str, body: bytes = b"", headers: str = ""
    ) -> tuple[asyncio.StreamReader, int | None]:
        """Sends a request; returns where its answer can be read, and its length if that is known."""
        if self._streams is None or time.perf_counter() > self._last + KEPT:
            self.close()
            host, port = self.host.rsplit(":", 1)
            self._streams = await asyncio.open_connection(host, int(port), limit=1 << 24)
        self._last = time.perf_counter()
        reader, writer = self._streams
        cookie = f"cookie: {self.cookie}\r\n" if self.cookies else ""
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\ncontent-length: {len(body)}\r\n{cookie}{headers}\r\n"
        writer.write(head.encode() + body)
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        self.status, length = int(first.split()[1]), None
        for name, value in (line.split(": ", 1) for line in lines if line):
            if name.lower() == "content-length":
                length = int(value)
            if name.lower() == "set-cookie":
                key, _, rest = value.partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return reader, length

    def close(self) -> None:
        """Closes the connection."""
        if self._streams:
            self._streams[1].close()

    @staticmethod
    async def _content(reader: asyncio.StreamReader, length: int | None) -> bytes:
        if length is not None:
            return await reader.readexactly(length)
        content = b""
        while size := int(await reader.readline(), 16):
            content += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return content


@dataclass
class Follower:
    """The page of a follower, without a browser: it listens for news, and reads what there is."""

    browser: Browser
    news: Browser
    path: str  # of the class
    state: dict[str, Any] = field(default_factory=dict)
    at: float = 0  # when it read that

    async def follow(self) -> None:
        """Reads the state and its picture after each news, until the class has ended."""
        self.news.cookies = self.browser.cookies
        reader, _ = await self.news.open("GET", f"{self.path}/events")
        while line := await reader.readline():
            if line.strip() == b"data: ended":
                return
            if not line.startswith(b"data: "):
                continue
            status, content = await self.browser.get(f"{self.path}/state")
            if status == 404:  # the class has ended meanwhile
                return
            assert status == 200, content
            state = json.loads(content)
            if state["picture"] and state["picture"] != self.state.get("picture"):
                await self.browser.get(state["picture"])  # a newer one may be there
            self.state, self.at = state, time.perf_counter()

    async def vote(self, poll: str, value: list[int], voter: Browser) -> float:
        """Votes; returns the seconds until that was acknowledged."""
        voter.cookies = self.browser.cookies
        began = time.perf_counter()
        content = {"poll": poll, "round": self.state["poll"]["round"], "value": value}
        status, answer = await voter.post(f"{self.path}/answer", content)
        assert status == 200, answer
        return time.perf_counter() - began


@asynccontextmanager
async def class_of(address: str, count: int) -> AsyncIterator[tuple[Browser, str, list[Follower]]]:
    """A class: the teacher's browser, the path of the class, and its followers."""
    with ExitStack() as stack:

        def browser() -> Browser:
            return stack.enter_context(closing(Browser(address)))

        teacher = browser()
        started, answer = await teacher.post("/class/start", "back=explore")
        assert started == 303, answer
        path = f"/class/{teacher.cookies['attnviz_teacher'].partition('.')[0]}"
        followers = [Follower(browser(), browser(), path) for _ in range(count)]
        for follower in followers:
            joined, answer = await follower.browser.get(path)
            assert joined == 200, answer
        tasks = [asyncio.create_task(follower.follow()) for follower in followers]
        yield teacher, path, followers
        ended, answer = await teacher.post(f"{path}/end", {})
        assert ended == 200, answer
        await asyncio.gather(*tasks)


async def changes(address: str, teacher: Browser, followers: Sequence[Follower]) -> tuple[list[float], ...]:
    """The teacher pins one query after the other. Returns the seconds from the click, and those from the end of the
    run of the teacher's page, until the change was on each follower, and the seconds of that run."""
    from_click, from_run, runs = list[float](), list[float](), list[float]()
    async with visit(address, "explore", cookie=teacher.cookie) as page:
        await page.run()
        for number in range(CHANGES):
            await asyncio.sleep(PAUSE)
            before = {id(one): one.state.get("picture") for one in followers}
            began = time.perf_counter()
            page.click("heatmap", number + 1, 0)
            await page.run()
            ended = time.perf_counter()
            runs.append(ended - began)
            while any(one.state.get("picture") == before[id(one)] for one in followers):
                assert time.perf_counter() < ended + PATIENCE, (
                    number,
                    Counter(str(one.state.get("link")) for one in followers),
                    page.alerts,
                )
                await asyncio.sleep(0.02)
            from_click += [one.at - began for one in followers]
            from_run += [one.at - ended for one in followers]
    return from_click, from_run, runs


async def votes(address: str, teacher: Browser, path: str, followers: Sequence[Follower]) -> tuple[list[float], int]:
    """All vote within a second. Returns the seconds of each vote, and how many were counted."""
    asked, answer = await teacher.post(f"{path}/ask", {"question": QUESTION})
    assert asked == 200, answer
    poll, until = json.loads(answer)["poll"], time.perf_counter() + PATIENCE
    while missing := sum(not follower.state.get("poll") for follower in followers):  # beside visitors, some seconds
        assert time.perf_counter() < until, f"{missing} followers have not seen the question in {PATIENCE:.0f} s."
        await asyncio.sleep(0.02)

    async def vote(number: int, follower: Follower) -> float:
        await asyncio.sleep(VOTING * number / len(followers))
        with closing(Browser(address)) as voter:
            return await follower.vote(poll, [number % len(QUESTION["columns"])], voter)

    taken = await asyncio.gather(*(vote(*one) for one in enumerate(followers)))
    return taken, json.loads((await teacher.get(f"{path}/panel"))[1])["answers"]


def load_class(count: int = FOLLOWERS, others: Sequence[int] = VISITORS) -> None:
    """Prints the seconds until a change is on all followers and the seconds of votes, beside these visitors."""
    columns = ("visitors", "run ms", "p50 ms", "p95 ms", "max ms", "from click", "votes", "p50 ms", "p95 ms", "max ms")
    table(
        f"A class of {count}: from the end of the teacher's run to each follower, from her click (p95); votes", columns
    )
    errors = Counter[str]()
    for visitors in others:
        with tempfile.TemporaryDirectory() as folder:  # a store of its own
            os.environ["ATTNVIZ_CLASS_STORE"] = f"sqlite://{folder}/classes.sqlite3"
            with serving_process(Path(folder) / "log") as (address, _):
                found = asyncio.run(measure(address, count, visitors))
        row(
            *(visitors, 1000 * statistics.median(found.runs), *three(found.news), three(found.clicks)[1]),
            *(found.counted, *three(found.votes)),
        )
        errors.update(found.errors)
        assert found.counted == count, f"{found.counted} of {count} votes were counted."
    note_errors(errors)


class Measured(NamedTuple):
    """Seconds from the end of the teacher's runs and from her clicks to each follower, those of her runs and of the
    votes, the number of votes that were counted, and the errors of the visitors."""

    news: list[float]
    clicks: list[float]
    runs: list[float]
    votes: list[float]
    counted: int
    errors: list[str]


async def measure(address: str, count: int, visitors: int) -> Measured:
    """Measures a class of `count` followers beside visitors, who are there until its end."""
    figures = Figures()
    await visitor(address, random.Random(0), 0, Figures())
    around = [asyncio.create_task(visitor(address, random.Random(one), LONGEST, figures)) for one in range(visitors)]
    async with class_of(address, count) as (teacher, path, followers):
        clicks, news, runs = await changes(address, teacher, followers)
        voted, counted = await votes(address, teacher, path, followers)
    assert not any(one.done() for one in around), f"Visitors have left before the class, after {LONGEST:.0f} s."
    for one in around:
        one.cancel()
    await asyncio.gather(*around, return_exceptions=True)
    return Measured(news, clicks, runs, voted, counted, figures.errors)


if __name__ == "__main__":
    parser = ArgumentParser("python -m tests.bench.load_class", description=__doc__)
    parser.add_argument("followers", type=int, nargs="?", default=FOLLOWERS)
    chosen = parser.parse_args()
    with section("make load: class", "A class"):
        load_class(chosen.followers)
