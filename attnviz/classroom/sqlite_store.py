"""Live classes in one SQLite file."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attnviz.base.language import _
from attnviz.classroom.store import (
    MOST_CLASSES,
    Changed,
    Expectation,
    StoreError,
    UnknownClass,
    Values,
    Versions,
    check_sizes,
    full_section,
    full_store,
)

LARGEST_FILE = 2 << 30  # bytes
WAIT = 10_000  # ms for the write of another process
SCHEMA = """
CREATE TABLE IF NOT EXISTS classes (
    code TEXT PRIMARY KEY, expires REAL NOT NULL, shared INTEGER NOT NULL DEFAULT 1, teacher INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS class_values (
    code TEXT NOT NULL REFERENCES classes ON DELETE CASCADE, section TEXT NOT NULL, name TEXT NOT NULL,
    value BLOB NOT NULL, PRIMARY KEY (code, section, name)
);
"""
LIVE = "FROM class_values JOIN classes USING (code) WHERE expires > ? AND code = ? AND section = ?"


class SqliteStore:
    """Classes in a SQLite file, which is created with its folder when it is first used.

    A write that has returned survives the end of the process and of the machine. Threads and processes of one machine
    may share the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None

    def create(self, code: str, sections: Mapping[str, Values], expires: float) -> bool:
        check_sizes(sections)
        now = time.time()
        with self._transaction() as cursor:
            self._delete_expired(cursor, now)
            if cursor.execute("SELECT 1 FROM classes WHERE code = ?", (code,)).fetchone():
                return False
            if cursor.execute("SELECT count(*) FROM classes").fetchone()[0] >= MOST_CLASSES:
                raise full_store()
            cursor.execute("INSERT INTO classes (code, expires) VALUES (?, ?)", (code, expires))
            self._put(cursor, code, sections)
        return True

    def read(self, code: str, section: str) -> dict[str, bytes]:
        return dict(self._rows(f"SELECT name, value {LIVE}", time.time(), code, section))

    def get(self, code: str, section: str, name: str) -> bytes | None:
        rows = self._rows(f"SELECT value {LIVE} AND name = ?", time.time(), code, section, name)
        return rows[0][0] if rows else None

    def count(self, code: str, section: str) -> int:
        return self._rows(f"SELECT count(*) {LIVE}", time.time(), code, section)[0][0]

    def write(
        self,
        code: str,
        sections: Mapping[str, Values],
        *,
        expected: Expectation | None = None,
        most: int = 1_000,
        is_shared: bool = True,
    ) -> Versions:
        check_sizes(sections)
        with self._transaction() as cursor:
            alive = "SELECT shared, teacher FROM classes WHERE expires > ? AND code = ?"
            row = cursor.execute(alive, (time.time(), code)).fetchone()
            if not row:
                raise UnknownClass(code)
            if expected:
                one = "SELECT value FROM class_values WHERE code = ? AND section = ? AND name = ?"
                stored = cursor.execute(one, (code, expected.section, expected.name)).fetchone()
                if (stored and stored[0]) != expected.value:
                    raise Changed(_("This has changed in the meantime. Try again."))
            self._put(cursor, code, sections)
            for section in sections:
                count = "SELECT count(*) FROM class_values WHERE code = ? AND section = ?"
                if cursor.execute(count, (code, section)).fetchone()[0] > most:
                    raise full_section(most)
            versions = Versions(row[0] + is_shared, row[1] + (not is_shared))
            cursor.execute("UPDATE classes SET shared = ?, teacher = ? WHERE code = ?", (*versions, code))
        return versions

    def versions(self, codes: Iterable[str]) -> dict[str, Versions]:
        query = (
            "SELECT code, shared, teacher FROM classes WHERE expires > ? AND code IN (SELECT value FROM json_each(?))"
        )
        return {code: Versions(*both) for code, *both in self._rows(query, time.time(), json.dumps([*codes]))}

    def delete(self, code: str) -> None:
        with self._transaction() as cursor:
            cursor.execute("DELETE FROM classes WHERE code = ?", (code,))
        self._empty_log()

    def delete_expired(self, now: float) -> int:
        with self._transaction() as cursor:
            deleted = self._delete_expired(cursor, now)
        if deleted:
            self._empty_log()
        return deleted

    def _put(self, cursor: sqlite3.Cursor, code: str, sections: Mapping[str, Values]) -> None:
        rows = [(code, section, name, value) for section, values in sections.items() for name, value in values.items()]
        cursor.executemany(
            "DELETE FROM class_values WHERE code = ? AND section = ? AND name = ?",
            [row[:3] for row in rows if row[3] is None],
        )
        cursor.executemany(
            "INSERT INTO class_values VALUES (?, ?, ?, ?)"
            " ON CONFLICT (code, section, name) DO UPDATE SET value = excluded.value",
            [row for row in rows if row[3] is not None],
        )

    def _delete_expired(self, cursor: sqlite3.Cursor, now: float) -> int:
        return cursor.execute("DELETE FROM classes WHERE expires <= ?", (now,)).rowcount

    def _empty_log(self) -> None:
        """Removes what was deleted from the write-ahead log, too; another process that reads just now may keep it
        there until the next time."""
        with self._writing, _sentences(self.path):
            self._connection("_writer").execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _rows(self, query: str, *values: object) -> list:
        with self._reading, _sentences(self.path):
            return self._connection("_reader").execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        """A write: all of it, or on any error nothing of it."""
        with self._writing, _sentences(self.path):
            connection = self._connection("_writer")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection.cursor()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _connection(self, name: str) -> sqlite3.Connection:
        """Returns the connection for reading or writing: two, so that a read does not wait for a write to the disk."""
        connection = getattr(self, name)
        if connection is None:
            connection = _connect(self.path)
            setattr(self, name, connection)
        return connection


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite's other files have the mode of this one
    connection = sqlite3.connect(path, timeout=WAIT / 1000, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {setting}").fetchall()
        [page] = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA max_page_count = {LARGEST_FILE // page}").fetchall()
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = 1; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the file as sentences."""
    try:
        yield
    except (sqlite3.Error, OSError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise StoreError(
            _("The classes in {name} cannot be read or written: {reason}.", name=path.name, reason=reason)
        ) from problem
