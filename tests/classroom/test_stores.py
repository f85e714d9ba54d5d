"""What both stores do: SQLite and Redis."""

import secrets
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attnviz.classroom import sqlite_store
from attnviz.classroom.sqlite_store import SqliteStore
from attnviz.classroom.store import Changed, Expectation, Store, StoreError, TooMany, UnknownClass, Versions
from attnviz.classroom.store_address import open_store
from tests.support.redis_server import redis_server
from tests.support.waiting import until

VOTER = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from attnviz.classroom.store_address import open_store
address, code, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
store = open_store(address)
def vote(number):
    try:
        store.write(code, {"answers": {str(number): b"x" * (number % 50)}}, most=10**9, is_shared=False)
    except ValueError:
        os._exit(1)
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
with ThreadPoolExecutor(4) as threads:
    list(threads.map(vote, range(first, last)))
"""


def new_code(store: Store, *, ends: float = 1_000, **sections) -> str:
    code = secrets.token_hex(8)
    assert store.create(code, sections, time.time() + ends)
    return code


def test_values_come_back_by_section_and_name(store: Store) -> None:
    code = new_code(store, a={"x": b"1", "y": b"\0\xff"}, b={"x": b""})
    assert store.read(code, "a") == {"x": b"1", "y": b"\0\xff"}
    assert store.read(code, "b") == {"x": b""}
    assert (store.get(code, "a", "y"), store.get(code, "a", "z"), store.get(code, "c", "x")) == (b"\0\xff", None, None)
    assert (store.count(code, "a"), store.count(code, "c")) == (2, 0)
    store.write(code, {"a": {"x": None, "y": b"2"}, "ä section": {"ü name": b"3"}})
    assert store.read(code, "a") == {"y": b"2"}
    assert store.read(code, "ä section") == {"ü name": b"3"}


def test_a_code_is_used_once(store: Store) -> None:
    code = new_code(store, a={"x": b"1"})
    assert not store.create(code, {"a": {"x": b"2"}}, time.time() + 10)
    assert store.read(code, "a") == {"x": b"1"}


def test_versions_grow_with_each_write_and_are_those_of_classes_that_exist(store: Store) -> None:
    first, second = new_code(store), new_code(store)
    assert store.versions([first, second, "nobody"]) == {first: (1, 1), second: (1, 1)}
    assert store.write(first, {"a": {"x": b"1"}}) == Versions(2, 1)
    assert store.write(first, {"a": {"x": b"1"}}, is_shared=False) == Versions(2, 2)
    assert store.versions([first, second]) == {first: (2, 2), second: (1, 1)}
    assert store.versions([]) == {}
    many = [secrets.token_hex(3) for _ in range(2_000)]
    assert store.versions([*many, first]) == {first: (2, 2)}


def test_nothing_is_written_where_a_value_is_not_as_expected(store: Store) -> None:
    code = new_code(store, a={"x": b"1"})
    for expected in (b"2", b"", None):
        with pytest.raises(Changed):
            store.write(code, {"b": {"y": b"1"}}, expected=Expectation("a", "x", expected))
    with pytest.raises(Changed):
        store.write(code, {"b": {"y": b"1"}}, expected=Expectation("a", "z", b"1"))
    assert (store.read(code, "b"), store.versions([code])[code]) == ({}, (1, 1))
    store.write(code, {"a": {"x": b"2"}}, expected=Expectation("a", "x", b"1"))
    store.write(code, {"a": {"z": b"3"}}, expected=Expectation("a", "z", None))
    assert store.read(code, "a") == {"x": b"2", "z": b"3"}


def test_a_section_has_a_limit_and_what_is_there_can_still_be_replaced(store: Store) -> None:
    code = new_code(store)
    store.write(code, {"a": {"x": b"1", "y": b"2"}}, most=2)
    with pytest.raises(TooMany, match="at most 2"):
        store.write(code, {"a": {"x": b"3", "z": b"3"}, "b": {"x": b"3"}}, most=2)
    assert (store.read(code, "a"), store.read(code, "b")) == ({"x": b"1", "y": b"2"}, {})
    store.write(code, {"a": {"x": b"4"}}, most=2)
    store.write(code, {"a": {"x": None, "z": b"5"}}, most=2)
    assert store.read(code, "a") == {"y": b"2", "z": b"5"}


def test_a_value_has_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    code = new_code(store)
    store.write(code, {"a": {"x": bytes(8 << 20)}})
    assert len(store.get(code, "a", "x") or b"") == 8 << 20
    with pytest.raises(ValueError, match="at most 8 MB"):
        store.write(code, {"a": {"x": bytes((8 << 20) + 1)}})


def test_there_is_a_limit_of_classes(store_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(store_address)
    module = sys.modules[type(store).__module__]
    store.delete_expired(time.time() + 10**6)
    monkeypatch.setattr(module, "MOST_CLASSES", 3)
    codes = [new_code(store) for _ in range(3)]
    with pytest.raises(TooMany, match="no more can be started"):
        new_code(store)
    store.delete(codes[0])
    new_code(store)


def test_what_is_deleted_is_gone(store: Store) -> None:
    code, other = new_code(store, a={"x": b"1"}), new_code(store, a={"x": b"2"})
    store.write(code, {"b": {"x": b"1"}})
    store.delete(code)
    store.delete(code)
    assert (store.versions([code]), store.read(code, "a"), store.read(code, "b")) == ({}, {}, {})
    assert store.read(other, "a") == {"x": b"2"}
    with pytest.raises(UnknownClass, match="There is no class"):
        store.write(code, {"a": {"x": b"1"}})
    assert store.read(code, "a") == {}
    assert store.create(code, {}, time.time() + 10)
    assert store.read(code, "b") == {}


def test_a_class_ends_at_its_time(store: Store) -> None:
    code, longer = new_code(store, ends=0.4, a={"x": b"1"}), new_code(store)
    store.write(code, {"b": {"x": b"1"}})
    until(lambda: code not in store.versions([code]))
    assert (store.read(code, "a"), store.read(code, "b"), store.count(code, "a")) == ({}, {}, 0)
    assert store.get(code, "a", "x") is None
    with pytest.raises(UnknownClass):
        store.write(code, {"a": {"x": b"1"}})
    store.delete_expired(time.time())
    assert longer in store.versions([longer])
    assert store.delete_expired(time.time() + 2_000) >= 1
    assert store.versions([longer]) == {}


def test_a_hundred_threads_vote_at_once(store_address: str, record_property) -> None:
    store = open_store(store_address)
    code, start = new_code(store, poll={"open": b"1"}), threading.Barrier(100)

    def vote(number: int) -> None:
        start.wait()
        store.write(
            code,
            {"answers": {str(number): b"%d" % number}},
            expected=Expectation("poll", "open", b"1"),
            most=100,
            is_shared=False,
        )

    with ThreadPoolExecutor(100) as threads:
        began = time.perf_counter()
        list(threads.map(vote, range(100)))
        took = time.perf_counter() - began
    assert store.read(code, "answers") == {str(number): b"%d" % number for number in range(100)}
    assert store.versions([code]) == {code: (1, 101)}
    record_property("100 votes at once, of 100 threads", f"{type(store).__name__:<12} {1000 * took:.0f} ms")


def test_one_of_many_who_change_a_value_at_once_succeeds(store: Store) -> None:
    code = new_code(store, a={"x": b"0"})

    def change(number: int) -> bool:
        try:
            store.write(code, {"a": {"x": b"%d" % number}}, expected=Expectation("a", "x", b"0"))
        except Changed:
            return False
        return True

    with ThreadPoolExecutor(20) as threads:
        assert sum(threads.map(change, range(1, 21))) == 1
    assert store.versions([code]) == {code: (2, 1)}


def voter(address: str, code: str, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", VOTER, address, code, str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_vote_at_once(store_address: str) -> None:
    store = open_store(store_address)
    code = new_code(store)
    voters = [voter(store_address, code, first, first + 60) for first in (0, 60, 120)]
    assert [process.communicate(timeout=60) and process.returncode for process in voters] == [0, 0, 0]
    assert store.read(code, "answers").keys() == {*map(str, range(180))}
    assert store.versions([code]) == {code: (1, 181)}


def test_every_acknowledged_answer_survives_a_process_that_is_killed(store_address: str) -> None:
    code = new_code(open_store(store_address))
    with voter(store_address, code, 0, 10**6) as process:
        assert process.stdout
        acknowledged = [process.stdout.readline() for _ in range(100)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.readlines()
    store = open_store(store_address)
    answers = store.read(code, "answers")
    names = {line.strip() for line in acknowledged if line.endswith("\n")}
    assert len(names) >= 100
    assert names <= answers.keys()
    assert len(answers) - len(names) <= 4  # written, and the process killed before it said so
    assert all(value == b"x" * (int(name) % 50) for name, value in answers.items())
    assert store.write(code, {"answers": {"after": b""}}, most=10**9).teacher == len(answers) - 1 + 1 + 1


def test_every_acknowledged_answer_survives_a_redis_server_that_is_killed(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        code = new_code(open_store(server.address))
        with voter(server.address, code, 0, 10**6) as process:
            assert process.stdout
            acknowledged = {process.stdout.readline() for _ in range(100)}
            server.process.kill()
            acknowledged |= {line for line in process.stdout.readlines() if line.endswith("\n")}
    with redis_server(tmp_path) as server:
        assert {line.strip() for line in acknowledged} <= open_store(server.address).read(code, "answers").keys()


def test_the_file_is_its_owners_and_made_when_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "classes.sqlite3"
    store = SqliteStore(path)
    assert not path.parent.exists()
    code = new_code(store, a={"x": b"secret answer " * 100})
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = [*path.parent.iterdir()]
    assert {file.name for file in files} == {path.name, f"{path.name}-wal", f"{path.name}-shm"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    store.delete(code)
    assert not any(b"secret answer" in file.read_bytes() for file in files)


def test_errors_of_the_file_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.sqlite3"
    path.write_text("This is no database. " * 100)
    with pytest.raises(
        StoreError, match=r"The classes in text.sqlite3 cannot be read or written: file is not a database"
    ):
        SqliteStore(path).versions(["A"])
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be read or written"):
        SqliteStore(tmp_path / "file" / "classes.sqlite3").read("A", "a")
    monkeypatch.setattr(sqlite_store, "LARGEST_FILE", 1 << 20)
    small = SqliteStore(tmp_path / "small.sqlite3")
    code = new_code(small, a={"x": b"1"})
    with pytest.raises(StoreError, match="full"):
        small.write(code, {"a": {"x": bytes(2 << 20)}})
    assert small.read(code, "a") == {"x": b"1"}
    assert small.write(code, {"a": {"x": b"2"}}) == (2, 1)


def test_a_file_of_another_process_that_writes_is_waited_for_or_an_error(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sqlite_store, "WAIT", 100)
    store = SqliteStore(tmp_path / "classes.sqlite3")
    code = new_code(store, a={"x": b"1"})
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert store.read(code, "a") == {"x": b"1"}
    with pytest.raises(StoreError, match="locked"):
        store.write(code, {"a": {"x": b"2"}})
    other.execute("ROLLBACK")
    assert store.write(code, {"a": {"x": b"2"}}) == (2, 1)


def test_errors_of_redis_are_sentences_without_its_address(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        with pytest.raises(StoreError, match="cannot be read or written") as refused:
            open_store(server.address.replace("redis://", "redis://me:secret@")).versions(["A"])
        assert "secret" not in str(refused.value)
        store = open_store(server.address)
        assert store.versions(["A"]) == {}
    with pytest.raises(StoreError, match="cannot be read or written") as refused:
        store.versions(["A"])
    assert "127.0.0.1" not in str(refused.value)
    with redis_server(tmp_path, server.port):
        assert store.versions(["A"]) == {}


@pytest.mark.parametrize(
    "address",
    ["", "  ", "mysql://host/classes", "sqlite://classes", "redis://host:port", "/", "a\0b"],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="ATTNVIZ_CLASS_STORE must be"):
        open_store(address)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="ATTNVIZ_CLASS_STORE must be") as refused:
        open_store("postgres://me:secret@host/classes")
    assert "secret" not in str(refused.value)


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ImportError, match=r"A store of classes in Redis needs redis.*Install with: .*\[redis\]"):
        open_store("redis://localhost:6379")


def test_a_path_may_start_in_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for address in ("~/a/classes.sqlite3", "sqlite:///~/a/classes.sqlite3", f"sqlite://{tmp_path}/a/classes.sqlite3"):
        assert open_store(address).path == tmp_path / "a" / "classes.sqlite3"
