"""trace.json: what is in a trace, without its numbers."""

import json
import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from attnviz.base.bounded_json import read_object
from attnviz.base.formatting import enumeration, quoted, short_repr
from attnviz.base.text import shorten_token
from attnviz.inputs import MOST_IMAGES, Box, PatchGrid
from attnviz.layer import LayerId
from attnviz.trace.layer_file import check_regular
from attnviz.trace.problems import TracePlace
from attnviz.trace.schema import AXIS, FORMAT, GRID, ID, LONGEST_SENTENCE, MOST_BYTES, MOST_TOKENS, VERSION

NAME = "trace.json"
Member = TypeVar("Member", bound=StrEnum)
TYPES = {str: "texts", int: "whole numbers", dict: "objects"}
# Tokens, positions of special ones, ids, and the grids of images' patches.
TokenAxis = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[PatchGrid, ...]]


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
        raise ValueError(
            f'This is not the {NAME} of a trace: that has "format": "{FORMAT}" and "version": {VERSION}. Choose a '
            "folder that attnviz capture has written, or write these."
        )
    if version > VERSION:
        raise ValueError(
            f"This trace was written by a later version of attnviz: its format is {quoted(version)}, and {VERSION} is "
            "the latest that is read here. Update attnviz."
        )
    return content


def parse_list(values: object, kind: type, most: int) -> list[Any]:
    """Returns a list. Raises ValueError if it is not a list of this type, or too long."""
    if not isinstance(values, list):
        actual = f"it is {short_repr(values)}"
    elif len(values) > most:
        actual = f"it has {len(values):,}"
    elif (wrong := next((i for i, value in enumerate(values) if type(value) is not kind), None)) is not None:
        actual = f"item {wrong:,} is {short_repr(values[wrong])}"
    else:
        return values
    raise ValueError(f"It must be a list of at most {most:,} {TYPES[kind]}; {actual}.")


def parse_text(text: object) -> str:
    """Returns a text. Raises ValueError if it is too long."""
    if not isinstance(text, str) or len(text) > LONGEST_SENTENCE:
        actual = f"has {len(text):,}" if isinstance(text, str) else f"is {short_repr(text)}"
        raise ValueError(f"It must be a text of at most {LONGEST_SENTENCE:,} characters; it {actual}.")
    return valid_text(text)


def parse_choice(value: object, kind: type[Member]) -> Member:
    """Returns a member of an enum. Raises ValueError if there is none of this value."""
    if not isinstance(value, str) or value not in [*kind]:
        raise ValueError(f"It must be {enumeration([*kind], 'or')}; it is {quoted(value)}.")
    return kind(value)


def parse_optional_choice(value: object, kind: type[Member]) -> Member | None:
    """Returns a member of an enum, or None."""
    return None if value is None else parse_choice(value, kind)


def parse_tokens(values: object) -> tuple[str, ...]:
    """Returns the tokens of an axis, each with at most 200 characters."""
    return tuple(shorten_token(valid_text(token)) for token in parse_list(values, str, MOST_TOKENS))


def parse_positions(values: object, tokens: Iterable[str]) -> tuple[int, ...]:
    """Returns positions of tokens. Raises ValueError if there is no such token."""
    positions, count = parse_list(values, int, MOST_TOKENS), len([*tokens])
    if wrong := [position for position in positions if not 0 <= position < count]:
        raise ValueError(f"There is no token {short_repr(wrong[0])}: the axis has {count:,}, counted from 0.")
    return tuple(positions)


def parse_axis(described: object, place: TracePlace) -> TokenAxis | None:
    """Returns an axis, or None if a part of it is a problem."""
    before, values = len(place.refusals), place.fields(described, AXIS)
    tokens = place.read(values, "tokens", parse_tokens) or ()
    special = place.read(values, "special", parse_positions, tokens) if tokens else ()
    ids = place.read(values, "ids", parse_list, int, MOST_TOKENS) or ()
    grids = place.read(values, "grid", _grid_list) or []
    if isinstance(values.get("grid"), list):
        parsed = [_parse_grid(grid, place.inside(f"grid[{number}]")) for number, grid in enumerate(grids)]
    else:
        parsed = [_parse_grid(grid, place.inside("grid")) for grid in grids]
    return None if len(place.refusals) > before else (tokens, special or (), tuple(ids), tuple(filter(None, parsed)))


def _grid_list(value: object) -> list[Any]:
    """Returns the grids of a list, or the only one, as it was written before there were several."""
    return parse_list(value, dict, MOST_TOKENS) if isinstance(value, list) else [] if value is None else [value]


def _parse_grid(described: object, place: TracePlace) -> PatchGrid | None:
    values = place.fields(described, GRID)
    rows, columns, image = (place.read(values, name, _parse_size) for name in ("rows", "columns", "image"))
    tile = None if values.get("tile") is None else place.read(values, "tile", _parse_size)
    positions = place.read(values, "positions", parse_list, int, MOST_TOKENS)
    box = place.read(values, "box", _parse_box)
    if rows is None or columns is None or positions is None or box is None or image is None:
        return None
    return place.attempt(PatchGrid, rows, columns, tuple(positions), box, image, tile)


def _parse_box(values: object) -> Box:
    numbers: list[Any] = values if isinstance(values, list) and len(values) == 4 else [None]
    if not all(type(one) in (int, float) and abs(one) < MOST_IMAGES for one in numbers):
        raise ValueError(f"It must be a list of 4 finite numbers; it is {short_repr(values)}.")
    left, top, right, bottom = map(float, numbers)
    return left, top, right, bottom


def _parse_size(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"It must be a whole number; it is {short_repr(value)}.")
    return value


def parse_id(described: object, number: int, place: TracePlace) -> LayerId | None:
    """Returns the id of a layer, which has a number in the list, or None if it is a problem."""
    if described is None:
        return LayerId(index=number)
    return place.attempt(_parse_id, place.fields(described, ID))


def _parse_id(values: dict[str, Any]) -> LayerId | None:
    if not values:  # the object is a problem itself
        return None
    index, subs, occurrence = values["index"], values["sub_indices"], values["occurrence"]
    is_valid = (
        isinstance(values["stack"], str)
        and isinstance(index, int | str | None)
        and isinstance(subs, list)
        and all(isinstance(one, int) for one in subs)
        and isinstance(values["cross"], bool)
        and isinstance(occurrence, int | None)
        and len(json.dumps(values)) <= LONGEST_SENTENCE
    )
    if not is_valid:
        raise ValueError(
            "It is not a valid id. Give a stack as a text, an index as a number or a text, and numbers as sub_indices "
            "and occurrence."
        )
    stack, index = valid_text(values["stack"]), valid_text(index) if isinstance(index, str) else index
    return LayerId(stack, index, values["cross"], tuple(subs), occurrence)


def valid_text(text: str) -> str:
    """Returns a text without half characters, which cannot be sent to a browser."""
    return text.encode(errors="replace").decode()
