"""What TransformerLens finds in the seeded models; `make oracles` writes it."""

import json
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.support.browser import ROOT


@cache
def expected(name: str) -> Any:
    """Returns the numbers of a seeded model."""
    return json.loads((ROOT / "tests/effects/transformer_lens.json").read_text())[name]


def same(found: Tensor, numbers: Any) -> None:
    torch.testing.assert_close(found.double(), torch.tensor(numbers, dtype=torch.float64), atol=1e-4, rtol=0)
