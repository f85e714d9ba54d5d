"""The notebooks in examples/ run as they are, each in a fresh kernel."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_attention(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells), "clear its outputs"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)


def test_the_page_on_notebooks_names_them_all() -> None:
    assert len(NOTEBOOKS) == 5
    page = (ROOT / "docs" / "notebook.md").read_text("utf-8")
    assert [path.name for path in NOTEBOOKS if f"`{path.name}`" not in page] == []
