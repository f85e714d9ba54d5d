"""A capture that nobody wants any more ends between two layers, and leaves the model as it was."""

import pytest
import torch

from attnviz.base.interruption import end_if_unwanted, interruptible
from attnviz.base.text import EXAMPLE
from attnviz.models.minilm import minilm


class Unwanted(BaseException):
    """What ends the run of a page, too, is no Exception."""


def test_a_capture_ends_between_two_layers_and_the_model_still_works():
    model, parts = minilm(), []

    def check() -> None:
        parts.append(1)
        if len(parts) == 3:
            raise Unwanted

    model.forget_examples()
    expected = model.layers(EXAMPLE)
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.model.modules()]
    model.forget_examples()
    with pytest.raises(Unwanted), interruptible(check):
        model.layers(EXAMPLE)
    assert len(parts) == 3
    assert hooks == [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.model.modules()]
    assert not model.has_captured(EXAMPLE)
    again = model.layers(EXAMPLE)
    for before, after in zip(expected, again, strict=True):
        assert torch.equal(before.inputs.query, after.inputs.query)


def test_without_a_check_nothing_ends():
    end_if_unwanted()
    with interruptible(lambda: None):
        end_if_unwanted()
    with pytest.raises(Unwanted), interruptible(_refuse):
        end_if_unwanted()
    end_if_unwanted()


def _refuse() -> None:
    raise Unwanted
