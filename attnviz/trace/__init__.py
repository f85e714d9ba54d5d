"""Traces: the attention of one model on one input, in memory or in a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from attnviz.layer import Layer
from attnviz.trace.folder_check import check
from attnviz.trace.problems import Problem
from attnviz.trace.reader import read_trace
from attnviz.trace.writer import TraceWriter

__all__ = ["Problem", "Trace", "TraceWriter", "check"]

PART = "A part of "  # begins a sentence on a layer that is partly shown


@dataclass(frozen=True, eq=False)
class Trace(Sequence[Layer]):
    """The attention of one model on one input: the layers in the order in which they ran, and what is missing."""

    layers: tuple[Layer, ...] = ()
    missing: tuple[str, ...] = ()  # what cannot be shown and why, in a sentence each
    model: str = ""  # its name, where it is known

    @overload
    def __getitem__(self, index: int) -> Layer: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Layer, ...]: ...
    def __getitem__(self, index: int | slice) -> Layer | tuple[Layer, ...]:
        return self.layers[index]

    def __repr__(self) -> str:
        names = [layer.name for layer in self.layers]
        some = names if len(names) < 4 else [names[0], "…", names[-1]]
        missing = f"; {len(self.missing)} missing" if self.missing else ""
        return f"Trace({len(names)} layers: {', '.join(some)}{missing})"

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def layer_count(self) -> int:
        """The number of attention layers that ran, also of those that are missing."""
        return len(self.layers) + sum(not sentence.startswith(PART) for sentence in self.missing)

    def save(self, folder: str | Path) -> None:
        """Writes the trace into a new or empty folder: trace.json, and a safetensors file for each layer.

        Numbers are written as they are; those of float32 in 16 bits where that changes none. Raises ValueError if the
        folder has files or cannot be written, or a layer's mechanism cannot be written as text and tensors.

        Example:
            >>> from tempfile import TemporaryDirectory
            >>> import torch, attnviz
            >>> trace = attnviz.capture(torch.nn.MultiheadAttention(8, 2), *[torch.randn(4, 8)] * 3)
            >>> with TemporaryDirectory() as folder:
            ...     trace.save(folder)
            ...     attnviz.Trace.load(folder)
            Trace(1 layers: layer 0)
        """
        writer = TraceWriter(folder, self.model)
        writer.finish([writer.add(layer) for layer in self.layers], self.missing)

    @classmethod
    def load(cls, folder: str | Path) -> "Trace":
        """Returns the trace in a folder, whose vectors are read when they are used: opening it takes no memory.

        Nothing in the folder is trusted, and no code in it is run. The numbers of a tensor are checked when it is first
        used; one that is not finite raises ValueError then. What an unfinished capture has written is opened, and
        `missing` says so. Raises ValueError with the first problem if the folder holds no trace, a damaged one, or one
        of a later version; `attnviz.trace.check` returns all problems.
        """
        contents = read_trace(Path(folder), most_problems=1)
        if contents.refusals:
            raise ValueError(str(contents.refusals[0]))
        return cls(contents.layers, contents.missing, contents.model)
