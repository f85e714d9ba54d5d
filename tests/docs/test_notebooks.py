"""The notebooks in examples/ run as they are, each without the names of the others, and can be opened in Colab."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

from docs.tools.notebooks import IDS, NOTEBOOKS, ROOT, repository, text, with_colab_cells

PUBLISHED = "https://github.com/somebody/attnviz"


@pytest.fixture(scope="module")
def kernel() -> Iterator[AsyncKernelManager]:
    """One kernel for all notebooks: its imports and models take longer than most of them."""
    manager = AsyncKernelManager(kernel_name="python3")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(ROOT))
        execute(manager)
    yield manager
    run_sync(manager.shutdown_kernel)(now=True)


def execute(kernel: AsyncKernelManager, *sources: str, notebook: nbformat.NotebookNode | None = None) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    NotebookClient(notebook or nbformat.v4.new_notebook(cells=cells), timeout=300, km=kernel).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_attention(path: Path, kernel: AsyncKernelManager, tmp_path: Path) -> None:
    execute(kernel, f"%cd -q {tmp_path}", "%reset -f")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells), "clear its outputs"
    execute(kernel, notebook=notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)
    computed = "".join(output.get("text", "") or str(output.get("data", {}).get("text/plain")) for output in outputs)
    prose = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown").replace("−", "-")
    assert [number for number in re.findall(r"-?\d+\.\d\d", prose) if number not in computed] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_opens_in_colab_where_it_is_published(path: Path) -> None:
    file = path.read_text("utf-8")
    notebook = json.loads(file)
    expected = text(with_colab_cells(notebook, path.name, repository()))
    assert file == expected, "run python -m docs.tools.notebooks"
    published = with_colab_cells(notebook, path.name, PUBLISHED)
    nbformat.validate(published)
    link, installation = published["cells"][1:3]
    address = f"https://colab.research.google.com/github/somebody/attnviz/blob/main/examples/{path.name}"
    assert "".join(link["source"]).endswith(f"]({address})")
    assert all(line in "".join(installation["source"]) for line in ("google.colab", f"git+{PUBLISHED}"))
    needs_models = "models install" in "".join(installation["source"])
    assert needs_models == (path.stem[0] in "136")
    assert with_colab_cells(published, path.name, PUBLISHED) == published
    for elsewhere in ("", "https://example.org/attnviz"):
        assert not {cell["id"] for cell in with_colab_cells(published, path.name, elsewhere)["cells"]} & {*IDS}


def test_attnviz_is_installed_in_colab_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = with_colab_cells(json.loads(NOTEBOOKS[0].read_text("utf-8")), NOTEBOOKS[0].name, PUBLISHED)
    program = compile(TransformerManager().transform_cell("".join(notebook["cells"][2]["source"])), "cell", "exec")
    commands: list[str] = []
    shell = SimpleNamespace(system=commands.append, run_line_magic=lambda *magic: commands.append(" ".join(magic)))
    exec(program, {"get_ipython": lambda: shell})
    assert commands == []
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    exec(program, {"get_ipython": lambda: shell})
    assert commands == [f'pip install --quiet "attnviz[models,notebook] @ git+{PUBLISHED}"', "attnviz models install"]


def test_the_page_on_notebooks_names_them_all() -> None:
    assert len(NOTEBOOKS) == 6
    page = (ROOT / "docs" / "notebook.md").read_text("utf-8")
    assert [path.name for path in NOTEBOOKS if f"`{path.name}`" not in page] == []
