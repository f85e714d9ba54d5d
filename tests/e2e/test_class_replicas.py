"""A class on two replicas behind nginx, whose store is Redis: one of them is killed in mid-vote."""

import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.classroom import ClassServer, HeadlessTeacher, Participant
from tests.support.nginx import nginx_before
from tests.support.redis_server import redis_server

PHONES = 12


@dataclass
class Hosted:
    """The address of the proxy, and what is behind it."""

    address: str
    replicas: list[ClassServer]


@pytest.fixture
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    folder = tmp_path_factory.mktemp("class")
    with redis_server(folder) as redis:
        replicas = [ClassServer(folder, "/attn", ATTNVIZ_CLASS_STORE=redis.address, ATTNVIZ_LOG="json") for _ in "AB"]
        for replica in replicas:
            replica.start()
        with nginx_before(replicas, folder, "readyz") as address:
            yield Hosted(address, replicas)
        replicas[1].stop()
    assert "Traceback" not in replicas[1].log.read_text()


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


def test_a_class_goes_on_at_one_replica_when_the_other_is_killed_in_a_vote(hosted: Hosted) -> None:
    teacher = HeadlessTeacher(hosted.address)
    phones = [Participant(hosted.address, teacher.code) for _ in range(PHONES)]
    assert teacher.panel()["participants"] == PHONES
    streams = [news(f"{replica.address}/class/{teacher.code}") for replica in hosted.replicas]
    through_proxy = news(teacher.address)
    teacher.ask("Which?", "A", "B")
    assert len({version(stream) for stream in (*streams, through_proxy)}) == 1  # both replicas say the same version

    for number, phone in enumerate(phones[: PHONES // 2]):
        phone.vote(number % 2)
    assert teacher.panel()["answers"] == PHONES // 2
    hosted.replicas[0].stop(signal.SIGKILL)
    for phone in phones[PHONES // 2 :]:
        phone.vote(1)
    assert teacher.panel()["answers"] == PHONES
    teacher.do("close")
    assert version(streams[1])
    teacher.do("vote-again")
    for phone in phones:
        phone.vote(1)
    teacher.do("reveal")
    panel = teacher.panel()
    assert (panel["answers"], panel["poll"]["phase"]) == (PHONES, "revealed")
    teacher.do("end")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        phones[0].state()
