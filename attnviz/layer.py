"""One attention layer of one example: what every source gives a list of."""

from dataclasses import dataclass

from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention layer of one example: what every source gives a list of."""

    name: str  # "encoder 0"
    kind: str  # "self" · "causal" · "cross"
    inputs: Inputs
    mechanism: Mechanism  # the one it was made for; a page may swap any part of it
    fixed: str = ""  # why the mechanism may not be swapped, as a sentence; empty when it may
    # Of a model's layer, how sure its weights are: "verified" (some rows were compared with the model's own) ·
    # "captured, unchecked" · "the model's own weights" (as it computed them). Empty for what is from no model.
    standing: str = ""
