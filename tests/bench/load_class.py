"""make load: a class of a hundred followers. How long until a change of the teacher's page is on all of them, while
nothing else runs and while thirty visitors use Explore; and a hundred votes within a second.
"""

import asyncio
import os
import random
import statistics
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.bench.load import Figures, visitor
from tests.support.browser import serving_process
from tests.support.visitor import visit

FOLLOWERS, VISITORS = 100, 30
CHANGES, PAUSE = 10, 1.5  # changes of the teacher's page, and seconds between them
QUESTION = {"ask": "Where does “it” look?", "columns": ["animal", "street", "it"], "picks": 1, "truth": [1, 0, 0]}
VOTING = 1.0  # seconds within which all vote


@dataclass
class Follower:
    """The page of a follower, without a browser: it listens for news, and reads what there is."""

    client: httpx2.AsyncClient
    path: str  # of the class
    state: dict[str, Any] = field(default_factory=dict)
    at: float = 0  # when it read that

    async def follow(self) -> None:
        """Reads the state and its picture after each news, until the class has ended."""
        async with self.client.stream("GET", f"{self.path}/events") as events:
            async for line in events.aiter_lines():
                if line.startswith("data: ") and line != "data: ended":
                    answer = await self.client.get(f"{self.path}/state")
                    if answer.status_code == 404:  # the class has ended meanwhile
                        return
                    state = answer.raise_for_status().json()
                    if state["picture"] and state["picture"] != self.state.get("picture"):
                        await self.client.get(state["picture"])  # a newer one may be there
                    self.state, self.at = state, time.perf_counter()

    async def vote(self, poll: str, value: list[int]) -> float:
        """Votes; returns the seconds until that was acknowledged."""
        began = time.perf_counter()
        answer = await self.client.post(
            f"{self.path}/answer", json={"poll": poll, "round": self.state["poll"]["round"], "value": value}
        )
        assert answer.status_code == 200, answer.text
        return time.perf_counter() - began


@asynccontextmanager
async def class_of(address: str, count: int) -> AsyncIterator[tuple[httpx2.AsyncClient, str, list[Follower]]]:
    """A class: the teacher's browser, the path of the class, and its followers."""
    root = "{0.scheme}://{0.netloc}".format(urlsplit(address))
    async with AsyncExitStack() as stack:
        limits = httpx2.Limits(max_connections=None)

        async def client() -> httpx2.AsyncClient:
            return await stack.enter_async_context(httpx2.AsyncClient(base_url=root, timeout=60, limits=limits))

        teacher = await client()
        started = await teacher.post("/class/start", data={"back": "explore"})
        assert started.status_code == 303, started.text
        path = f"/class/{teacher.cookies['attnviz_teacher'].partition('.')[0]}"
        followers = [Follower(await client(), path) for _ in range(count)]
        for follower in followers:
            joined = await follower.client.get(path)
            assert joined.status_code == 200, joined.text
        tasks = [asyncio.create_task(follower.follow()) for follower in followers]
        yield teacher, path, followers
        (await teacher.post(f"{path}/end", json={})).raise_for_status()
        await asyncio.gather(*tasks)


async def changes(address: str, teacher: httpx2.AsyncClient, followers: Sequence[Follower]) -> tuple[list[float], ...]:
    """The teacher pins one query after the other. Returns the seconds from the click, and those from the end of the
    run of the teacher's page, until the change was on each follower, and the seconds of that run."""
    from_click, from_run, runs = list[float](), list[float](), list[float]()
    cookie = "; ".join(f"{name}={value}" for name, value in teacher.cookies.items())
    async with visit(address, "explore", cookie=cookie) as page:
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
                assert time.perf_counter() < ended + 30, (
                    number,
                    Counter(str(one.state.get("link")) for one in followers),
                    page.alerts,
                )
                await asyncio.sleep(0.02)
            from_click += [one.at - began for one in followers]
            from_run += [one.at - ended for one in followers]
    return from_click, from_run, runs


async def votes(teacher: httpx2.AsyncClient, path: str, followers: Sequence[Follower]) -> tuple[list[float], int]:
    """All vote within a second. Returns the seconds of each vote, and how many were counted."""
    poll = (await teacher.post(f"{path}/ask", json={"question": QUESTION})).raise_for_status().json()["poll"]
    await asyncio.sleep(1)

    async def vote(number: int, follower: Follower) -> float:
        await asyncio.sleep(VOTING * number / len(followers))
        return await follower.vote(poll, [number % len(QUESTION["columns"])])

    taken = await asyncio.gather(*(vote(*one) for one in enumerate(followers)))
    return taken, (await teacher.get(f"{path}/panel")).json()["answers"]


def load_class(count: int = FOLLOWERS, others: Sequence[int] = (0, VISITORS)) -> None:
    """Prints the seconds until a change is on all followers and the seconds of votes, beside these visitors."""
    from tests.bench.__main__ import table

    print(f"Load of the machine: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores.")
    columns = ("visitors", "run ms", "p50 ms", "p95 ms", "max ms", "from click", "votes", "p50 ms", "p95 ms", "max ms")
    table(
        f"A class of {count}: from the end of the teacher's run to each follower, from her click (p95); votes", columns
    )
    for visitors in others:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ATTNVIZ_CLASS_STORE"] = f"sqlite://{folder}/classes.sqlite3"
            with serving_process(Path(folder) / "log") as (address, _):
                news, clicks, runs, voted, counted = asyncio.run(measure(address, count, visitors))
        row = (visitors, 1000 * statistics.median(runs), *_three(news), _three(clicks)[1], counted, *_three(voted))
        print("".join(f"{one:>10.0f}" for one in row))
        assert counted == count, f"{counted} of {count} votes were counted."


async def measure(
    address: str, count: int, visitors: int
) -> tuple[list[float], list[float], list[float], list[float], int]:
    """Returns the seconds from the end of the teacher's runs and from her clicks to each follower, those of her runs
    and of the votes, and the number of votes that were counted."""
    figures = Figures()
    await visitor(address, random.Random(0), 0, Figures())
    around = asyncio.gather(*(visitor(address, random.Random(number), 60, figures) for number in range(visitors)))
    async with class_of(address, count) as (teacher, path, followers):
        clicks, news, runs = await changes(address, teacher, followers)
        voted, counted = await votes(teacher, path, followers)
    around.cancel()
    await asyncio.gather(around, return_exceptions=True)
    return news, clicks, runs, voted, counted


def _three(seconds: Sequence[float]) -> tuple[float, float, float]:
    """The median, the 95th percentile and the largest, in milliseconds."""
    ordered = sorted(seconds)
    return (1000 * statistics.median(ordered), 1000 * ordered[len(ordered) * 95 // 100], 1000 * ordered[-1])


if __name__ == "__main__":
    parser = ArgumentParser("python -m tests.bench.load_class", description=__doc__)
    parser.add_argument("followers", type=int, nargs="?", default=FOLLOWERS)
    chosen = parser.parse_args()
    load_class(chosen.followers)
