"""The cells that open the notebooks of examples/ in Colab and install attnviz there.

`python -m docs.tools.notebooks` writes them if `Repository` in [project.urls] of pyproject.toml is on GitHub, from
which Colab opens notebooks, and removes them otherwise.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
GITHUB = "https://github.com/"
COLAB = "https://colab.research.google.com"
IDS = ("colab-link", "colab-installation")
USES_A_MODEL = re.compile(r"\b(?:Model|minilm|smollm2)\(")

Notebook = dict[str, Any]


def repository() -> str:
    """Returns where attnviz is published, as pyproject.toml says; empty until it is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "").rstrip("/").removesuffix(".git")


def with_colab_cells(notebook: Notebook, file_name: str, repository: str) -> Notebook:
    """Returns a notebook with two cells after its first: a link to Colab, and what installs attnviz there.

    Outside of Colab the second cell does nothing. Without a repository on GitHub there is neither.
    """
    cells = [cell for cell in notebook["cells"] if cell["id"] not in IDS]
    if not repository.startswith(GITHUB):
        return notebook | {"cells": cells}
    page = f"{COLAB}/github/{repository.removeprefix(GITHUB)}/blob/main/examples/{file_name}"
    link = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({page})"
    program = [
        "import sys",
        "",
        'if "google.colab" in sys.modules:',
        f'    %pip install --quiet "attnviz[models,notebook] @ git+{repository}"',
    ]
    if any(USES_A_MODEL.search("".join(cell["source"])) for cell in cells):
        program.append("    !attnviz models install")
    added = [_cell(IDS[0], "markdown", [link]), _cell(IDS[1], "code", program, execution_count=None, outputs=[])]
    return notebook | {"cells": [cells[0], *added, *cells[1:]]}


def text(notebook: Notebook) -> str:
    """Returns a notebook as its file has it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell(name: str, kind: str, lines: list[str], **fields: Any) -> dict[str, Any]:
    source = "\n".join(lines).splitlines(keepends=True)
    return dict(sorted({"cell_type": kind, "id": name, "metadata": {}, "source": source, **fields}.items()))


if __name__ == "__main__":
    published = repository()
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(text(with_colab_cells(notebook, path.name, published)), encoding="utf-8")
