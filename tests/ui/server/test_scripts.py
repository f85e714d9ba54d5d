"""The scripts that a browser is sent."""

import re
from pathlib import Path

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from attnviz.ui.server import scripts


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=scripts.routes()))


def test_plotly_is_served_from_the_installed_package_for_a_year(client: TestClient) -> None:
    answer = client.get(scripts.plotly_address())
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert b"plotly.js v" in answer.content[:200]
    assert answer.content.startswith(b"//# allFunctionsCalledOnLoad\n")  # has to come before all code


def test_every_import_of_a_module_is_served(client: TestClient) -> None:
    modules = {path: script.decode() for path, script in scripts.files().items() if "/attnviz-" in path}
    assert len(modules) > 10
    for path, script in modules.items():
        answer = client.get(path)
        assert answer.headers["content-type"].startswith("text/javascript")
        assert answer.text == script
        for name in re.findall(r'^import .* from "\./(.*)";$', script, re.MULTILINE):
            assert f"{path.rpartition('/')[0]}/{name}" in modules


def test_the_head_loads_the_charts_and_preloads_modules_of_streamlit() -> None:
    elements = scripts.early_elements()
    navigation, plotly = re.findall(r'src="(.*?)"', elements)
    assert navigation in scripts.files()
    assert plotly == scripts.plotly_address()
    modules = re.findall(r'href="/static/js/(.*?)"', elements)
    folder = Path(st.__file__).parent / "static" / "static" / "js"
    assert set(re.findall(r'href="(/vendor/.*?)"', elements)) == {path for path in scripts.files() if "/chart/" in path}
    assert all((folder / name).is_file() for name in modules)
    assert {name.split(".")[0] for name in modules} >= set(scripts.WIDGETS)
    assert sum((folder / name).stat().st_size for name in modules) < 1_000_000
