"""A first visit, with an empty cache: a bare Streamlit page with one st.plotly_chart, and Explore."""

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.support.browser import ARGUMENTS, CHROMIUM, serving

VISITS = 6
BARE_PAGE = Path(__file__).with_name("bare_page.py")
BARE = "() => document.querySelector('.js-plotly-plot .heatmaplayer image')"
EXPLORE = "() => document.querySelector('.st-key-heatmap [data-ready=true]')"


def first_paint() -> None:
    """Milliseconds from navigation until the heatmap is painted; the two sides take turns in going first."""
    from tests.bench.__main__ import medians, row, table

    table("First visit → painted", ("", "bare ms", "Explore ms", "ratio"))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        logs = [Path(folder) / name for name in ("bare", "explore")]
        with serving(logs[0], BARE_PAGE) as bare, serving(logs[1]) as explore:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            pairs = []
            for turn in range(VISITS + 1):  # the first visit is the first of the server too
                sides = [(bare, BARE), (f"{explore}/explore", EXPLORE)]
                times = {
                    address: _visit(browser, address, painted) for address, painted in sides[:: -1 if turn % 2 else 1]
                }
                pairs.append(tuple(times[address] for address, _ in ((bare, BARE), (f"{explore}/explore", EXPLORE))))
            browser.close()
    row("cold", *medians(pairs[1:]))


def _visit(browser, address: str, painted: str) -> float:
    """Milliseconds of one visit in a new context, which has nothing in its cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(address, wait_until="commit")
    milliseconds = page.evaluate(
        f"""() => new Promise(done => {{
            const painted = {painted};
            const frame = next => requestAnimationFrame(next);
            const look = () => painted() ? frame(() => frame(() => done(performance.now()))) : frame(look);
            look();
        }})"""
    )
    context.close()
    return milliseconds


if __name__ == "__main__":
    first_paint()
