"""What the tests of pages share."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def shared_measurements(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Pages show what another test may have had measured."""
    from tests.support.shared_measurements import SharedMeasurements

    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder  # which all workers have
    with pytest.MonkeyPatch.context() as patch:
        SharedMeasurements(folder / "measured").share(patch)
        yield
