"""nginx, with the configuration of deploy/, in front of two replicas of the app below a base path."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from attnviz.ui.downloads import SAMPLES
from tests.support.browser import ROOT, Browser, Explore, Masks, free_port, opened, running, serving

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
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


def configuration(folder: Path, port: int, replicas: list[Replica]) -> Path:
    values = {
        "REPLICAS": "".join(
            f"server {urlsplit(one.address).netloc} max_fails=1 fail_timeout=10s; " for one in replicas
        ),
        "LISTEN": f"127.0.0.1:{port}",
        "BASE_PATH": "/attn",
        "FOLDER": str(folder),
        "UPLOAD": "9m",
        "COOKIE": "SameSite=Lax",
    }
    template = (ROOT / "deploy" / "nginx.conf.template").read_text()
    path = folder / "nginx.conf"
    path.write_text(re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], template))
    return path


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
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    assert NGINX, "nginx is not installed; .ci/debian nginx-light installs it"
    as_user = "user root; " if os.geteuid() == 0 else ""  # who owns the folder
    command = [NGINX, "-p", str(folder), "-e", "stderr", "-c", str(configuration(folder, port, replicas))]
    checked = subprocess.run([*command, "-t", "-g", as_user], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    assert not re.search(r"\[(warn|error|emerg)\]", checked.stderr), checked.stderr
    address = f"http://127.0.0.1:{port}/attn"
    with running([*command, "-g", f"{as_user}daemon off;"], folder / "log", f"{address}/readyz"):
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


def test_a_visitor_stays_at_one_replica_and_goes_on_at_the_other_when_it_ends(
    browser: Browser, proxy: str, replicas: list[Replica], tmp_path: Path
) -> None:
    with opened(browser, proxy, kind=Masks) as masks:
        masks.open()
        masks.write("B", "causal & q - k < 3")
        masks.painted()
    with opened(browser, proxy, kind=Explore) as explore:
        explore.open("?source=Upload")
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
