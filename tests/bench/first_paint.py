"""A first visit, with an empty cache: a bare Streamlit page with one st.plotly_chart, and Explore."""

from playwright.sync_api import Browser

from tests.bench.measures import check_in_front, medians, new_context, new_page, repeated, row, table

VISITS = 6
BARE = "() => document.querySelector('.js-plotly-plot .heatmaplayer image')"
FROM_CACHE = """() => performance.getEntriesByType('resource')
    .filter(one => one.name.startsWith('http') && one.transferSize === 0 && one.decodedBodySize > 0)
    .map(one => one.name)"""
EXPLORE = "() => document.querySelector('.st-key-heatmap [data-rows]')"


def first_paint(browser: Browser, bare: str, ours: str) -> None:
    """Milliseconds from navigation until the heatmap is painted; the two sides take turns in going first. The first
    visits, which are not counted, are the first of the servers too."""
    table("First visit → painted", ("", "bare ms", "Explore ms", "ratio"))
    sides = [(bare, BARE), (f"{ours}/explore", EXPLORE)]

    def visits() -> tuple[float, float]:
        sides.reverse()
        times = {painted: _visit(browser, address, painted) for address, painted in sides}
        return times[BARE], times[EXPLORE]

    row("cold", *medians(repeated(visits, VISITS)))


def _visit(browser: Browser, address: str, painted: str) -> float:
    """Milliseconds of one visit in a new context, which has nothing in its cache."""
    context = new_context(browser)
    page = new_page(context)
    page.goto(address, wait_until="commit")
    milliseconds: float = page.evaluate(
        f"""() => new Promise(done => {{
            const painted = {painted};
            const frame = next => requestAnimationFrame(next);
            const look = () => painted() ? frame(() => frame(() => done(performance.now()))) : frame(look);
            look();
        }})"""
    )
    check_in_front(page)
    if cached := page.evaluate(FROM_CACHE):
        raise RuntimeError(f"A first visit loads everything; {address} has these in its cache: {cached}")
    context.close()
    return milliseconds
