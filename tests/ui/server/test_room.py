"""A room: visitors with texts of their own on every page and every tab, more than its caches hold."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from attnviz.base.app_pages import PAGES as APP_PAGES
from attnviz.base.language import option_name
from attnviz.translator import generate_sentences
from tests.support.browser import PATIENCE, running
from tests.support.page_links import Link, link_of, tab_links
from tests.support.ports import free_port
from tests.support.visitor import Visitor, visit
from tests.support.waiting import run_in_thread

VISITORS = 2
EVERY = 0.1  # seconds between two looks at a job, which computes meanwhile
MODEL, WORDS = "llama", 4  # of a text, at most: a word has several tokens here
MOST_TOKENS = 1024  # that the model reads, enough for the text with a needle


@dataclass
class Room:
    """A server of the app whose caches hold one result, and its log."""

    address: str
    log: Path

    def failures(self) -> list[dict[str, Any]]:
        """What has failed so far: runs of pages, jobs, threads."""
        events = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [event for event in events if event["level"] == "error"]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    log, port = tmp_path_factory.mktemp("room") / "log", free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.support.room", str(port)]
    with running(command, log, f"{address}/_stcore/health", ATTNVIZ_LOG="json"):
        yield Room(address, log)


def texts() -> list[str]:
    """Returns a short text for each visitor, of words that the translator knows."""
    made = (" ".join(one.english) for seed in count() for one in islice(generate_sentences("test", seed), 1))
    short = (text for text in made if len(text.split()) <= WORDS)
    return [*islice(dict.fromkeys(islice(short, 2 * VISITORS)), VISITORS)]


async def follow(one: Visitor) -> None:
    """Runs the page, and looks at its jobs until they are over."""
    await one.run()
    while one.fragment:
        await asyncio.sleep(EVERY)
        await one.run(fragment=one.fragment)


async def come(address: str, page: str, links: Sequence[Link]) -> list[list[str]]:
    """Visits a page with each link at the same time, and runs it again when all have seen it; returns its errors."""

    async def sit(link: Link, all_have: asyncio.Barrier) -> list[str]:
        async with visit(address, page, urlencode(link)) as one:
            await follow(one)
            await all_have.wait()
            await follow(one)
            return one.errors

    all_have = asyncio.Barrier(len(links))
    return list(await asyncio.gather(*(sit(link, all_have) for link in links)))


@pytest.mark.parametrize("page", APP_PAGES)
def test_a_room_of_visitors_sees_no_error(room: Room, copied: Callable[..., Path], page: str) -> None:
    before, folder = room.failures(), copied(MODEL, max_position_embeddings=MOST_TOKENS)
    links = [link_of(page, text, number, folder) for number, text in enumerate(texts(), 1)]
    errors = {}
    for tab in tab_links(page, links[0]):
        name = " ".join(option_name(value) for _, value in tab)
        try:
            errors[name] = run_in_thread(
                asyncio.wait_for(come(room.address, page, [[*link, *tab] for link in links]), PATIENCE)
            )
        except (RuntimeError, TimeoutError) as problem:
            errors[name] = [[repr(problem)]]
    assert errors == dict.fromkeys(errors, [[]] * VISITORS)
    assert room.failures() == before
