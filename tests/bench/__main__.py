"""make bench: how long things take, as ratios of two sides measured in turn in one run. Medians of several runs."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # as app.py does; both sides of a ratio have it

import torch
from playwright.sync_api import Browser, Page, sync_playwright

from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.models.forward_pass import run
from attnviz.models.interventions import Intervention
from attnviz.sources import Pretrained
from tests.bench.clusters import clusters
from tests.bench.first_paint import first_paint
from tests.bench.long_maps import long_maps
from tests.bench.masks import masks
from tests.bench.models import models
from tests.bench.traces import traces
from tests.bench.viewers import viewers
from tests.support.browser import ARGUMENTS, CHROMIUM, serving

HERE = Path(__file__).parent
WORDS = ("the", "animal", "did", "not", "cross", "a", "street", "because", "it", "was", "too", "tired", "today")


def main() -> None:
    print(f"\n{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    imports()
    core()
    capture()
    ablation()
    masks()
    long_maps(table, row)
    clusters(table, row)
    models()
    traces()
    first_paint()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        enter_to_painted(browser)
        all_heads(browser)
        parameter_to_painted(browser)
        viewers(browser, table, row)
        browser.close()


def imports() -> None:
    """The library imported in a fresh process, and then all its names used, against torch."""
    table("Import", ("of attnviz", "torch ms", "attnviz ms", "ratio"))
    names = "; [getattr(attnviz, name) for name in attnviz.__all__]"
    for title, program in (("itself", "import attnviz"), ("all names", "import attnviz" + names)):
        sides = [partial(subprocess.run, [sys.executable, "-c", one], check=True) for one in ("import torch", program)]
        row(title, *in_turn(*sides, runs=5))


def core() -> None:
    """All stages kept, against the three lines of torch that give the output alone: 12 heads of width 64."""
    table("Core, 12 causal heads", ("tokens", "torch ms", "attnviz ms", "ratio"))
    for tokens in (16, 64, 128, 256, 512, 1024):
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
    for tokens in (16, 64, 128, 256, 512):
        fresh = iter(range(10_000))

        def forward(tokens: int = tokens) -> object:
            with torch.inference_mode():
                return model.model(**model.tokenizer(text_of(tokens, 0), return_tensors="pt"))

        row(
            tokens,
            *in_turn(forward, lambda n=tokens, fresh=fresh: Pretrained(text_of(n, next(fresh))).layers(), runs=7),
        )


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

    for tokens in (16, 64, 128, 256, 512):
        batch = model.encode(text_of(tokens, 0)).batch

        @torch.no_grad()
        def hooked(batch: dict[str, torch.Tensor] = batch) -> object:
            hook = layer.register_forward_pre_hook(zero)
            try:
                return model.model(**batch)
            finally:
                hook.remove()

        row(tokens, *in_turn(hooked, lambda b=batch: run(model.model, b, Intervention(ablated=((3, 1),))), runs=15))


def enter_to_painted(browser: Browser) -> None:
    """A new text typed, until its heatmap is painted: a bare Streamlit page with st.plotly_chart, and Explore."""
    table("Enter → painted, MiniLM, one layer", ("tokens", "bare ms", "Explore ms", "ratio"))
    bare_page = "() => document.querySelector('.js-plotly-plot')?.calcdata?.[0]?.[0]?.z?.length"
    explore = "() => Number(document.querySelector('.st-key-heatmap [data-ready=true]')?.dataset.rows)"
    with app(browser, HERE / "bare_page.py") as bare, app(browser) as ours:
        for tokens in (16, 64, 128, 256, 512):
            fresh = iter(range(10_000))

            def type_into(page: Page, rows: str, tokens: int = tokens, fresh: Iterator[int] = fresh) -> float:
                # Another number of tokens before, so that the new one tells that the new picture is there.
                painted(page, text_of(tokens - 4, next(fresh)), tokens - 4, rows)
                return painted(page, text_of(tokens, next(fresh)), tokens, rows)

            times = [(type_into(bare, bare_page), type_into(ours, explore)) for _ in range(6)][1:]
            row(tokens, *medians(times))


def all_heads(browser: Browser) -> None:
    """The mosaic of all 72 heads with the heatmap of one: what is sent to the browser, and when it is painted."""
    table("All 72 heads", ("tokens", "sent MB", "painted ms"))
    explore = "() => Number(document.querySelector('.st-key-heatmap [data-ready=true]')?.dataset.rows)"
    with app(browser, query="?mosaic=All+layers") as page:
        for tokens in (16, 64, 128, 256, 512):
            times, sizes = [], []
            for run in range(4):
                painted(page, text_of(tokens - 4, run), tokens - 4, explore)
                before = page.sent[0]  # type: ignore[attr-defined]
                times.append(painted(page, text_of(tokens, run + 100), tokens, explore))
                sizes.append(page.sent[0] - before)  # type: ignore[attr-defined]
            row(tokens, statistics.median(sizes) / 1e6, statistics.median(times[1:]))


def parameter_to_painted(browser: Browser) -> None:
    """The size of a sliding window changed, until what it changes is painted: one map and the mosaic of Explore, and
    the three maps of Masks."""
    table("Mask parameter → painted, MiniLM", ("tokens", "Explore ms", "Masks ms", "ratio"))
    for tokens in (16, 128, 512):
        text = f"&text={text_of(tokens, 0).replace(' ', '+')}"
        with (
            app(browser, query="?mask=Sliding+window" + text) as explore,
            app(browser, query="masks?mask-a=full&mask-b=sliding_window(4)" + text) as masks,
        ):
            pages = ((explore, "mask", ("heatmap", "heads")), (masks, "mask-b", ("map-b", "change")))
            times = [
                tuple(resized(page, f".st-key-{key}-size", charts, size) for page, key, charts in pages)
                for size in range(5, 13)
            ]
            row(tokens, *medians(times[1:]))  # type: ignore[arg-type]


def resized(page: Page, box: str, charts: tuple[str, ...], size: int) -> float:
    """Milliseconds from Enter until the maps that change are painted anew."""
    field = page.locator(f"{box} input")
    field.fill(str(size))
    page.evaluate(
        """charts => {
            for (const key of charts) document.querySelector(`.st-key-${key} .attnviz-chart`).dataset.ready = 'old';
            addEventListener('keydown', () => (window.entered = performance.now()), { once: true });
        }""",
        list(charts),
    )
    field.press("Enter")
    return page.evaluate(
        """charts => new Promise(done => {
            const ready = key => document.querySelector(`.st-key-${key} .attnviz-chart`).dataset.ready === 'true';
            const look = () => charts.every(ready)
                ? done(performance.now() - window.entered) : requestAnimationFrame(look);
            look();
        })""",
        list(charts),
    )


@contextmanager
def app(browser: Browser, script: Path | None = None, query: str = "") -> Iterator[Page]:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "log", script) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.sent = [0]  # type: ignore[attr-defined]

        def count(frame: str | bytes) -> None:
            page.sent[0] += len(frame)  # type: ignore[attr-defined]

        page.on("websocket", lambda socket: socket.on("framereceived", count))
        page.goto(f"{address}/{'' if script else 'explore'}{query}")
        page.get_by_label("Text", exact=True).wait_for()
        page.wait_for_selector(".heatmaplayer image", state="attached")
        yield page
        page.close()


def painted(page: Page, text: str, rows: int, count: str) -> float:
    """Milliseconds from Enter until `rows` rows are on the screen."""
    box = page.get_by_label("Text", exact=True)
    box.fill(text)
    page.evaluate("addEventListener('keydown', () => (window.entered = performance.now()), { once: true })")
    box.press("Enter")
    return page.evaluate(
        f"""rows => new Promise(done => {{
            const count = {count};
            const frame = next => requestAnimationFrame(next);
            const look = () => count() === rows
                ? frame(() => frame(() => done(performance.now() - window.entered))) : frame(look);
            look();
        }})""",
        rows,
    )


def text_of(tokens: int, seed: int) -> str:
    """A text that MiniLM reads as so many tokens, the two it adds included; another for each seed."""
    return " ".join(WORDS[(i * 7 + seed * (i % 3 + 1)) % len(WORDS)] for i in range(tokens - 2))


def in_turn(one: Callable[[], object], other: Callable[[], object], runs: int) -> tuple[float, float, float]:
    return medians([(timed(one), timed(other)) for _ in range(runs + 1)][1:])


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


def table(title: str, columns: tuple[str, ...]) -> None:
    print(f"\n{title}\n" + "".join(f"{column:>14}" for column in columns), flush=True)


def row(*values: float | str) -> None:
    print("".join(f"{value:>14,.2f}" if isinstance(value, float) else f"{value:>14}" for value in values), flush=True)


if __name__ == "__main__":
    sys.exit(main())
