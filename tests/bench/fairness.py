"""make load: what one visitor can ask for, and how long another's light clicks take meanwhile.

Two visitors of a page give every control its largest value, or the longest text that it takes, and go on to the next
as soon as the page has answered; a third clicks cells of a small picture on Explore. In the row of SmolLM2, it reads
long texts for two visitors of Explore, and for the third a sentence on Explore: a new one every fifth time.
"""

import asyncio
import random
import tempfile
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from attnviz.base.app_pages import STATE_PAGES
from attnviz.models import SMOLLM2
from tests.bench.load import LEFT_ALONE, note_errors, three
from tests.bench.measures import WORDS, is_short, row, section, sizes, table
from tests.support.browser import serving_process
from tests.support.visitor import Visitor, visit

SMOLLM2_ROW = "SmolLM2"
PAGES = sizes((*STATE_PAGES, SMOLLM2_ROW), ("explore", SMOLLM2_ROW))
SECONDS = 2.0 if is_short() else 20.0  # for each page
THINKING = 0.2  # seconds between two light clicks
MANY_WORDS, MOST_WORDS = (20, 60) if is_short() else (400, 1_500)  # of a text; the most in the row of SmolLM2
LONGEST = 30.0  # seconds that a heavy visitor waits for an answer before it asks for something else


async def measure(address: str, page: str, seconds: float = SECONDS) -> tuple[list[float], int, list[str]]:
    """Returns the seconds of the light clicks, how much was asked for meanwhile, and the errors."""
    end, asked, errors = time.perf_counter() + seconds, 0, list[str]()
    is_row = page == SMOLLM2_ROW
    query = urlencode({"model": SMOLLM2}) if is_row else ""
    words = MOST_WORDS if is_row else MANY_WORDS

    async def ask(number: int) -> None:
        nonlocal asked
        chance = random.Random(number)
        while time.perf_counter() < end:
            try:
                async with visit(address, "explore" if is_row else page, query) as one:
                    await asyncio.wait_for(one.run(), LONGEST)
                    while time.perf_counter() < end:
                        demand(one, chance, words)
                        asked += 1
                        try:
                            await asyncio.wait_for(one.run(), min(LONGEST, max(0.1, end - time.perf_counter())))
                        except TimeoutError:
                            continue  # the next run replaces this one
            except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
                errors.append(traceback.format_exception_only(error)[-1].strip()[:200])

    async with visit(address, "explore", query) as light:
        await light.run()
        heavy = [asyncio.create_task(ask(number)) for number in range(2)]
        taken, row = [], 0
        while time.perf_counter() < end or not taken:
            await asyncio.sleep(THINKING)
            row = (row + 1) % light.sizes["heatmap"][0]
            if is_row and len(taken) % 5 == 4:
                light.set("text_input", "Text", " ".join(random.choices(WORDS, k=10)))
            else:
                light.click("heatmap", row, 0)
            taken.append(await light.run())
        await asyncio.gather(*heavy)
    return taken, asked, errors


def demand(one: Visitor, chance: random.Random, words: int) -> None:
    """Gives one control of the page the value that takes most work, for its next run; a text gets new `words`."""
    names = [name for name in one.widgets if name[1] not in LEFT_ALONE and one.is_enabled(name)]
    if words == MOST_WORDS:
        names = [name for name in names if name[1] == "Text"]
    kind, label = chance.choice(names)
    widget = one.widgets[kind, label]
    match kind:
        case "selectbox" if widget.options:
            one.set(kind, label, chance.choice([name for name in widget.options if not name.startswith("—")]))
        case "multiselect":
            one.set(kind, label, [*widget.options][: widget.max_selections or None])
        case "button_group" if widget.options:
            one.set(kind, label, [chance.choice(widget.options).content])
        case "checkbox":
            one.set(kind, label, True)
        case "number_input":
            one.set(kind, label, widget.max if widget.has_max else 1000.0)
        case "slider" if widget.options:
            one.set(kind, label, [widget.options[-1]] * len(widget.default))
        case "slider":
            one.set(kind, label, [widget.max] * len(widget.default))
        case "text_input" | "text_area":
            one.set(kind, label, " ".join(chance.choices(WORDS, k=words))[: widget.max_chars or None])
        case "button":
            one.set(kind, label, True)


def fairness(pages: Sequence[str] = PAGES, seconds: float = SECONDS) -> None:
    """Prints the times of light clicks while two visitors ask for the most that each page offers."""
    columns = ("page", "asked", "errors", "clicks", "p50 ms", "p95 ms", "max ms")
    table("Light clicks on Explore, while two visitors of a page ask for the most that it offers", columns)
    found = Counter[str]()
    with tempfile.TemporaryDirectory() as folder, serving_process(Path(folder) / "log") as (address, _):
        asyncio.run(measure(address, "explore", min(3.0, seconds)))  # loads what is loaded once
        for page in pages:
            taken, asked, errors = asyncio.run(measure(address, page, seconds))
            row(page, asked, len(errors), len(taken), *three(taken))
            found.update(errors)
    note_errors(found)


if __name__ == "__main__":
    parser = ArgumentParser("python -m tests.bench.fairness", description=__doc__)
    parser.add_argument("pages", nargs="*", default=PAGES)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each page")
    chosen = parser.parse_args()
    with section("make load: fairness", "Light clicks beside heavy ones"):
        fairness(chosen.pages, chosen.seconds)
