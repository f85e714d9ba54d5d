"""The writer of a trace, layer by layer, so that no more than one is in memory."""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from attnviz.base.formatting import quoted
from attnviz.layer import Layer
from attnviz.mechanism import Mechanism
from attnviz.trace.layer_file import describe_tensors, write_tensors
from attnviz.trace.manifest import TokenAxis, write_manifest
from attnviz.trace.mapped_inputs import Mapped
from attnviz.trace.mechanism_parts import describe_mechanism
from attnviz.trace.reader import open_layer


class TraceWriter:
    """Writes layers into a new or empty folder as they come. Until it is finished, trace.json says so.

    Raises ValueError if the folder has files or cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import torch, attnviz
        >>> trace = attnviz.capture(torch.nn.MultiheadAttention(8, 2), *[torch.randn(4, 8)] * 3)
        >>> with TemporaryDirectory() as folder:
        ...     writer = TraceWriter(folder)
        ...     layers = [writer.add(layer) for layer in trace]
        ...     attnviz.Trace.load(folder).missing[0][:23]
        'This trace is not whole'
    """

    def __init__(self, folder: str | Path, model: str = "") -> None:
        self.folder, self.model = Path(folder).expanduser(), model
        self._axes: dict[TokenAxis, int] = {}
        self._layers: dict[str, dict[str, Any]] = {}  # as the manifest has them, by file
        self._count = 0
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise ValueError(f"{quoted(self.folder.name)} has files already. Give a new folder for the trace.")
            self._write_manifest()

    def add(self, layer: Layer) -> Layer:
        """Writes a layer, and returns it with its vectors mapped from the file.

        Raises NotSaved, a ValueError, if its mechanism cannot be written as text, and ValueError if the disk is
        full: layers written before can be opened.
        """
        file = f"layer-{self._count:04}.safetensors"
        inputs = layer.inputs
        mechanism, tensors = None, dict[str, Tensor]()
        if isinstance(layer.mechanism, Mechanism):
            mechanism, tensors = describe_mechanism(layer.mechanism, (inputs.queries, inputs.keys, inputs.heads))
        tensors = {name: getattr(inputs, name) for name in inputs.tensors} | tensors
        with self._writing(self.folder / file):
            written = write_tensors(self.folder / file, tensors)
            self._count += 1
            described = {"file": file, "tensors": describe_tensors(written), "mechanism": mechanism}
            self._layers[file] = described | self._describe(layer)
            self._write_manifest()
        return open_layer(self.folder, self._layers[file], [*self._axes])

    def finish(self, layers: Sequence[Layer], missing: Sequence[str] = ()) -> None:
        """Writes that the trace is whole: these layers, as `add` has returned them or with other ids, and what is
        missing. Files of other layers are removed."""
        kept: dict[str, dict[str, Any]] = {}
        for layer in layers:
            file = layer.inputs.file if isinstance(layer.inputs, Mapped) else ""
            kept[file] = self._layers[file] | self._describe(layer)
        self._keep(kept, whole=True, missing=missing)

    def _keep(self, kept: dict[str, dict[str, Any]], **state: Any) -> None:
        """Removes all other layers."""
        removed, self._layers = self._layers.keys() - kept.keys(), kept
        with self._writing():
            self._write_manifest(**state)
            for file in removed:
                (self.folder / file).unlink()

    def _describe(self, layer: Layer) -> dict[str, Any]:
        inputs = layer.inputs
        return {
            "id": asdict(layer.id) | {"sub_indices": [*layer.id.sub_indices]},
            "kind": layer.kind,
            "fidelity": layer.fidelity,
            "locked_reason": layer.locked_reason,
            "comparison": layer.comparison,
            "leak": layer.leak,
            "queries": self._axis(inputs.query_tokens, inputs.special_queries, inputs.query_ids, inputs.query_grids),
            "keys": self._axis(inputs.key_tokens, inputs.special_keys, inputs.key_ids, inputs.key_grids),
        }

    def _axis(self, *axis: Any) -> int:
        return self._axes.setdefault(axis, len(self._axes))

    def _write_manifest(self, *, whole: bool = False, missing: Sequence[str] = ()) -> None:
        axes = [
            {"tokens": tokens, "special": special, "ids": ids, "grid": [asdict(grid) for grid in grids]}
            for tokens, special, ids, grids in self._axes
        ]
        layers = [*self._layers.values()]
        content = {"model": self.model, "whole": whole, "missing": [*missing], "axes": axes, "layers": layers}
        write_manifest(self.folder, content)

    @contextmanager
    def _writing(self, file: Path | None = None) -> Iterator[None]:
        """Turns what a disk refuses into a sentence, and removes the part of a file that it has taken."""
        try:
            yield
        except OSError as error:
            if file is not None:
                with contextlib.suppress(OSError):
                    file.unlink()
                self._layers.pop(file.name, None)
            written = f" What was written before, {len(self._layers)} layers, can be opened." if self._layers else ""
            raise ValueError(
                f"The trace cannot be written into {quoted(self.folder.name)}: {error.strerror or error}. Make room "
                f"or give a folder that can be written.{written}"
            ) from error
