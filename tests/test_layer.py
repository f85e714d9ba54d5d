"""What a notebook shows of layers."""

import torch

import attnviz
from attnviz import Inputs, Layer, Mechanism
from attnviz.layer import Fidelity, Kind, LayerId
from attnviz.trace import Trace

INPUTS = Inputs(*torch.zeros(3, 2, 3, 4), tuple("abc"), tuple("abc"))
LAYERS = tuple(Layer(LayerId("encoder", i), Kind.SELF, INPUTS, Mechanism(), Fidelity.VERIFIED) for i in range(12))


def test_the_repr_is_one_line_with_shapes():
    assert repr(LAYERS[3]) == "Layer(encoder 3: self, 2 heads, 3 queries × 3 keys, verified)"
    assert repr(Trace(LAYERS, ("What is missing.",))) == "Trace(12 layers: encoder 0, …, encoder 11; 1 missing)"
    assert repr(Trace(LAYERS[:2])) == "Trace(2 layers: encoder 0, encoder 1)"


def test_all_public_names_are_listed_before_they_are_used():
    assert set(attnviz.__all__) <= set(dir(attnviz))
    assert attnviz.capture.__name__ == "capture"
