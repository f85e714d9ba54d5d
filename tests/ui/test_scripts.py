"""The scripts that a browser is sent."""

import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from attnviz.ui import scripts


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


def test_the_script_in_the_head_is_the_one_that_charts_use() -> None:
    assert re.findall(r'src="(.*?)"', scripts.early_elements()) == [scripts.plotly_address()]


def test_modules_have_an_address_below_that_of_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts.st, "get_option", lambda name: "/below/")
    assert scripts.plotly_address().startswith("/below/vendor/plotly-")
