"""A program that converts a .parquet file to .npz.

Some damaged files crash Arrow, or make it allocate any amount of memory although the file has but 300 bytes. Its
process starts in 0.1 s, so it imports little of attnviz.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import _
from attnviz.base.limited_process import InputRefusal, serve_input

COLUMNS = "columns of the matrix"  # the name of their names
INDEX = re.compile(r"|__index_level_[0-9]+__|index|id|idx|unnamed: [0-9]+|level_[0-9]+", re.IGNORECASE)
TOKENS = ("token", "tokens", "query_tokens", "key_tokens")


def arrays(data: bytes, rows: int, length: int, limit: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the columns by name: columns of lists or text each alone, plain numbers together without a name."""
    file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
    footer = file.metadata
    if footer.num_rows > rows:
        raise InputRefusal(
            _(
                "This file has {rows} rows; at most {most} can be shown.",
                rows=grouped(footer.num_rows),
                most=grouped(rows),
            )
        )
    declared = sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
    if max(declared, footer.num_rows * footer.num_columns * 8) > limit:
        raise _too_large(limit)
    texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
    for field in file.schema_arrow:
        if not (_is_text(field.type) or _is_number(_item(field.type))):
            raise InputRefusal(
                _(
                    "Column {name} holds {kind}, not numbers or text. Remove it.",
                    name=quoted(field.name),
                    kind=quoted(str(field.type)),
                )
            )
    unnamed = [name for name in texts if name.lower() not in TOKENS]
    if unnamed and len(texts) > 1:
        raise InputRefusal(
            _("Column {name} holds text, and so does another. Name the tokens “tokens”.", name=quoted(unnamed[0]))
        )
    table = file.read(use_threads=False)
    names, dimensions = [], []
    index = _pandas_index(file.schema_arrow)
    for field, column in zip(table.schema, table.columns, strict=True):
        values = pc.list_flatten(column) if _item(field.type) != field.type else column
        if column.null_count or values.null_count:
            raise InputRefusal(
                _("Column {name} has empty cells. Fill them, or remove the column.", name=quoted(field.name))
            )
        if values is not column:
            if len(pc.unique(pc.list_value_length(column))) > 1:
                raise InputRefusal(
                    _("The lists in column {name} differ in length. Make them equally long.", name=quoted(field.name))
                )
            yield field.name, values.to_numpy().reshape(len(column), -1)
        elif field.name in texts:
            name = "tokens" if field.name in unnamed else field.name
            yield name, np.array([text[:length] for text in column.to_pylist()], dtype="U")
        elif field.name.lower() in TOKENS:
            raise InputRefusal(
                _("Column {name} must hold text. Save it as text, or give it another name.", name=quoted(field.name))
            )
        elif field.name not in index and not INDEX.fullmatch(field.name):
            names.append(field.name[:length])
            dimensions.append(values.to_numpy())
    if dimensions:
        if len(names) <= rows:
            yield COLUMNS, np.array(names, dtype="U")
        yield "", np.stack(dimensions, axis=1)


def _pandas_index(schema: pa.Schema) -> list[str]:
    """Returns the names of the columns in which pandas has written an index."""
    try:
        columns = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in columns if isinstance(name, str)]
    except (KeyError, TypeError, ValueError, RecursionError):  # it was not written by pandas
        return []


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _item(kind: pa.DataType) -> pa.DataType:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return kind.value_type if lists else kind


def _too_large(limit: int) -> InputRefusal:
    return InputRefusal(
        _(
            "This file would take more than {megabytes} MB of memory. Upload fewer columns.",
            megabytes=grouped(limit >> 20),
        )
    )


def write_npz(data: bytes, rows: str, length: str, limit: str) -> None:
    """Writes a .parquet file of at most `rows` rows and `limit` bytes of numbers as .npz. Names are cut after
    `length` characters."""
    parts = list(arrays(data, int(rows), int(length), int(limit)))
    if sum(array.nbytes for _name, array in parts) > int(limit):
        raise _too_large(int(limit))
    with zipfile.ZipFile(sys.stdout.buffer, "w") as archive:
        for name, array in parts:
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


if __name__ == "__main__":
    sys.modules["pandas"] = None  # type: ignore[assignment]  # Arrow would import it, which takes 0.2 s
    serve_input(write_npz)
