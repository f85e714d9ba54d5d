"""What the tests of pages share."""

import os
from collections.abc import Iterator

import pytest

from tests.support.shared_effects import measured_once


@pytest.fixture(scope="session", autouse=True)
def shared_effects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Pages show effects of heads that another test may have had measured."""
    from attnviz.pages.effects import head_effects

    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "effects"  # which all workers have
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ablations", "mlp_ablations"):
            patch.setattr(head_effects, name, measured_once(getattr(head_effects, name), folder))
        yield
