"""The documentation, built and read in a browser without a network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import expect

from tests.support.browser import ROOT, Browser

EXTERNAL = re.compile(r"(https?:)?//")
HOST = re.compile(r"https?://[A-Za-z0-9-]+\.[A-Za-z0-9.-]+")
NAMESPACES = {"http://www.w3.org"}  # of SVG; they are names, and nobody fetches them
# What the theme would ask for on pages that this site has none of: diagrams, repositories, old browsers; and the
# address of a manual, in an error message.
NEVER_ASKED = {"https://unpkg.com", "https://api.github.com", "https://bit.ly"}
INERT = re.compile(r"/\*.*?\*/|<!--.*?-->|url\(([\"']?)data:.*?\1\)", re.DOTALL)  # comments, and pictures in the file


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


@pytest.fixture(scope="module")
def site_address(site: Path) -> Iterator[str]:
    handler = type("Silent", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Resources(HTMLParser):
    """The addresses that a browser fetches for a page, and the scripts in it; links to click are none."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.classes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.classes.update((given.get("class") or "").split())
        names = ("src", "srcset", "poster", "data", "action", "style", *(["href"] if tag in ("link", "use") else []))
        self.addresses += [value for name in names if (value := given.get(name))]


def hosts(file: Path) -> set[str]:
    """The hosts that a file names, without its comments and its own pictures."""
    return {match[0] for match in HOST.finditer(INERT.sub("", file.read_text("utf-8")))}


def test_no_file_of_the_site_asks_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        found = Resources(page.read_text("utf-8"))
        assert not [one for one in found.addresses if EXTERNAL.search(one)], page
        assert not found.classes & {"mermaid", "md-source"}, page
    for sheet in site.rglob("*.css"):
        assert hosts(sheet) <= NAMESPACES, sheet
    for script in (script for script in site.rglob("*.js") if "lunr" not in script.parts):  # of other languages
        assert hosts(script) <= NAMESPACES | NEVER_ASKED, script


def test_pages_are_read_without_a_network(browser: Browser, site_address: str) -> None:
    page = browser.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    page.route(lambda url: not url.startswith((site_address, "data:", "blob:")), lambda route: route.abort())
    page.goto(f"{site_address}/app/masks.html")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Masks")
    page.wait_for_function("() => [...document.images].every(image => image.complete && image.naturalWidth)")
    page.get_by_label("Search", exact=True).first.click()
    page.get_by_placeholder("Search").press_sequentially("ALiBi")  # it listens to keys
    result = page.locator(".md-search-result__link").first
    expect(result).to_be_visible()
    result.click()
    page.wait_for_url("**/api/biases.html*")
    expect(page.locator("[id='attnviz.biases.ALiBi']").first).to_be_visible()
    page.close()
    assert not troubles
