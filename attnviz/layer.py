"""One attention layer of one example."""

from dataclasses import dataclass
from enum import StrEnum

from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism


@dataclass(frozen=True)
class LayerId:
    """Which attention of a model a layer is. Its `str` is the layer's name in menus and links.

    Example:
        >>> str(LayerId("encoder", 0)), str(LayerId("decoder", 1, cross=True))
        ('encoder 0', 'decoder 1 cross')
        >>> str(LayerId("encoder", 1, sub_indices=(2,)))
        'encoder 1.2'
    """

    stack: str = "layer"  # "encoder", "decoder", "vision", …; "layer" where there is only one
    index: int | str | None = None  # counted from 0, or the name of a module without a number
    cross: bool = False
    sub_indices: tuple[int, ...] = ()  # further numbers, where the index alone does not tell two layers apart
    occurrence: int | None = None  # which run of the same module, counted from 0, where it runs several times

    @property
    def number(self) -> str:
        """The index with the sub-indices, such as "1.2"; empty where the layer has no number."""
        return ".".join(map(str, (self.index, *self.sub_indices))) if isinstance(self.index, int) else ""

    def __str__(self) -> str:
        name = self.number or self.index
        parts = [self.stack, *([name] if name else []), *["cross"] * self.cross]
        return " ".join(map(str, parts)) + ("" if self.occurrence is None else f" · {self.occurrence}")


class Kind(StrEnum):
    """Which keys the queries of a layer attend to."""

    SELF = "self"  # the same tokens
    CAUSAL = "causal"  # the same tokens, up to the query
    CROSS = "cross"  # other tokens


class Fidelity(StrEnum):
    """How certain it is that a captured layer has the model's own weights."""

    VERIFIED = "verified"  # recomputed from queries and keys, and compared with the model's own
    UNVERIFIED = "unverified"  # recomputed from queries and keys; the model gives nothing to compare with
    WEIGHTS_ONLY = "weights_only"  # as the model computed them, without queries and keys


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention layer of one example: its inputs and its mechanism."""

    id: LayerId
    kind: Kind
    inputs: Inputs
    mechanism: Mechanism  # the one it was made for; a page may exchange any part of it
    fidelity: Fidelity | None = None  # None where nothing was captured from a model
    locked_reason: str = ""  # why the mechanism cannot be changed, as a sentence; empty where it can
    comparison: str = ""  # what was compared with the model's own and how exactly, as a sentence; empty if nothing was
    leak: str = ""  # which keys have weight although the model's mask meant to forbid them, in sentences

    def __repr__(self) -> str:
        heads, queries, keys = self.inputs.heads, self.inputs.queries, self.inputs.keys
        fidelity = f", {self.fidelity}" if self.fidelity else ""
        return f"Layer({self.name}: {self.kind}, {heads} heads, {queries} queries × {keys} keys{fidelity})"

    @property
    def name(self) -> str:
        return str(self.id)

    @property
    def locked(self) -> bool:
        """Whether the mechanism cannot be changed."""
        return bool(self.locked_reason)
