"""Activations: what a part of a model computed, and from what."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from attnviz.base.cached_property import cached_property

OperationName = Literal[
    "input", "linear", "rotation", "norm", "scores", "softmax", "weighted sum", "concat", "product", "add"
]
SublayerKind = Literal["embedding", "attention", "cross", "network", "output"]


@dataclass(frozen=True, eq=False)
class Activation:
    """The result of one part of a sublayer.

    Values of a part that works head by head have the axes (heads, rows, columns), others (rows, columns); `shared`
    heads in a row have the same keys and values (grouped-query attention). `weight` and `bias` are those of a linear
    map, or the gain and the bias of a norm; those of queries, keys and values begin with the axis of the heads. A
    rotation turns each of the first `rotated` / 2 columns together with the one `rotated` / 2 further on.
    """

    sublayer: str
    part: str
    symbol: str  # as in a formula; an index follows _, and a power ^
    formula: str
    about: str
    operation: OperationName
    sources: tuple["Activation", ...]
    values: Float[Tensor, "*heads rows columns"]
    rows: tuple[str, ...]
    columns: Sequence[str] = ()  # the names of keys or words; dimensions have none
    weight: Float[Tensor, "..."] | None = None
    bias: Float[Tensor, "..."] | None = None
    shared: int = 1
    rotated: int = 0

    @property
    def name(self) -> str:
        """The sublayer and the part, such as “encoder 0 attention weights”."""
        return f"{self.sublayer} {self.part}"

    @property
    def by_head(self) -> bool:
        """Whether each head has values of its own."""
        return self.values.ndim == 3

    def head_values(self, head: int) -> Float[Tensor, "rows columns"]:
        """Returns the values of one head, or the values if all heads share them."""
        return self.values[head // self.shared] if self.by_head else self.values

    def head_weight(self, head: int) -> Float[Tensor, "inputs columns"] | None:
        """Returns the weight of one head, or the weight if all heads share it."""
        return self.weight if self.weight is None or self.weight.ndim < 3 else self.weight[head // self.shared]

    def head_bias(self, head: int) -> Float[Tensor, " columns"] | None:
        """Returns the bias of one head, or the bias if all heads share it."""
        return self.bias if self.bias is None or self.bias.ndim < 2 else self.bias[head // self.shared]


@dataclass(frozen=True, eq=False)
class Sublayer:
    """A sublayer with its activations in the order of the computation; the last is its output."""

    name: str
    stack: str  # "encoder" or "decoder"
    layer: int | None  # None: of the embedding or the output
    kind: SublayerKind
    activations: list[Activation] = field(default_factory=list)

    @property
    def output(self) -> Activation:
        return self.activations[-1]


class ActivationRecord(Mapping[str, Activation]):
    """All activations of one forward pass by name, in the order of the computation.

    Example:
        >>> from attnviz.models.translator import translator
        >>> from attnviz.pages.transformer.model_activations import model_activations
        >>> record = model_activations(translator(), "I sleep.", "je")
        >>> record["decoder 1 cross weights"].values.shape
        torch.Size([4, 2, 3])
        >>> record["decoder 1 cross weights"].sources[0].name
        'decoder 1 cross scores'
    """

    def __init__(self, sublayers: tuple[Sublayer, ...], heads: int) -> None:
        self.sublayers, self.heads = sublayers, heads

    @cached_property
    def _by_name(self) -> dict[str, Activation]:
        return {one.name: one for sublayer in self.sublayers for one in sublayer.activations}

    def __getitem__(self, name: str) -> Activation:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @cached_property
    def layers(self) -> dict[str, tuple[Sublayer, ...]]:
        """The sublayers of each layer, by the name of the layer, such as “encoder 0”."""
        names = dict.fromkeys(layer_name(one) for one in self.sublayers)
        return {name: tuple(one for one in self.sublayers if layer_name(one) == name) for name in names}


def layer_name(sublayer: Sublayer) -> str:
    """Returns the name of the layer of a sublayer; embedding and output are layers of their own."""
    return sublayer.name if sublayer.layer is None else f"{sublayer.stack} {sublayer.layer}"
