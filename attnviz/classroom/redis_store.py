"""Live classes in Redis, or Valkey, which several machines share."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis

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

ALL = "attnviz:classes"  # a sorted set: codes by the time of their end
CONNECTIONS = 32
WAIT = 10  # seconds for an answer, or for a connection that others use

# Each script is one transaction. A class is a hash of its versions and its end, a set of the names of its sections, and
# a hash for each section; all of them end with the class.
PUT = """
local function put(key, name, kind, value)
    if kind == '1' then redis.call('HSET', key, name, value) else redis.call('HDEL', key, name) end
end
"""
CREATE = (
    PUT
    + """
local all, class, sections = KEYS[1], KEYS[2], KEYS[3]
local code, expires, now, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
if redis.call('EXISTS', class) == 1 then return 0 end
if redis.call('ZCARD', all) >= most then return -1 end
redis.call('ZADD', all, expires, code)
redis.call('HSET', class, 'shared', 1, 'teacher', 1, 'expires', expires)
for i = 5, #ARGV, 4 do
    local key = KEYS[tonumber(ARGV[i])]
    put(key, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    redis.call('SADD', sections, key)
end
for i = 2, #KEYS do redis.call('PEXPIREAT', KEYS[i], expires) end
return 1
"""
)
WRITE = (
    PUT
    + """
local class, sections, expected = KEYS[1], KEYS[2], KEYS[3]
local most, version, expectation = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local expires = redis.call('HGET', class, 'expires')
if not expires then return 'unknown' end
if expectation ~= 'any' then
    local value = redis.call('HGET', expected, ARGV[4])
    if expectation == 'absent' then
        if value then return 'changed' end
    elseif value ~= ARGV[5] then return 'changed' end
end
local growth = {}
for i = 6, #ARGV, 4 do
    local key, put_it = KEYS[tonumber(ARGV[i])], ARGV[i + 2] == '1'
    local exists = redis.call('HEXISTS', key, ARGV[i + 1]) == 1
    if put_it ~= exists then growth[key] = (growth[key] or 0) + (put_it and 1 or -1) end
end
for key, more in pairs(growth) do
    if more > 0 and redis.call('HLEN', key) + more > most then return 'full' end
end
for i = 6, #ARGV, 4 do
    local key = KEYS[tonumber(ARGV[i])]
    put(key, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    if redis.call('SADD', sections, key) == 1 then redis.call('PEXPIREAT', sections, expires) end
    redis.call('PEXPIREAT', key, expires)
end
redis.call('HINCRBY', class, version, 1)
return redis.call('HMGET', class, 'shared', 'teacher')
"""
)
DELETE = """
for _, key in ipairs(redis.call('SMEMBERS', KEYS[3])) do redis.call('DEL', key) end
redis.call('DEL', KEYS[2], KEYS[3])
return redis.call('ZREM', KEYS[1], ARGV[1])
"""


class RedisStore:
    """Classes in Redis at an address such as redis://host:6379/0; deleted by Redis itself when they end.

    Raises ValueError if the address is not valid. Redis's own setting `appendonly` says what survives its restart.
    """

    def __init__(self, address: str) -> None:
        try:
            pool = redis.BlockingConnectionPool.from_url(
                address, max_connections=CONNECTIONS, timeout=WAIT, socket_timeout=WAIT, socket_connect_timeout=WAIT
            )
        except ValueError as problem:
            raise ValueError("ATTNVIZ_CLASS_STORE must be an address such as redis://host:6379/0.") from problem
        self._redis: Any = redis.Redis(connection_pool=pool)
        self._create, self._write, self._delete = map(self._redis.register_script, (CREATE, WRITE, DELETE))

    def create(self, code: str, sections: Mapping[str, Values], expires: float) -> bool:
        check_sizes(sections)
        keys, values = _arguments(code, [ALL, *_keys(code)], sections)
        with _sentences():
            created = self._create(keys, [code, _ms(expires), _ms(time.time()), MOST_CLASSES, *values])
        if created < 0:
            raise full_store()
        return bool(created)

    def read(self, code: str, section: str) -> dict[str, bytes]:
        with _sentences():
            return {name.decode(): value for name, value in self._redis.hgetall(_section(code, section)).items()}

    def get(self, code: str, section: str, name: str) -> bytes | None:
        with _sentences():
            return self._redis.hget(_section(code, section), name)

    def count(self, code: str, section: str) -> int:
        with _sentences():
            return self._redis.hlen(_section(code, section))

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
        one = expected or Expectation("", "", b"")
        keys, values = _arguments(code, [*_keys(code), _section(code, one.section)], sections)
        kind = "any" if expected is None else "absent" if expected.value is None else "equal"
        version = "shared" if is_shared else "teacher"
        with _sentences():
            result = self._write(keys, [most, version, kind, one.name, one.value or b"", *values])
        match result:
            case b"unknown":
                raise UnknownClass(code)
            case b"changed":
                raise Changed(_("This has changed in the meantime. Try again."))
            case b"full":
                raise full_section(most)
        return Versions(*map(int, result))

    def versions(self, codes: Iterable[str]) -> dict[str, Versions]:
        listed = [*codes]
        with _sentences():
            pipeline = self._redis.pipeline(transaction=False)
            for code in listed:
                pipeline.hmget(_keys(code)[0], "shared", "teacher")
            both = pipeline.execute()
        return {code: Versions(*map(int, one)) for code, one in zip(listed, both, strict=True) if None not in one}

    def delete(self, code: str) -> None:
        with _sentences():
            self._delete([ALL, *_keys(code)], [code])

    def delete_expired(self, now: float) -> int:
        with _sentences():
            codes = self._redis.zrangebyscore(ALL, "-inf", _ms(now))
            return sum(self._delete([ALL, *_keys(code.decode())], [code]) for code in codes)


def _keys(code: str) -> list[str]:
    """The keys of a class: its versions, and the set of its sections."""
    return [f"attnviz:{{{code}}}", f"attnviz:{{{code}}}:sections"]


def _section(code: str, section: str) -> str:
    return f"attnviz:{{{code}}}/{section}"


def _arguments(code: str, keys: list[str], sections: Mapping[str, Values]) -> tuple[list[str], list[Any]]:
    """The keys of a script, with those of the sections at the end, and for each value the number of its key, its name,
    whether it is put or deleted, and the value itself."""
    values: list[Any] = []
    for number, (section, named) in enumerate(sections.items(), len(keys) + 1):
        keys = [*keys, _section(code, section)]
        for name, value in named.items():
            values += [number, name, 0 if value is None else 1, value or b""]
    return keys, values


def _ms(seconds: float) -> int:
    return round(1000 * seconds)


@contextmanager
def _sentences() -> Iterator[None]:
    """Errors of Redis as sentences, without its address, which may hold a password."""
    try:
        yield
    except redis.RedisError as problem:
        reason = re.sub(r"\S+:\d+\.?", "the server", str(problem))[:200]
        raise StoreError(_("The classes in Redis cannot be read or written: {reason}", reason=reason)) from problem
