"""Classes in Redis, which several servers share."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attnviz.classroom.store import Part, StoreError, UnknownClass, Version
from attnviz.extras import check_installed

WAIT = 5.0  # seconds for an answer


class RedisStore:
    """A store at an address of Redis. A class is a hash of its versions, and one of each group; all of them expire."""

    def __init__(self, address: str) -> None:
        check_installed("redis", "A store at redis://")
        import redis

        self._errors = redis.RedisError
        self._watch_error = redis.WatchError
        try:
            self._redis: Any = redis.Redis.from_url(address, socket_timeout=WAIT, socket_connect_timeout=WAIT)
        except ValueError as problem:
            raise ValueError(f"ATTNVIZ_CLASS_STORE is no address of Redis: {problem}.") from problem

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except self._errors as problem:
            raise StoreError(f"Redis fails: {problem}.") from problem

    def create(self, code: str, values: Mapping[str, bytes], expires: float) -> bool:
        with self._reported():
            until = round(1000 * expires)
            if not self._redis.set(_key(code, "taken"), b"", nx=True, pxat=until):
                return False
            with self._redis.pipeline() as pipe:
                pipe.hset(_key(code), mapping={"state": 0, "panel": 0, "expires": repr(expires)})
                pipe.hset(_key(code, "class"), mapping=dict(values))
                pipe.sadd(_key(code, "groups"), "taken", "groups", "class")
                for key in (_key(code), _key(code, "class"), _key(code, "groups")):
                    pipe.pexpireat(key, until)
                pipe.execute()
            return True

    def read(self, code: str, group: str) -> dict[str, bytes]:
        with self._reported():
            values = self._redis.hgetall(_key(code, group))
            order = {name: i for i, name in enumerate(self._redis.lrange(_key(code, f"{group} order"), 0, -1))}
        names = sorted(values, key=lambda name: order.get(name, len(order)))
        return {name.decode(): values[name] for name in names}

    def get(self, code: str, group: str, field: str) -> bytes | None:
        with self._reported():
            value = self._redis.hget(_key(code, group), field)
        return None if value is None else bytes(value)

    def fields(self, code: str, group: str) -> list[str]:
        with self._reported():
            return [name.decode() for name in self._redis.hkeys(_key(code, group))]

    def count(self, code: str, group: str) -> int:
        with self._reported():
            return int(self._redis.hlen(_key(code, group)))

    def write(self, code: str, group: str, values: Mapping[str, bytes | None], part: Part, most: int) -> None:
        def change(pipe: Any) -> None:
            known = {name.decode() for name in pipe.hkeys(_key(code, group))}
            added = [field for field, value in values.items() if value is not None and field not in known]
            removed = [field for field, value in values.items() if value is None]
            if len(known.union(added).difference(removed)) > most:
                raise ValueError(f"There may be {most} of them at most.")
            pipe.multi()
            for field, value in values.items():
                if value is not None:
                    pipe.hset(_key(code, group), field, value)
            if added:
                pipe.rpush(_key(code, f"{group} order"), *added)
            for field in removed:
                pipe.hdel(_key(code, group), field)
                pipe.lrem(_key(code, f"{group} order"), 0, field)

        self._change(code, group, part, change)

    def swap(self, code: str, group: str, field: str, before: bytes | None, after: bytes, part: Part) -> bool:
        def change(pipe: Any) -> bool:
            if pipe.hget(_key(code, group), field) != before:
                return False
            pipe.multi()
            pipe.hset(_key(code, group), field, after)
            return True

        return self._change(code, group, part, change) is not False

    def _change(self, code: str, group: str, part: Part, change: Callable[[Any], bool | None]) -> bool | None:
        """Reads and writes a group as one transaction, again if another one came between; False changes nothing."""
        with self._reported(), self._redis.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(_key(code), _key(code, group))
                    expires = pipe.hget(_key(code), "expires")
                    if expires is None:
                        raise UnknownClass(f"There is no class {code} any more.")
                    if (done := change(pipe)) is False:
                        return False
                    pipe.hincrby(_key(code), part, 1)
                    pipe.sadd(_key(code, "groups"), group, f"{group} order")
                    for key in (_key(code, group), _key(code, f"{group} order")):
                        pipe.pexpireat(key, round(1000 * float(expires)))
                    pipe.execute()
                    return done
                except self._watch_error:
                    continue

    def versions(self, codes: Collection[str]) -> dict[str, Version]:
        with self._reported(), self._redis.pipeline(transaction=False) as pipe:
            for code in codes:
                pipe.hmget(_key(code), "state", "panel")
            counts = pipe.execute()
        return {
            code: Version(int(state), int(panel))
            for code, (state, panel) in zip(codes, counts, strict=True)
            if state is not None and panel is not None
        }

    def delete(self, code: str) -> None:
        with self._reported():
            groups = [name.decode() for name in self._redis.smembers(_key(code, "groups"))]
            self._redis.delete(_key(code), *(_key(code, group) for group in groups))


def _key(code: str, group: str | None = None) -> str:
    return f"attnviz:{code}" if group is None else f"attnviz:{code}:{group}"
