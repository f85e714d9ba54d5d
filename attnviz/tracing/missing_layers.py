"""The attention of a forward pass that cannot be shown, with reasons."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from attnviz.base.formatting import grouped
from attnviz.inputs import is_bounded
from attnviz.layer import Layer
from attnviz.trace import PART
from attnviz.tracing.layer_naming import LayerNames
from attnviz.tracing.memory_budget import NotCaptured
from attnviz.tracing.tensor_marks import RecordedSoftmax
from attnviz.tracing.unbounded_numbers import UnboundedNumbers
from attnviz.tracing.weighted_sums import WeightedSums

Recorded = Sequence[tuple[Layer, str]]  # layers with the paths of their modules


class MissingLayers:
    """The layers of a forward pass that are not captured, the modules whose attention is not recognized, and the keys
    that have no names.

    `sums` follows what the modules compute; `first_unbounded` is the module that is the first to return NaN or
    infinity, where that is known.
    """

    def __init__(self, names: LayerNames, record: Callable[[RecordedSoftmax, Tensor | None], None]) -> None:
        self.names = names
        buffers = (buffer for module in names.modules for buffer in module.buffers(recurse=False))
        self.sums = WeightedSums(buffers, record)
        self.first_unbounded: nn.Module | None = None
        self._reasons: dict[str, tuple[str, NotCaptured]] = {}  # by the module's path, with the layer's name

    def add(self, module: nn.Module, reason: NotCaptured) -> None:
        self._reasons.setdefault(self.names.modules[module], (str(self.names.layer_id(module)), reason))

    def update(self, other: "MissingLayers") -> None:
        """Adds what is missing in another forward pass of the same modules."""
        self._reasons |= other._reasons
        self.sums.modules |= other.sums.modules

    def __contains__(self, path: str) -> bool:
        return path in self._reasons

    def __bool__(self) -> bool:
        return bool(self._reasons)

    @property
    def is_unbounded(self) -> bool:
        """Whether a layer is missing because its numbers are not bounded."""
        return any(isinstance(reason, UnboundedNumbers) for _, reason in self._reasons.values())

    def sentences(self, recorded: Recorded) -> list[str]:
        """Returns what is missing and why, one sentence each."""
        shown = {layer.name for layer, path in recorded if path not in self}
        return [
            f"{PART if name in shown else ''}{name} is not shown: {reason}"
            f"{self._source_of_unbounded() if isinstance(reason, UnboundedNumbers) else ''}."
            for name, reason in self._reasons.values()
        ] + self.unrecognized(recorded)

    def unrecognized(self, recorded: Recorded = ()) -> list[str]:
        """Returns the modules that compute attention which is not recorded and why, one sentence each."""
        paths = {path for _, path in recorded}
        return [
            f"{PART if self.names.modules[module] in paths else ''}{self._module_name(module)} is not shown: "
            f"{self._why_unrecognized(module, *weights)}."
            for module, weights in self.sums.modules.items()
            if self.names.modules[module] not in self
        ]

    def unnamed_keys(self, recorded: Recorded) -> list[str]:
        """Returns which keys in a cache are not known, one sentence for layers with equally many."""
        paths = {path for _, path in recorded}
        layers: dict[tuple[int, int], list[str]] = {}
        for module, counts in self.names.unnamed.items():
            if counts[0] and self.names.modules[module] in paths:
                layers.setdefault(counts, []).append(str(self.names.layer_id(module)))
        return [
            f"{grouped(unknown)} of the {grouped(keys)} keys of {', '.join(names)} have their places in the cache as "
            "names: they were not computed in this capture, or have changed since."
            for (unknown, keys), names in layers.items()
        ]

    def _source_of_unbounded(self) -> str:
        """Returns where numbers that are out of bounds come from, as the end of a sentence."""
        module = self.first_unbounded
        if module is None:
            return ". Check the weights and inputs of the model, or compute in float32"
        name = self._module_name(module)
        if all(map(is_bounded, module.parameters())):
            return f", which {name} is the first to return. Check what goes into the model, or compute in float32"
        return f", which comes from the weights of {name}. Check the files that they were loaded from"

    def _why_unrecognized(self, module: nn.Module, keys: int, source: nn.Module) -> str:
        if isinstance(module, torch.jit.ScriptModule):
            return "its attention is compiled by torch.jit. Capture the module that it was made of"
        if not keys:
            return "its operator of attention is not known here. Let it call F.scaled_dot_product_attention"
        weights = "" if source is module else f", with weights that {self._module_name(source)} computes"
        return f"it computes attention over {keys} keys itself{weights}. Let it call F.scaled_dot_product_attention"

    def _module_name(self, module: nn.Module) -> str:
        kind = getattr(module, "original_name", type(module).__name__)  # that of torch.jit is the same for all
        path = self.names.modules[module]
        return f"{path} ({kind})" if path else kind
