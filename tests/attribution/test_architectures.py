"""Sums of every architecture that is captured: that they add up, as the table of the documentation says."""

import pytest

from attnviz.attribution import Attribution
from docs.tools.tables import ATTRIBUTIONS, attributions, table
from tests.support.architectures import ZOO
from tests.support.attributions import error, sums
from tests.support.torch_architectures import TORCH_ZOO

ALL = (*ZOO, *TORCH_ZOO)
REFUSED = {"FlexAttention"}  # on a CPU


def check(found: Attribution) -> None:
    terms = float(found.embeddings.sum() + found.heads.sum() + found.mlps.sum())
    assert found.total == pytest.approx(found.constant + found.bias + terms, abs=2e-4)
    assert error(found) < 1e-6
    assert "" not in found.constant_parts
    assert sum(found.constant_parts.values()) == pytest.approx(found.constant, abs=1e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("architecture", ALL, ids=lambda architecture: architecture.name)
def test_sums_of_an_architecture_add_up(architecture) -> None:
    found = sums(architecture)
    assert table((), [found.row]).splitlines()[-1] in ATTRIBUTIONS.read_text("utf-8"), "run python -m docs.tools.tables"
    assert bool(found.layers) == (architecture.name not in REFUSED)
    if found.of_output:
        check(found.of_output)
        assert found.of_output.total == pytest.approx(found.own_output, abs=2e-4)
        assert found.of_output.heads.abs().sum() > 0
    if found.of_score:
        check(found.of_score)


def test_the_table_has_a_row_for_each_architecture() -> None:
    assert len(ATTRIBUTIONS.read_text("utf-8").splitlines()) == len(ALL) + 2
    assert attributions([]) == "\n".join(ATTRIBUTIONS.read_text("utf-8").splitlines()[:2]) + "\n"
