"""What a server answers to other hosts and addresses."""

from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest


def answer(address: str, path: str, **headers: str) -> int:
    """The status of a response; of a websocket that is opened, 101."""
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request("GET", url.path + path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("path", ["/", "/_stcore/stream"])
def test_another_host_name_is_refused_though_its_origin_is_the_same(address: str, path: str) -> None:
    """As after DNS rebinding: the page of another host finds its own name led to this server."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    more = upgrade if path.endswith("stream") else {}
    own = urlsplit(address).netloc
    assert answer(address, path, **more, Host=own, Origin=f"http://{own}") == (101 if more else 200)
    for host in ("evil.example", "evil.example:80"):
        assert answer(address, path, **more, Host=host, Origin=f"http://{host}") == 403
