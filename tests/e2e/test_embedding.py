"""The app in a frame of a course page on another site."""

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tests.support.browser import Browser, serving
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """The folder and the port of a site, which has the names localhost and course.localhost."""
    folder = tmp_path_factory.mktemp("course")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), handler) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield folder, site.server_port
        site.shutdown()
        thread.join()


def test_only_a_listed_site_has_the_app_in_a_frame(
    browser: Browser, course: tuple[Path, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, port = course
    monkeypatch.setenv("ATTNVIZ_EMBED", f"http://localhost:{port}")
    with serving(tmp_path / "log") as address:
        (folder / "course.html").write_text(
            f'<h1>Course</h1><iframe width="1200" height="700" src="{address}/masks?embed=true"></iframe>'
        )
        page = browser.new_page()
        page.goto(f"http://localhost:{port}/course.html")
        frame = page.frame_locator("iframe")
        expect(frame.locator(".st-key-map-a .attnviz-chart[data-ready=true]")).to_be_visible()
        frame.get_by_label("Mask B in words", exact=True).fill("causal & q - k < 3")
        frame.get_by_label("Mask B in words", exact=True).press("Enter")
        expect(frame.locator(".st-key-map-b .attnviz-chart[data-ready=true]")).to_be_visible()
        for chrome in (".st-key-heading", "[data-testid=stTopNav]", "[data-testid=stSidebarLogo]", ".st-key-embedded"):
            expect(frame.locator(chrome).filter(visible=True)).to_have_count(0)
        expect(frame.locator(".st-key-embedded")).to_have_count(1)
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text))
        page.goto(f"http://course.localhost:{port}/course.html")
        page.wait_for_function("document.readyState === 'complete'")
        assert any("frame-ancestors" in text for text in refused), refused
        expect(page.frame_locator("iframe").locator(".attnviz-chart")).to_have_count(0)
        page.close()


def test_the_cookie_of_uploads_reaches_a_frame_by_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_EMBED", "https://course.example.org")
    monkeypatch.setenv("ATTNVIZ_TLS", "1")
    with serving(tmp_path / "log") as address, urlopen(f"{address}/_stcore/health", timeout=20) as response:
        cookie = response.headers["set-cookie"]
    assert cookie.startswith("_streamlit_xsrf=")
    assert "SameSite=None" in cookie
    assert "Secure" in cookie
