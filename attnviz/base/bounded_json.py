"""Untrusted JSON, read with limits of size and depth."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import value_error

CONFIG_BYTES = 1 << 20
MAX_DEPTH = 16  # of parts within parts


def read_json(path: Path, max_bytes: int) -> Any:
    """Returns the content of a JSON file of at most `max_bytes`. Raises ValueError if it is larger or damaged."""
    try:
        size = path.stat().st_size
        content = json.loads(path.read_text(encoding="utf-8")) if size <= max_bytes else None
    except (ValueError, RecursionError, OSError) as error:
        raise value_error(
            "{name} is not valid JSON: it was damaged or cut off. Save it again.", name=quoted(path.name)
        ) from error
    if size > max_bytes:
        raise value_error(
            "{name} has {size} bytes; at most {max_bytes} are read.",
            name=quoted(path.name),
            size=grouped(size),
            max_bytes=grouped(max_bytes),
        )
    return content


def read_object(path: Path, max_bytes: int) -> dict[str, Any]:
    """Returns the object in a JSON file, as `read_json`. Raises ValueError if it is not an object."""
    content = read_json(path, max_bytes)
    if not isinstance(content, dict):
        raise value_error("{name} holds no object with names. Save it again.", name=quoted(path.name))
    return content


def nested_objects(content: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yields a config and the configs of its parts. Raises ValueError if they are nested too deeply."""
    if depth > MAX_DEPTH:
        raise value_error(
            "config.json has parts within parts, more than {MAX_DEPTH} deep. No model has that many.",
            MAX_DEPTH=MAX_DEPTH,
        )
    if isinstance(content, dict):
        yield content
    if isinstance(content, dict | list):
        parts = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in parts:
            if key not in ("id2label", "label2id"):  # whose names may be any
                yield from nested_objects(value, depth + 1)
