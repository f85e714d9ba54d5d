"""The coverage of `capture`: every architecture of the zoo against its own eager attention."""

import pytest

from tests.support.architectures import HEADER, ZOO, compared
from tests.support.torch_architectures import TORCH_ZOO, compared_module


@pytest.mark.parametrize("architecture", ZOO, ids=lambda architecture: architecture.name)
def test_every_head_of_an_architecture_has_the_models_own_weights(architecture, record_property):
    row = compared(architecture)
    record_property(HEADER, str(row))
    assert (row.layers, row.fidelity, row.missing) == (architecture.layers, architecture.fidelity, 0)
    assert row.sharpness > 0.25, "rows near uniform would prove little"
    assert row.difference < 1e-5


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("architecture", TORCH_ZOO, ids=lambda architecture: architecture.name)
def test_every_head_of_a_module_of_torch_has_its_own_weights(architecture, record_property):
    row = compared_module(architecture)
    record_property(HEADER, str(row))
    assert (row.layers, row.fidelity, row.missing) == (architecture.layers, architecture.fidelity, 0)
    assert row.sharpness > 0.25, "rows near uniform would prove little"
    assert row.difference < 1e-5


def test_the_zoo_is_as_large_as_promised():
    assert len({architecture.config for architecture in ZOO}) >= 45
