"""Pages with all heads of a text: their size, and the time until a browser has drawn them, against other viewers."""

import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import torch
from playwright.sync_api import BrowserContext

import attnviz
from attnviz.sources import Model
from tests.bench.measures import check_in_front, is_short, new_page, note, repeated, row, table
from tests.support.browser import ROOT

RUNS = 2
# BertViz asks a host for these; the page has them beside it.
LIBRARIES = {
    "https://cdnjs.cloudflare.com/ajax/libs/require.js/2.3.6/require.min.js": "requirejs/require.js",
    "https://cdnjs.cloudflare.com/ajax/libs/jquery/2.0.0/jquery.min": "jquery/dist/jquery.min",
    "https://cdnjs.cloudflare.com/ajax/libs/d3/5.7.0/d3.min": "d3/dist/d3.min",
}
DRAWN = {
    "attnviz": "document.querySelectorAll('.attnviz-chart[data-ready=true]').length === 2",
    "BertViz": "document.querySelectorAll('#vis svg line').length > 0",
    "CircuitsVis": "[...document.querySelectorAll('img, canvas')].length >= 72",
}


def viewers(browser: BrowserContext) -> None:
    """72 heads of MiniLM at 128 tokens, opened as a file from the same disk, in turn. A viewer that is not installed is
    left out, and that is said."""
    layers = Model(" ".join(["the animal was too tired to cross"] * (2 if is_short() else 18))).layers()
    tokens = list(layers[0].inputs.query_tokens)
    weights = torch.stack([layer.mechanism(layer.inputs).weights for layer in layers])
    pages = {"attnviz": attnviz.show(weights, tokens).to_html()}
    for name, make in {"BertViz": _bertviz, "CircuitsVis": _circuitsvis}.items():
        if find_spec(name.lower()):
            pages[name] = make(weights, tokens)
        else:
            note(f"{name} is left out: it is not installed. `make bench` installs it.")
    with tempfile.TemporaryDirectory() as folder:
        for name, page in pages.items():
            (Path(folder) / f"{name}.html").write_text(page, encoding="utf-8")
        files = {name: Path(folder) / f"{name}.html" for name in pages}
        times = repeated(lambda: {name: _opened(browser, file, DRAWN[name]) for name, file in files.items()}, RUNS)
    table(f"All 72 heads at {len(tokens)} tokens as a page", ("viewer", "MB", "opened ms", "ratio"))
    medians = {name: statistics.median(one[name] for one in times) for name in pages}
    for name, page in pages.items():
        row(name, len(page.encode()) / 1e6, medians[name], medians[name] / medians["attnviz"])


def _opened(browser: BrowserContext, file: Path, drawn: str) -> float:
    """Milliseconds from the address until the picture is drawn and painted."""
    page = new_page(browser)
    try:
        start = time.perf_counter()
        page.goto(file.as_uri(), wait_until="commit")
        page.wait_for_function(f"() => document.readyState !== 'loading' && {drawn}", timeout=300_000, polling="raf")
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        milliseconds = (time.perf_counter() - start) * 1e3
        check_in_front(page)
        return milliseconds
    finally:
        page.close()


def _bertviz(weights: torch.Tensor, tokens: list[str]) -> str:
    from bertviz import model_view

    page = model_view([layer[None] for layer in weights], tokens, html_action="return").data
    for address, file in LIBRARIES.items():
        page = page.replace(address, (ROOT / "node_modules" / file).as_uri())
    assert "cdnjs" not in page
    return f"<!doctype html><meta charset=utf-8><body>{page}"


def _circuitsvis(weights: torch.Tensor, tokens: list[str]) -> str:
    from circuitsvis.attention import attention_heads

    page = attention_heads(attention=weights.flatten(0, 1), tokens=tokens).local_src
    return f"<!doctype html><meta charset=utf-8><body>{page}"
