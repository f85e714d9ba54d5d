"""A picture of a page of the app once nothing in it moves."""

import io
from typing import Any

from PIL import Image
from playwright.sync_api import Page

from tests.support.browser import UNTIL

# No run of the page and no job is under way, every chart is drawn, and nothing waits for a file.
DRAWN = """() => (location.protocol === 'file:' || document.querySelector('.class-follow')
        || document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning')
    && document.querySelector('.attnviz-chart, [data-testid=stApp]')
    && [...document.querySelectorAll('.attnviz-chart')].every(e => e.dataset.ready === 'true' || !e.checkVisibility())
    && document.fonts.status === 'loaded'
    && !document.querySelector('[data-testid=stSkeleton], [data-testid=stProgress], [data-stale=true]')"""


def wait_until_drawn(page: Page) -> None:
    page.evaluate(UNTIL.replace("FUNCTION", DRAWN), None)


def still(page: Page, element: str = "", **options: Any) -> Image.Image:
    """Returns a picture of what is drawn once two in a row are equal, with Playwright's options of screenshots."""
    shown = page.locator(element).filter(visible=True).first if element else page
    before = b""
    while (now := shown.screenshot(**options)) != before:
        before = now
        wait_until_drawn(page)
    return Image.open(io.BytesIO(now)).convert("RGB")
