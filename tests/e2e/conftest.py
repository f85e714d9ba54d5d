"""One server and one browser for the browser tests of a process."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import sync_playwright

from tests.support.browser import Browser, Explore, Masks, serving, shared


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server") / "log") as url:
        yield url


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = Browser(playwright, tmp_path_factory.mktemp("browser"))
        yield browser
        browser.close()


@pytest.fixture
def explore(browser: Browser, address: str) -> Iterator[Explore]:
    """The Explore page at 1280 × 800, in the page that tests share."""
    with shared(browser, address) as page:
        yield page


@pytest.fixture
def masks(browser: Browser, address: str) -> Iterator[Masks]:
    """The Masks page at 1280 × 800, in the page that tests share."""
    with shared(browser, address, kind=Masks) as page:
        yield page
