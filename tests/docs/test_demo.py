"""The pages of the demo are those that the code writes now."""

import gzip
import json
import re
from base64 import b64decode

import pytest
from plotly.offline import get_plotlyjs

from attnviz.notebook import bundle, html_page
from docs.tools.demo import FOLDER, MOST_BYTES, PAGES, opening

AGAIN = "docs/demo is not what the code writes now. Run: make demo"


def script(html: str, name: str) -> dict:
    [text] = re.findall(rf'<script type="application/json" data-attnviz-{name}="[^"]*">(.*?)</script>', html, re.S)
    return json.loads(text)


@pytest.fixture(scope="module")
def library() -> dict:
    return script(html_page.library(), "library")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_has_the_scripts_and_styles_of_the_code(page, library: dict) -> None:
    html = (FOLDER / f"{page.name}.html").read_text(encoding="utf-8")
    shipped = script(html, "library")
    assert shipped["script"] == library["script"], AGAIN
    assert shipped["styles"] == library["styles"], AGAIN
    assert gzip.decompress(b64decode(shipped["plotly"])).decode() == get_plotlyjs(), AGAIN
    assert script(html, "data")["template"] == bundle.text("chart/chart.html"), AGAIN
    assert bundle.text("notebook/boot.js") in html, AGAIN
    assert opening(page) in html, AGAIN
    assert len(html.encode()) <= MOST_BYTES


def test_only_the_pages_of_the_demo_are_in_its_folder() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {"frame.js", *(f"{page.name}.html" for page in PAGES)}
