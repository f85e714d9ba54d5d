"""What cannot be written is refused before anything is computed."""

import os
from pathlib import Path

import pytest

from attnviz.command.output_file import check_output_file, check_output_folder


def test_a_new_file_in_a_folder_is_fine(tmp_path: Path) -> None:
    check_output_file(tmp_path / "figure.svg", (".svg",))
    check_output_file(tmp_path / "any name")
    check_output_folder(tmp_path / "new" / "newer")


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file, not a folder"):
        check_output_folder(tmp_path / "file" / "trace")


def test_a_folder_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="Nothing can be written in the folder"):
        check_output_file(tmp_path / "figure.svg")
    with pytest.raises(ValueError, match=f"in the folder {tmp_path}"):
        check_output_folder(tmp_path / "new" / "newer")
