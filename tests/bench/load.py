"""make load: many visitors of Explore at once, and of a bare page with the same forward and one chart.

A visitor is a websocket client without a browser. It opens the page, thinks for 0 to 5 seconds, changes the text, the
head or the mask, waits for the end of the run, and begins anew. `python -m tests.bench.load VISITORS …` takes other
numbers of visitors, at most 100; only servers of its own, on this machine, are visited.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from tests.support.browser import serving

BARE_PAGE = Path(__file__).with_name("bare_page.py")
VISITORS, MOST_VISITORS = (1, 10, 30, 100), 100
SECONDS, THINKING = 30.0, 5.0
WORDS = ("the", "animal", "did", "not", "cross", "because", "it", "was", "too", "tired", "and", "saw", "nobody")
VALUES = {"text_input": "string_value", "selectbox": "string_value"}


@dataclass
class Visitor:
    """A browser's side of Streamlit's protocol, as far as a visitor needs it."""

    connection: ClientConnection
    page_name: str = ""  # in the address; empty for the first page
    page: str = ""  # the hash of the page
    widgets: dict[tuple[str, str], Any] = field(default_factory=dict)  # by type and label
    values: dict[str, tuple[str, str]] = field(default_factory=dict)  # by id: the field of its message, and its value

    def set(self, kind: str, label: str, value: str) -> None:
        """Gives a widget a value, for the next run."""
        self.values[self.widgets[kind, label].id] = VALUES[kind], value

    async def run(self) -> float:
        """Runs the page; returns the seconds until it has ended. Raises RuntimeError if it shows an exception."""
        request = BackMsg()
        request.rerun_script.page_name, request.rerun_script.page_script_hash = self.page_name, self.page
        for name, (kind, value) in self.values.items():
            setattr(request.rerun_script.widget_states.widgets.add(id=name), kind, value)
        began = time.perf_counter()
        await self.connection.send(request.SerializeToString())
        while True:
            message = ForwardMsg.FromString(await self.connection.recv(decode=False))
            match message.WhichOneof("type"):
                case "new_session":
                    self.page = message.new_session.page_script_hash
                case "delta":
                    self._keep_widget(message.delta.new_element)
                case "script_finished":
                    return time.perf_counter() - began

    def _keep_widget(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            raise RuntimeError(element.exception.message)
        if kind in VALUES:
            widget = getattr(element, kind)
            self.widgets[kind, widget.label] = widget

    def act(self, chance: random.Random) -> None:
        """Changes the text, or, where there are such menus, the head or the mask."""
        action = chance.random()
        if action < 0.4 or ("selectbox", "Mask") not in self.widgets:
            self.set("text_input", "Text", " ".join(chance.choices(WORDS, k=chance.randint(6, 24))))
        else:
            label = "Head" if action < 0.75 else "Mask"
            options = self.widgets["selectbox", label].options
            self.set("selectbox", label, chance.choice([one for one in options if not one.startswith("—")]))


def load(counts: tuple[int, ...] = VISITORS) -> None:
    """Prints the times of the runs of both pages, for several numbers of visitors."""
    from tests.bench.__main__ import table

    columns = ("visitors", "bare p50", "p95", "Explore p50", "p95 ms", "ratio of p50")
    table(f"Many visitors, who think for 0 to {THINKING:.0f} seconds", columns)
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            figures = []
            for page_name, script in (("", BARE_PAGE), ("explore", None)):
                with serving(Path(folder) / f"log {page_name}", script) as address:
                    asyncio.run(_visit(address, page_name, random.Random(count), 0))  # loads the model
                    times = asyncio.run(_visit_all(address, page_name, count))
                p50, p95 = statistics.median(times), statistics.quantiles(times, n=20, method="inclusive")[-1]
                figures += [1000 * p50, 1000 * p95]
            print("".join(f"{figure:>14.0f}" for figure in (count, *figures)) + f"{figures[2] / figures[0]:>14.2f}")


async def _visit_all(address: str, page_name: str, count: int) -> list[float]:
    """Returns the seconds of all runs but those that opened the page."""
    visits = (_visit(address, page_name, random.Random(number), SECONDS) for number in range(count))
    return [seconds for times in await asyncio.gather(*visits) for seconds in times]


async def _visit(address: str, page_name: str, chance: random.Random, seconds: float) -> list[float]:
    socket = f"{address.replace('http', 'ws')}/_stcore/stream"
    end = time.perf_counter() + seconds
    await asyncio.sleep(chance.uniform(0, min(seconds, THINKING)))
    times: list[float] = []
    async with connect(socket, subprotocols=["streamlit"], max_size=None, open_timeout=60) as connection:  # type: ignore[list-item]
        visitor = Visitor(connection, page_name)
        await visitor.run()
        for pause in _pauses(chance, end):
            await asyncio.sleep(pause)
            visitor.act(chance)
            times.append(await visitor.run())
    return times


def _pauses(chance: random.Random, end: float) -> Iterator[float]:
    while time.perf_counter() + (pause := chance.uniform(0, THINKING)) < end:
        yield pause


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[1:])) or VISITORS
    if max(chosen) > MOST_VISITORS:
        raise SystemExit(f"At most {MOST_VISITORS} visitors.")
    load(chosen)
