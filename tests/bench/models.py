"""What Explore takes: MiniLM at 512 tokens in the browser, and at 4,096, with its positions repeated."""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from playwright.sync_api import BrowserContext, Page
from transformers.utils.logging import disable_progress_bar

from attnviz.analysis.downsampling import downsample
from attnviz.layer import Layer
from attnviz.models.loading import inspect_folder
from attnviz.models.minilm import minilm
from attnviz.models.model import LoadedModel
from attnviz.page.selected_maps import CELLS
from attnviz.trace.memory import layer_bytes
from attnviz.tracing import capture
from tests.bench.measures import (
    in_turn,
    is_short,
    medians,
    note,
    repainted,
    repeated,
    row,
    sizes,
    table,
    text_of,
    threads,
    timed,
    visit,
)

LONG = 1056 if is_short() else 4096  # of more than 1,024 tokens a map is drawn in fewer cells
ROOM = 8e9  # bytes that have to be free for eager weights of the longest text
CHARTS = ("heatmap", "heads")
disable_progress_bar()
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def models(browser: BrowserContext, ours: str) -> None:
    """All tables."""
    with tempfile.TemporaryDirectory() as folder:
        lengthened(folder)
        took(folder)
        held(folder)
        opened(folder)
        typed_to_painted(browser, ours)
        opened_to_painted(browser, ours, folder)


def lengthened(folder: str) -> None:
    """MiniLM with its position embeddings repeated, saved as a model of its own."""
    kept = minilm()
    states = kept.model.state_dict()
    name = next(name for name in states if name.endswith("position_embeddings.weight"))
    config = type(kept.model.config)(**kept.model.config.to_diff_dict() | {"max_position_embeddings": LONG})
    longer = type(kept.model)(config)
    longer.load_state_dict({**states, name: states[name][torch.arange(LONG) % len(states[name])]})
    longer.save_pretrained(folder)
    tokenizer = type(kept.tokenizer).from_pretrained(kept.tokenizer.name_or_path, model_max_length=LONG)
    tokenizer.save_pretrained(folder)


def took(folder: str) -> None:
    """Capturing, against the plain forward, which has torch's scaled dot product attention."""
    table("Capturing a long text, MiniLM", ("tokens", "forward ms", "captured ms", "ratio"))
    model, batch = _read(folder)
    sides = _plain, _captured
    plain, captured = (lambda side=side: side(model, batch) for side in sides)
    row(LONG, *in_turn(plain, captured, runs=5))


def held(folder: str) -> None:
    """The memory that each takes above the loaded model, and what it keeps, each in a process of its own."""
    table(f"Memory at {LONG:,} tokens, MiniLM", ("", "ms", "peak MB", "kept MB"))
    for side in sizes([*SIDES]):
        free = _of_status("MemAvailable", Path("/proc/meminfo"))
        if side == "eager" and free < ROOM:
            note(f"{side} is left out: its weights need {ROOM / 1e9:.0f} GB, and {free / 1e9:.1f} GB are free.")
            continue
        row(side, *in_process(folder, side))


def in_process(folder: str, side: str) -> tuple[float, float, float]:
    if is_short():
        return measured(folder, side)
    program = [sys.executable, "-m", "tests.bench.models", folder, side]
    milliseconds, peak, kept = json.loads(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout)
    return milliseconds, peak, kept


