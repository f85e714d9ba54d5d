import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

from attnviz import Mechanism
from attnviz.biases import SoftCap

NOWHERE = (torch.tensor(0),) * 4


@given(st.floats(-1e6, 1e6, width=32), st.floats(0.125, 1000, width=32))
def test_soft_cap_is_a_scaled_tanh_that_stays_within_the_cap(score, cap):
    capped = SoftCap(cap)(torch.tensor([score]), *NOWHERE).item()
    assert capped == pytest.approx(cap * math.tanh(score / cap), rel=1e-5, abs=1e-6)
    assert abs(capped) <= cap


def test_soft_cap_as_gemma_2_applies_it(random_inputs):
    inputs = random_inputs(d_k=16)
    query, key, value = (array[None] * 3 for array in (inputs.query, inputs.key, inputs.value))
    attention = torch.nn.Module()
    attention.num_key_value_groups, attention.training = 1, False
    _, expected = eager_attention_forward(attention, query, key, value, None, scaling=1 / 4, softcap=2.0)
    weights = Mechanism(biases=(SoftCap(2.0),)).stages(query, key, value, torch.tensor(True), NOWHERE).weights
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("cap", [0.0, -1.0, math.nan])
def test_a_cap_that_is_not_above_0_is_refused(cap):
    with pytest.raises(ValueError, match=rf"SoftCap needs a finite cap above 0; it got {cap}\."):
        SoftCap(cap)


def test_an_endless_cap_is_refused_or_changes_nothing():
    scores = torch.tensor([-1.0, 0.0, 2.0])
    try:
        bias = SoftCap(math.inf)
    except ValueError:
        return
    assert torch.equal(bias(scores, *NOWHERE), scores)
