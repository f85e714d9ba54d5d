"""Whether what a command is to write can be written: asked before anything is computed."""

import os
from collections.abc import Sequence
from pathlib import Path

from attnviz.base.formatting import enumeration, quoted


def check_output_file(path: Path, endings: Sequence[str] = ()) -> None:
    """Raises ValueError if a file cannot be written there, or has none of the endings, if there are some."""
    if not path.parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} for the file.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Name a file in it.")
    if endings and path.suffix not in endings:
        raise ValueError(
            f"{quoted(path.name)} has no ending that can be written; expected one of {enumeration(endings)}."
        )
    check_output_folder(path.parent)


def check_output_folder(path: Path) -> None:
    """Raises ValueError if nothing can be written in a folder, which may not be there yet."""
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is a file, not a folder.")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"Nothing can be written in the folder {existing}.")