def opened(folder: str) -> None:
    """One head as a map for the screen, and a part of it as large as the screen, computed anew."""
    table(f"One head at {LONG:,} tokens, MiniLM", ("head", "whole ms", "part ms"))
    layers = _captured(*_read(folder))
    middle = slice((LONG - CELLS) // 2, (LONG + CELLS) // 2)
    for layer, head in sizes(((layers[0], 0), (layers[3], 1), (layers[5], 11))):

        def ask(part: slice, layer: Layer = layer, head: int = head) -> object:
            return downsample(layer.inputs, layer.mechanism, head, cells=(CELLS, CELLS), queries=part, keys=part)

        times = repeated(lambda ask=ask: (timed(lambda: ask(slice(None))), timed(lambda: ask(middle))), 5)
        row(f"{layer.id.number}.{head}", *(statistics.median(side) for side in zip(*times, strict=True)))


def typed_to_painted(browser: BrowserContext, ours: str) -> None:
    """A new text typed, until the mosaic of all 72 heads and the map of one are painted, against the plain forward."""
    table(
        "Text → overview of 72 heads painted, MiniLM", ("tokens", "forward ms", "painted ms", "ratio", "3 forward+1s")
    )
    model = minilm()
    with visit(browser, f"{ours}/explore?mosaic=All+layers") as page, threads(1):  # as the server has
        for tokens in sizes((16, 128, 512)):
            text, fresh = text_of(tokens, 1000), iter(range(10_000))

            def forward(text: str = text) -> object:
                with torch.inference_mode():
                    return model.model(**model.tokenizer(text, return_tensors="pt"))

            def type_in(tokens: int = tokens, fresh: Iterator[int] = fresh) -> tuple[float, float]:
                _typed(page, text_of(tokens - 4, next(fresh)), tokens - 4)
                _quiet(page)
                forward()
                return timed(forward), _typed(page, text_of(tokens, next(fresh)), tokens)

            plain, painted, ratio = medians(repeated(type_in, 5))
            row(tokens, plain, painted, ratio, 3 * plain + 1000)


def opened_to_painted(browser: BrowserContext, ours: str, folder: str) -> None:
    """A long text typed, until one layer's heads are painted; then another head clicked, until its map is."""
    from tests.support.browser import AppPage

    table(f"{LONG:,} tokens painted, MiniLM", ("tokens", "text ms", "one head ms"))
    with visit(browser, f"{ours}/explore?model={folder.replace('/', '%2F')}") as page:
        text = _typed(page, text_of(LONG, 0), CELLS)
        app_page = AppPage(page, "")

        def clicked(head: int) -> float:
            mosaic = app_page.chart("heads")
            mosaic.scroll_into_view_if_needed()
            _quiet(page)
            place = app_page.cell(*divmod(head, int(mosaic.get_attribute("data-columns") or 1)), mosaic)
            return repainted(page, "mouseup", lambda: page.mouse.click(*place), ("heatmap",), CELLS)

        row(LONG, text, statistics.median(clicked(head) for head in sizes(range(1, 6))))


def _typed(page: Page, text: str, rows: int) -> float:
    box = page.get_by_label("Text", exact=True)
    box.fill(text)
    return repainted(page, "keydown", lambda: box.press("Control+Enter"), CHARTS, rows)


def _quiet(page: Page) -> None:
    """Waits until the script has run to its end, and the browser has nothing left to draw."""
    page.wait_for_selector("[data-test-script-state=notRunning]", state="attached")
    page.wait_for_timeout(500)


def _read(folder: str) -> tuple[LoadedModel, dict[str, torch.Tensor]]:
    model = inspect_folder(folder).load()
    return model, model.encode(text_of(LONG, 0)).batch


@torch.inference_mode()
def _plain(model: LoadedModel, batch: dict[str, torch.Tensor]) -> object:
    return model.model(**batch)


def _captured(model: LoadedModel, batch: dict[str, torch.Tensor]) -> list[Layer]:
    return capture(model.model, batch)


@torch.inference_mode()
def _eager(model: LoadedModel, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    model.model.set_attn_implementation("eager")
    return model.model(**batch, output_attentions=True).attentions


SIDES: dict[str, Callable[[LoadedModel, dict[str, torch.Tensor]], object]]
SIDES = {"forward": _plain, "captured": _captured, "eager": _eager}


def measured(folder: str, side: str) -> tuple[float, float, float]:
    """Milliseconds, the most megabytes above the loaded model, and the megabytes of tensors in what it gives."""
    model, batch = _read(folder)
    SIDES[side](model, {name: tensor[:, :16] for name, tensor in batch.items()})  # what is done but once
    RESET.write_text("5")  # Linux forgets the largest size so far
    before = _of_status("VmRSS", STATUS)
    start = time.perf_counter()
    made = SIDES[side](model, batch)
    milliseconds = 1000 * (time.perf_counter() - start)
    return milliseconds, (_of_status("VmHWM", STATUS) - before) / 1e6, layer_bytes([made]) / 1e6


def _of_status(name: str, file: Path) -> int:
    """A number of bytes that Linux gives in kB."""
    found = re.search(rf"^{name}:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    assert found, f"{file} has no {name}"
    return 1024 * int(found[1])


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
