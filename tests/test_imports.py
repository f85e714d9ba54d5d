"""What importing the library takes with it: none of the packages that only the app, models or notebooks need."""

import re
import subprocess
import sys
from pathlib import Path

import attnviz
from attnviz.base.install_command import install_line

OTHERS = (
    *("streamlit", "transformers", "anywidget", "ipywidgets", "IPython", "pandas", "pyarrow", "starlette"),
    *("huggingface_hub", "tokenizers", "httpx2", "prometheus_client"),
)
LIBRARY = (
    *("analysis.head_metrics", "analysis.aggregation", "export", "figures", "lessons.lesson_files"),
    *("pages.lookup.gradients", "pages.steps.all_steps", "masks.cost", "masks.conventions", "sources", "translator"),
    "models.interventions",
)


def imported(program: str) -> set[str]:
    """Returns the names of the packages that a fresh process has imported after a program."""
    program += "\nimport sys\nprint(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_attnviz_imports_nothing_before_it_is_used() -> None:
    assert not imported("import attnviz.ui.server.command").intersection((*OTHERS, "torch", "plotly"))


PROGRAMS = {
    "names": "import attnviz; [getattr(attnviz, name) for name in attnviz.__all__]",
    "modules": "".join(f"import attnviz.{name}\n" for name in LIBRARY),
    "toy vectors": "from attnviz.sources import Toy; from attnviz.figures import mosaic\n"
    "[layer] = Toy('a b c').layers()\nmosaic(layer.mechanism(layer.inputs))",
    "translator": "from attnviz.translator import load\nload().translate('the small cat sleeps .').layers()",
    "capture": "import attnviz, torch\nattnviz.capture(torch.nn.MultiheadAttention(4, 2), *[torch.zeros(3, 4)] * 3)",
}


def test_the_library_does_without_the_packages_of_the_extras() -> None:
    found = imported("\n".join(PROGRAMS.values()))
    assert {"attnviz", "torch"} <= found
    assert not found.intersection(OTHERS)


def test_what_an_extra_is_needed_for_says_what_installs_it() -> None:
    program = "import sys; sys.modules['transformers'] = None\nfrom attnviz.sources import Model\nModel().layers()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: A trained model needs transformers, which is not installed. "
        f"Install with: {install_line('models')}"
    )


def test_type_checkers_see_every_public_name() -> None:
    program = (Path(__file__).parent / "typing" / "public_api.py").read_text()
    assert set(attnviz.__all__) <= set(re.findall(r"\w+", program))
