"""nginx, with the configuration of deploy/, in front of two replicas of the app below a base path."""

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from attnviz.ui.downloads import SAMPLES
from tests.support.browser import Browser, Explore, Masks, opened, serving
from tests.support.nginx import nginx_before

SECRET = "xyzzy"


@dataclass
class Replica:
    """A process of the app, and what it wrote."""

    log: Path
    server: AbstractContextManager[str] = field(init=False)
    address: str = field(init=False)

    def start(self) -> None:
        self.server = serving(self.log, None, "/attn")
        self.address = self.server.__enter__()

    def stop(self) -> None:
        self.server.__exit__(None, None, None)
        self.server = nullcontext("")

    def pages(self) -> list[str]:
        """The pages that it has run."""
        events = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [event["page"] for event in events if event["event"] == "page run"]


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Replica]]:
    folder = tmp_path_factory.mktemp("replicas")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ATTNVIZ_LOG", "json")
        both = [Replica(folder / f"log {number}") for number in (1, 2)]
        for replica in both:
            replica.start()
        yield both
        for replica in both:
            replica.stop()


@pytest.fixture(scope="module")
def proxy(replicas: list[Replica], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("nginx")
    with nginx_before(replicas, folder, "readyz") as address:
        yield address
    assert SECRET not in (folder / "log").read_text()


def get(address: str, **headers: str) -> tuple[int, dict[str, str]]:
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request("GET", url.path, headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}


def test_each_visitor_has_a_cookie_of_one_replica(proxy: str) -> None:
    status, headers = get(f"{proxy}/masks")
    assert status == 200
    assert re.fullmatch(r"attnviz_visitor=[0-9a-f]{32}; Path=/; HttpOnly; SameSite=Lax", headers["set-cookie"])
    assert "frame-ancestors" in headers["content-security-policy"]
    _, headers = get(f"{proxy}/masks", cookie=headers["set-cookie"].partition(";")[0])
    assert "attnviz_visitor" not in headers.get("set-cookie", "")
    assert get(f"{proxy}/_stcore/metrics")[0] == 404


def test_a_visitor_stays_at_one_replica_until_it_ends(
    browser: Browser, proxy: str, replicas: list[Replica], tmp_path: Path
) -> None:
    with opened(browser, proxy, kind=Masks) as masks:
        masks.open()
        masks.write("B", "causal & q - k < 3")
        masks.painted()
    with opened(browser, proxy, kind=Explore) as explore:
        explore.visit("?source=Upload")
        explore.page.get_by_role("button", name="Samples").click()
        with explore.page.expect_download() as download:
            explore.page.get_by_role("button", name=SAMPLES[0].name).click()
        download.value.save_as(tmp_path / "sample")
        assert (tmp_path / "sample").read_bytes() == SAMPLES[0].read_bytes()
        explore.upload(SAMPLES[0])
        explore.painted(rows=11)
        explore.open(f"?text={SECRET}+sees+it")
        [own] = [replica for replica in replicas if replica.pages()]
        [other] = [replica for replica in replicas if replica is not own]
        assert {"masks", "explore"} <= set(own.pages())
        before = explore.weights()

        own.stop()
        explore.page.reload()
        explore.painted()
        assert explore.weights() == before
        expect(explore.page.get_by_label("Text", exact=True)).to_have_value(f"{SECRET} sees it")
        assert "explore" in other.pages()
    for replica in replicas:
        assert SECRET not in replica.log.read_text()


def test_uploads_are_limited_in_size_and_number(proxy: str) -> None:
    upload = f"{proxy}/_stcore/upload_file/session/file"
    assert get(upload, **{"content-length": str(10 << 20)})[0] == 413
    statuses = [get(upload)[0] for _ in range(80)]  # at once 41, then 5 a second
    assert statuses[0] != 429
    assert 429 in statuses
