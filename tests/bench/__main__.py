"""make bench: how long things take, as ratios of two sides measured in turn in one run. Medians of several runs.

`BENCH_SHORT=1 make bench` measures the smallest size of everything once.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # as app.py does; both sides of a ratio have it

import torch
from playwright.sync_api import BrowserContext, Page, sync_playwright

from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.models.forward_pass import run
from attnviz.models.interventions import Intervention
from attnviz.sources import Model
from tests.bench.atlas import atlas
from tests.bench.attributions import attributions
from tests.bench.clusters import clusters
from tests.bench.effects import effects
from tests.bench.first_paint import first_paint
from tests.bench.long_maps import long_maps
from tests.bench.masks import masks
from tests.bench.measures import (
    DRAWN,
    DRAWN_BARE,
    in_turn,
    medians,
    new_context,
    painted,
    repainted,
    repeated,
    row,
    section,
    sizes,
    table,
    text_of,
    visit,
)
from tests.bench.models import models
from tests.bench.pictures import pictures
from tests.bench.traces import traces
from tests.bench.viewers import viewers
from tests.bench.writing import written
from tests.support.browser import ARGUMENTS, CHROMIUM, serving

BARE_PAGE = Path(__file__).with_name("bare_page.py")


def main() -> None:
    with section("make bench", "Speed"):
        measure()


def measure() -> None:
    """All tables."""
    imports()
    core()
    capture()
    ablation()
    masks()
    long_maps()
    clusters()
    traces()
    written()
    attributions()
    effects()
    atlas()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        logs = [Path(folder) / name for name in ("bare", "app")]
        with serving(logs[0], BARE_PAGE) as bare, serving(logs[1]) as ours:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            first_paint(browser, bare, ours)
            visited = new_context(browser)  # keeps what it has loaded
            enter_to_painted(visited, bare, ours)
            all_heads(visited, ours)
            parameter_to_painted(visited, ours)
            pictures(visited, ours)
            models(visited, ours)
            viewers(visited)
            browser.close()


def imports() -> None:
    """The library imported in a fresh process, and then all its names used, against torch."""
    table("Import", ("of attnviz", "torch ms", "attnviz ms", "ratio"))
    names = "; [getattr(attnviz, name) for name in attnviz.__all__]"
    programs = (("all names", "import attnviz" + names), ("itself", "import attnviz"))
    for title, program in sizes(programs, programs[1:]):
        sides = [partial(subprocess.run, [sys.executable, "-c", one], check=True) for one in ("import torch", program)]
        row(title, *in_turn(*sides, runs=5))


def core() -> None:
    """All stages kept, against the three lines of torch that give the output alone: 12 heads of width 64."""
    table("Core, 12 causal heads", ("tokens", "torch ms", "attnviz ms", "ratio"))
    for tokens in sizes((16, 64, 128, 256, 512, 1024)):
        names = tuple(map(str, range(tokens)))
        inputs = Inputs(*(torch.randn(12, tokens, 64) for _ in range(3)), names, names)
        mask = torch.full((tokens, tokens), -torch.inf).triu(1)
        mechanism = Mechanism(mask=Causal())

        def bare(inputs: Inputs = inputs, mask: torch.Tensor = mask) -> object:
            return torch.softmax(inputs.query @ inputs.key.mT * 0.125 + mask, dim=-1) @ inputs.value

        row(tokens, *in_turn(bare, lambda m=mechanism, i=inputs: m(i), runs=15))


def capture() -> None:
    """A text's queries, keys and values captured, against the model's plain forward."""
    from attnviz.models.minilm import minilm

    table("Reading a text, MiniLM", ("tokens", "forward ms", "captured ms", "ratio"))
    model = minilm()
    for tokens in sizes((16, 64, 128, 256, 512)):
        fresh = iter(range(10_000))

        def forward(tokens: int = tokens) -> object:
            with torch.inference_mode():
                return model.model(**model.tokenizer(text_of(tokens, 0), return_tensors="pt"))

        row(tokens, *in_turn(forward, lambda n=tokens, fresh=fresh: Model(text_of(n, next(fresh))).layers(), runs=7))


def ablation() -> None:
    """One head ablated, against a hook written by hand."""
    from attnviz.models.minilm import minilm

    table("One head ablated, MiniLM", ("tokens", "hook ms", "run ms", "ratio"))
    model = minilm()
    layer = model.model.encoder.layer[3].attention.output.dense

    def zero(module: torch.nn.Module, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        states = args[0].clone()
        states[..., 32:64] = 0
        return (states,)

    for tokens in sizes((16, 64, 128, 256, 512)):
        batch = model.encode(text_of(tokens, 0)).batch

        @torch.no_grad()
        def hooked(batch: dict[str, torch.Tensor] = batch) -> object:
            hook = layer.register_forward_pre_hook(zero)
            try:
                return model.model(**batch)
            finally:
                hook.remove()

        row(tokens, *in_turn(hooked, lambda b=batch: run(model.model, b, Intervention(ablated=((3, 1),))), runs=15))


def enter_to_painted(browser: BrowserContext, bare: str, ours: str) -> None:
    """A new text typed, until its heatmap is painted: a bare Streamlit page with st.plotly_chart, and Explore."""
    table("Enter → painted, MiniLM, one layer", ("tokens", "bare ms", "Explore ms", "ratio"))
    with visit(browser, bare) as bare_page, visit(browser, f"{ours}/explore") as explore:
        for tokens in sizes((16, 64, 128, 256, 512)):
            fresh = iter(range(10_000))

            def type_into(page: Page, drawn: str, tokens: int = tokens, fresh: Iterator[int] = fresh) -> float:
                # Another number of tokens before, so that the new one tells that the new picture is there.
                painted(page, text_of(tokens - 4, next(fresh)), tokens - 4, drawn)
                return painted(page, text_of(tokens, next(fresh)), tokens, drawn)

            row(tokens, *medians(repeated(lambda: (type_into(bare_page, DRAWN_BARE), type_into(explore, DRAWN)), 5)))


def all_heads(browser: BrowserContext, ours: str) -> None:
    """The mosaic of all 72 heads with the heatmap of one: what is sent to the browser, and when it is painted."""
    table("All 72 heads", ("tokens", "sent MB", "painted ms"))
    with visit(browser, f"{ours}/explore?mosaic=All+layers") as page:
        for tokens in sizes((16, 64, 128, 256, 512)):
            fresh = iter(range(10_000))

            def type_into(tokens: int = tokens, fresh: Iterator[int] = fresh) -> tuple[float, float]:
                painted(page, text_of(tokens - 4, next(fresh)), tokens - 4, DRAWN)
                before = page.sent[0]  # type: ignore[attr-defined]
                milliseconds = painted(page, text_of(tokens, next(fresh)), tokens, DRAWN)
                return (page.sent[0] - before) / 1e6, milliseconds  # type: ignore[attr-defined]

            row(tokens, *(statistics.median(side) for side in zip(*repeated(type_into, 3), strict=True)))


def parameter_to_painted(browser: BrowserContext, ours: str) -> None:
    """The size of a sliding window changed, until what it changes is painted: one map and the mosaic of Explore, and
    two maps of Masks, where it is a part of a text."""
    table("Mask parameter → painted, MiniLM", ("tokens", "Explore ms", "Masks ms", "ratio"))
    for tokens in sizes((16, 128, 512)):
        text = f"&text={text_of(tokens, 0).replace(' ', '+')}"
        with (
            visit(browser, f"{ours}/explore?mask=Sliding+window{text}") as explore,
            visit(browser, f"{ours}/masks?mask-a=full&mask-b=sliding_window(4){text}") as masks,
        ):
            windows = iter(range(5, 100))

            def resize(explore: Page = explore, masks: Page = masks, windows: Iterator[int] = windows) -> tuple:
                size = next(windows)
                return (
                    entered(explore, ".st-key-mask-size", str(size), ("heatmap", "heads")),
                    entered(masks, ".st-key-mask-b", f"sliding_window({size})", ("map-b", "change")),
                )

            row(tokens, *medians(repeated(resize, 7)))


def entered(page: Page, box: str, value: str, charts: tuple[str, ...]) -> float:
    """Milliseconds from Enter in a field until the maps that change are painted anew."""
    field = page.locator(f"{box} input")
    field.fill(value)
    return repainted(page, "keydown", lambda: field.press("Enter"), charts)


if __name__ == "__main__":
    sys.exit(main())
