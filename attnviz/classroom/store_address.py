"""Opens the store of live classes at an address."""

import re
from pathlib import Path

from attnviz.base.extras import check_installed
from attnviz.base.formatting import quoted
from attnviz.classroom.sqlite_store import SqliteStore
from attnviz.classroom.store import Store


def open_store(address: str) -> Store:
    """Returns the store at an address: a path or sqlite:///path for a file, redis://host:port or rediss://… for Redis.

    Raises ValueError for another address, and ImportError, with the command that installs it, if redis is missing.

    Example:
        >>> open_store("sqlite:///home/me/classes.sqlite3").path
        PosixPath('/home/me/classes.sqlite3')
    """
    scheme, separator, rest = address.strip().partition("://")
    if scheme in ("redis", "rediss"):
        check_installed("redis", "A store of classes in Redis")
        from attnviz.classroom.redis_store import RedisStore

        return RedisStore(address.strip())
    if not separator:
        path = address.strip()
    elif scheme == "sqlite" and rest.startswith("/"):
        path = rest.replace("/~/", "~/", 1) if rest.startswith("/~/") else rest
    else:
        path = ""
    if not path or "\0" in path or not re.search(r"[^/.~]", path):
        raise ValueError(
            "ATTNVIZ_CLASS_STORE must be a path, sqlite:///path or redis://host:port; "
            f"it is {quoted(hide_password(address))}."
        )
    return SqliteStore(Path(path).expanduser())


def hide_password(address: str) -> str:
    """Returns an address without its user and password.

    Example:
        >>> hide_password("redis://me:secret@host:6379/0")
        'redis://…@host:6379/0'
    """
    return re.sub(r"(?<=://)[^/]*@", "…@", address)
