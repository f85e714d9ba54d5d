"""Classes in a file of SQLite, which all processes of one machine may share."""

import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attnviz.classroom.store import Part, StoreError, UnknownClass, Version

WAIT = 10.0  # seconds for another process that writes
SCHEMA = """
CREATE TABLE IF NOT EXISTS classes (
    code TEXT PRIMARY KEY, expires REAL NOT NULL, state INTEGER NOT NULL DEFAULT 0, panel INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, code TEXT NOT NULL REFERENCES classes ON DELETE CASCADE, part TEXT NOT NULL,
    field TEXT NOT NULL, value BLOB NOT NULL, UNIQUE (code, part, field)
);
"""
COUNT = {
    "state": "UPDATE classes SET state = state + 1 WHERE code = ? AND expires > ?",
    "panel": "UPDATE classes SET panel = panel + 1 WHERE code = ? AND expires > ?",
}
PUT = """
INSERT INTO entries (code, part, field, value) VALUES (?, ?, ?, ?)
ON CONFLICT (code, part, field) DO UPDATE SET value = excluded.value
"""
LIVE = "(SELECT code FROM classes WHERE code = ? AND expires > ?)"


class SQLiteStore:
    """A store in a file, which is made if it is not there, for its owner alone."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
            # What a write has acknowledged is on the disk.
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
                self._connection.execute(f"PRAGMA {setting}").fetchall()
            self._connection.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as problem:
            raise StoreError(f"{path} cannot be opened: {problem}.") from problem

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._connection.execute(f"BEGIN {kind}")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.Error as problem:
                raise StoreError(f"The file of classes fails: {problem}.") from problem

    def create(self, code: str, values: Mapping[str, bytes], expires: float) -> bool:
        with self._transaction() as connection:
            connection.execute("DELETE FROM classes WHERE expires <= ?", (time.time(),))
            added = connection.execute("INSERT OR IGNORE INTO classes (code, expires) VALUES (?, ?)", (code, expires))
            if added.rowcount:
                connection.executemany(PUT, ((code, "class", field, value) for field, value in values.items()))
            return bool(added.rowcount)

    def read(self, code: str, group: str) -> dict[str, bytes]:
        query = f"SELECT field, value FROM entries WHERE code IN {LIVE} AND part = ? ORDER BY number"  # noqa: S608
        with self._transaction("DEFERRED") as connection:
            return dict(connection.execute(query, (code, time.time(), group)))

    def get(self, code: str, group: str, field: str) -> bytes | None:
        query = f"SELECT value FROM entries WHERE code IN {LIVE} AND part = ? AND field = ?"  # noqa: S608
        with self._transaction("DEFERRED") as connection:
            row = connection.execute(query, (code, time.time(), group, field)).fetchone()
        return row[0] if row else None

    def fields(self, code: str, group: str) -> list[str]:
        query = "SELECT field FROM entries WHERE code = ? AND part = ?"
        with self._transaction("DEFERRED") as connection:
            return [name for (name,) in connection.execute(query, (code, group))]

    def count(self, code: str, group: str) -> int:
        with self._transaction("DEFERRED") as connection:
            return self._count(connection, code, group)

    def write(self, code: str, group: str, values: Mapping[str, bytes | None], part: Part, most: int) -> None:
        with self._transaction() as connection:
            self._touch(connection, code, part)
            for field, value in values.items():
                if value is None:
                    key = (code, group, field)
                    connection.execute("DELETE FROM entries WHERE code = ? AND part = ? AND field = ?", key)
                else:
                    connection.execute(PUT, (code, group, field, value))
            if self._count(connection, code, group) > most:
                raise ValueError(f"There may be {most} of them at most.")

    def swap(self, code: str, group: str, field: str, before: bytes | None, after: bytes, part: Part) -> bool:
        with self._transaction() as connection:
            self._touch(connection, code, part)
            query = "SELECT value FROM entries WHERE code = ? AND part = ? AND field = ?"
            row = connection.execute(query, (code, group, field)).fetchone()
            if (row[0] if row else None) != before:
                return False
            connection.execute(PUT, (code, group, field, after))
            return True

    def versions(self, codes: Collection[str]) -> dict[str, Version]:
        marks = ", ".join("?" * len(codes))
        query = f"SELECT code, state, panel FROM classes WHERE code IN ({marks}) AND expires > ?"  # noqa: S608
        with self._transaction("DEFERRED") as connection:
            return {code: Version(*counts) for code, *counts in connection.execute(query, (*codes, time.time()))}

    def delete(self, code: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM classes WHERE code = ?", (code,))

    def _touch(self, connection: sqlite3.Connection, code: str, part: Part) -> None:
        if not connection.execute(COUNT[part], (code, time.time())).rowcount:
            raise UnknownClass(f"There is no class {code} any more.")

    def _count(self, connection: sqlite3.Connection, code: str, group: str) -> int:
        query = "SELECT count(*) FROM entries WHERE code = ? AND part = ?"
        return int(connection.execute(query, (code, group)).fetchone()[0])
