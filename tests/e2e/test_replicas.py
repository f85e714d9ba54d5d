"""nginx, with the configuration of deploy/, in front of two replicas of the app below a base path, which have the store
of classes in Redis: visitors and classes go on when one of them is killed."""

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from attnviz.ui.downloads import SAMPLES
from tests.support.browser import PATIENCE, Browser, Explore, Masks, opened
from tests.support.classroom import ClassServer, HeadlessTeacher, Participant
from tests.support.nginx import nginx_before
from tests.support.redis_server import redis_server

SECRET = "xyzzy"
PHONES = 12


@dataclass
class Hosted:
    """The address of the proxy, and what is behind it."""

    address: str
    replicas: list[ClassServer]


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    folder = tmp_path_factory.mktemp("replicas")
    with redis_server(folder) as redis:
        replicas = [ClassServer(folder, "/attn", ATTNVIZ_CLASS_STORE=redis.address, ATTNVIZ_LOG="json") for _ in "AB"]
        for replica in replicas:
            replica.start()
        nginx = tmp_path_factory.mktemp("nginx")
        with nginx_before(replicas, nginx, "readyz") as address:
            yield Hosted(address, replicas)
        for replica in replicas:
            replica.stop()
    for log in (nginx / "log", *(replica.log for replica in replicas)):
        assert SECRET not in log.read_text()
        assert "Traceback" not in log.read_text()


@pytest.fixture
def proxy(hosted: Hosted) -> str:
    return hosted.address


def pages(replica: ClassServer) -> list[str]:
    """The pages that a replica has run."""
    events = (json.loads(line) for line in replica.log.read_text().splitlines() if line.startswith("{"))
    return [event["page"] for event in events if event["event"] == "page run"]


def get(address: str, **headers: str) -> tuple[int, dict[str, str]]:
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE)
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


def news(address: str) -> "urllib.request._UrlopenRet":
    """An open stream of the news of a class, whose first version is read."""
    stream = urllib.request.urlopen(f"{address}/events", timeout=60)
    version(stream)
    return stream


def version(stream: "urllib.request._UrlopenRet") -> bytes:
    """The next version that a stream tells."""
    line = b""
    while not line.startswith(b"data: "):
        line = stream.readline()
    return line


def test_visitors_and_classes_go_on_at_the_other_replica(browser: Browser, hosted: Hosted, tmp_path: Path) -> None:
    with opened(browser, hosted.address, kind=Masks) as masks:
        masks.open()
        masks.write("B", "causal & q - k < 3")
        masks.painted()
    with opened(browser, hosted.address, kind=Explore) as explore:
        explore.visit("?source=Upload")
        explore.page.get_by_role("button", name="Samples").click()
        with explore.page.expect_download() as download:
            explore.page.get_by_role("button", name=SAMPLES[0].name).click()
        download.value.save_as(tmp_path / "sample")
        assert (tmp_path / "sample").read_bytes() == SAMPLES[0].read_bytes()
        explore.upload(SAMPLES[0])
        explore.painted(rows=11)
        explore.open(f"?text={SECRET}+sees+it")
        [own] = [replica for replica in hosted.replicas if pages(replica)]  # a visitor stays at one
        [other] = [replica for replica in hosted.replicas if replica is not own]
        assert {"masks", "explore"} <= set(pages(own))
        before = explore.weights()

        teacher = HeadlessTeacher(hosted.address)
        phones = [Participant(hosted.address, teacher.code) for _ in range(PHONES)]
        assert teacher.panel()["participants"] == PHONES
        streams = [news(f"{replica.address}/class/{teacher.code}") for replica in (own, other)]
        through_proxy = news(teacher.address)
        teacher.ask("Which?", "A", "B")
        assert len({version(stream) for stream in (*streams, through_proxy)}) == 1  # both say the same version
        for number, phone in enumerate(phones[: PHONES // 2]):
            phone.vote(number % 2)
        assert teacher.panel()["answers"] == PHONES // 2

        own.stop(signal.SIGKILL)
        for phone in phones[PHONES // 2 :]:
            phone.vote(1)
        assert teacher.panel()["answers"] == PHONES
        teacher.do("close")
        assert version(streams[1])
        explore.page.reload()
        explore.painted()
        assert explore.weights() == before
        expect(explore.page.get_by_label("Text", exact=True)).to_have_value(f"{SECRET} sees it")
        assert "explore" in pages(other)
    teacher.do("vote-again")
    for phone in phones:
        phone.vote(1)
    teacher.do("reveal")
    panel = teacher.panel()
    assert (panel["answers"], panel["poll"]["phase"]) == (PHONES, "revealed")
    teacher.do("end")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        phones[0].state()


def test_uploads_are_limited_in_size_and_number(proxy: str) -> None:
    upload = f"{proxy}/_stcore/upload_file/session/file"
    assert get(upload, **{"content-length": str(10 << 20)})[0] == 413
    statuses = [get(upload)[0] for _ in range(80)]  # at once 41, then 5 a second
    assert statuses[0] != 429
    assert 429 in statuses
