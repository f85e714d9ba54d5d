"""trace.json: what is in a trace, without its numbers."""

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from attnviz.bounded_json import read_object
from attnviz.formatting import quoted
from attnviz.layer import LayerId
from attnviz.patch_grid import PatchGrid
from attnviz.trace.layer_file import check_regular

NAME = "trace.json"
FORMAT, VERSION = "attnviz trace", 1
MOST_BYTES = 48 << 20  # of trace.json, where a million tokens take about 16
MOST_LAYERS = 2_048
MOST_TOKENS = 1 << 20  # as many positions as masks are made for
LONGEST_SENTENCE = 2_000


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Writes trace.json so that a process that is killed leaves the whole old one or the whole new one."""
    draft = folder / f"{NAME}.draft"
    draft.write_text(json.dumps({"format": FORMAT, "version": VERSION, **content}, ensure_ascii=False), "utf-8")
    os.replace(draft, folder / NAME)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns the content of trace.json. Raises ValueError if it is not valid, or of a later version."""
    check_regular(folder / NAME)
    content = read_object(folder / NAME, MOST_BYTES)
    version = content.get("version")
    if content.get("format") != FORMAT or type(version) is not int or version < 1:
        raise ValueError(f"{NAME} is not that of a trace. Choose a folder that attnviz capture has written.")
    if version > VERSION:
        raise ValueError(
            f"This trace was written by a later version of attnviz: its format is {quoted(version)}, and {VERSION} is "
            "the latest that is read here. Update attnviz."
        )
    return content


def list_of(content: dict[str, Any], name: str, kind: type, most: int) -> list[Any]:
    """Returns a list in the manifest. Raises ValueError if it is not a list of this type, or too long."""
    values = content.get(name)
    if not isinstance(values, list) or len(values) > most or not all(type(value) is kind for value in values):
        raise ValueError(f"{NAME} must have {name} as a list of at most {most:,}. Capture it again.")
    return values


def text_of(content: dict[str, Any], name: str) -> str:
    """Returns a text in the manifest, which may be missing. Raises ValueError if it is too long."""
    text = content.get(name, "")
    if not isinstance(text, str) or len(text) > LONGEST_SENTENCE:
        raise ValueError(f"{NAME} must have {name} as a text of at most {LONGEST_SENTENCE:,} characters.")
    return valid_text(text)


def valid_text(text: str) -> str:
    """Returns a text without half characters, which cannot be sent to a browser."""
    return text.encode(errors="replace").decode()


def parse_grid(described: object) -> PatchGrid | None:
    """Returns the grid of the patches of an axis, None if it has none. Raises ValueError if it is damaged."""
    if described is None:
        return None
    values = described if isinstance(described, dict) else {}
    rows, columns = values.get("rows"), values.get("columns")
    if type(rows) is not int or type(columns) is not int:
        raise ValueError(f"{NAME} has a grid of patches without rows and columns. Capture it again.")
    return PatchGrid(rows, columns, tuple(list_of(values, "positions", int, MOST_TOKENS)))


def parse_id(described: object) -> LayerId:
    """Returns the id of a layer. Raises ValueError if it is not valid."""
    values = dict(described) if isinstance(described, dict) else {}
    index, subs, occurrence = values.get("index"), values.get("sub_indices", []), values.get("occurrence")
    is_valid = (
        isinstance(values.get("stack"), str)
        and isinstance(index, int | str | None)
        and isinstance(subs, list)
        and all(isinstance(one, int) for one in subs)
        and isinstance(values.get("cross"), bool)
        and isinstance(occurrence, int | None)
        and values.keys() == {one.name for one in fields(LayerId)}
        and len(json.dumps(values)) <= LONGEST_SENTENCE
    )
    if not is_valid:
        raise ValueError(f"{NAME} has a layer without a valid id. Capture it again.")
    stack, index = valid_text(values["stack"]), valid_text(index) if isinstance(index, str) else index
    return LayerId(stack, index, values["cross"], tuple(subs), occurrence)
