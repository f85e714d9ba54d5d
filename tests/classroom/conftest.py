"""Classes in each store: SQLite, and a Redis server that the tests start."""

from collections.abc import Iterator

import pytest

from attnviz.classroom.live_class import Classes, LiveClass
from attnviz.classroom.store import Store
from attnviz.classroom.store_address import open_store
from tests.support.redis_server import redis_server


@pytest.fixture(scope="session")
def redis_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server.address


@pytest.fixture(params=["sqlite", "redis"])
def store_address(request: pytest.FixtureRequest, tmp_path) -> str:
    if request.param == "redis":
        return request.getfixturevalue("redis_address")
    return f"sqlite://{tmp_path}/new/classes.sqlite3"


@pytest.fixture
def store(store_address: str) -> Store:
    return open_store(store_address)


@pytest.fixture
def classes(store: Store) -> Classes:
    return Classes(store)


@pytest.fixture
def live(classes: Classes) -> LiveClass:
    return classes.open(classes.start().code)
