"""attnviz atlas: what it writes, and what it says."""

from pathlib import Path

import pytest

import attnviz
from attnviz.command.atlas import main
from attnviz.models import MINILM


def test_the_atlas_of_a_file_of_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("the cat sat\nit rains\n", "utf-8")
    main([MINILM, str(tmp_path / "texts.txt"), "-o", str(tmp_path / "atlas")])
    said = capsys.readouterr()
    assert "72 heads over 2 texts" in said.out
    assert "2 of 2 texts" in said.err
    assert "replaced" not in said.err
    main([MINILM, str(tmp_path / "texts.txt"), "-o", str(tmp_path / "atlas")])
    assert "atlas.safetensors is replaced at the end" in capsys.readouterr().err
    found = attnviz.load(tmp_path / "atlas" / "atlas.safetensors")
    assert found.model == MINILM
    assert found.result.texts == ("the cat sat", "it rains")


@pytest.mark.parametrize(
    ("texts", "output", "sentence"),
    [
        ("missing.txt", "atlas", "cannot be read as lines of text"),
        ("empty.txt", "atlas", "at least one text"),
        ("long.txt", "atlas", "tokens"),
        ("texts.txt", "texts.txt", "is a file, not a folder"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, texts: str, output: str, sentence: str) -> None:
    (tmp_path / "empty.txt").write_text("\n", "utf-8")
    (tmp_path / "texts.txt").write_text("it rains\n", "utf-8")
    (tmp_path / "long.txt").write_text("it rains " * 2_000, "utf-8")
    with pytest.raises(SystemExit, match=sentence):
        main([MINILM, str(tmp_path / texts), "-o", str(tmp_path / output)])
